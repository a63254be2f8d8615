"""bench/results/NAME.json: the figures of a benchmark, with the command, commit and machine that gave them.

A file is written when its benchmark is complete, and replaces the former one at once. Tables in docs are made from
these files: `python bench/result_files.py` writes those that docs ask for by a line as

    <!-- bench/results/winners.json, table 2 -->

before the table, and docs/results.md (results_page.py). `python bench/result_files.py NAME` prints the tables of a
benchmark.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "results"
DOCS = HERE.parent / "docs"
ASKED = re.compile(r"(<!-- bench/results/([\w-]+)\.json, table (\d+) -->)\n\n(?:\|.*\n)*\n*")


class Table(NamedTuple):
    """Figures in rows; what is in a cell is a number or a text, as it is printed."""

    title: str
    columns: list[str]
    rows: list[list[Any]]

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def write_result(name: str, tables: list[Table], command: str | None = None) -> Path:
    """Write the figures of a benchmark that is complete."""
    FOLDER.mkdir(exist_ok=True)
    result = {
        "name": name,
        "command": command or " ".join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "commit": _commit(),
        "machine": machine(),
        "tables": [table._asdict() for table in tables],
    }
    path = FOLDER / f"{name}.json"
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    os.replace(temporary, path)
    return path


def read_tables(name: str) -> list[Table]:
    return [Table(**table) for table in json.loads((FOLDER / f"{name}.json").read_text())["tables"]]


def machine() -> str:
    """Processor, cores and memory."""
    model = platform.processor() or platform.machine()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        named = [line.partition(":")[2].strip() for line in cpuinfo.open() if line.startswith("model name")]
        model = named[0] if named else model
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{model}, {os.cpu_count()} cores, {memory_gb:.0f} GB, Python {platform.python_version()}"


def _commit() -> str:
    """The commit that was measured; with + if the tree had changes."""
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--abbrev=12"]
    found = subprocess.run(git, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def with_tables(text: str) -> str:
    """A document with the tables that it asks for as they are now."""

    def table(asked: re.Match[str]) -> str:
        return f"{asked[1]}\n\n{read_tables(asked[2])[int(asked[3]) - 1].markdown()}\n\n"

    return ASKED.sub(table, text).rstrip() + "\n"


def main() -> int:
    for name in sys.argv[1:]:
        for table in read_tables(name):
            print(f"\n{table.title}\n\n{table.markdown()}")
    for path in [] if sys.argv[1:] else sorted(DOCS.rglob("*.md")):
        if (text := path.read_text()) != (now := with_tables(text)):
            path.write_text(now)
            print(f"{path.name}: new tables")
    if not sys.argv[1:]:
        from results_page import write_page

        if write_page():
            print("results.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
