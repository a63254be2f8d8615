"""`dustream run` with each extractor on every collection of real pages, side by side: python bench/extractors.py

Each run is a process of its own with a fresh state and one worker; processor seconds are those of both. The pages
come from the folder DUSTREAM_DATA (default: ../shared/data beside the repository); without it, a generated web is run.
A run of all collections writes bench/results/extractors.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from pages import data_folder
from result_files import Table, write_result

from dustream.streams.generate import generate

COLLECTIONS = {
    "networkx": "A_networkx_doc",
    "kafka": "A_kafka_site",
    "dolphinscheduler": "A_dolphinscheduler_zh_en",
    "many sites": "C_pages_multisite",
    "flink recrawl": "B_recrawl_flink",
}
TIMES = {"B_recrawl_flink.jsonl.zst": "t"}  # the field with the time of a fetch, where it is not fetched_at
EXTRACTORS = ("scan", "resiliparse")
GENERATED_PAGES, WARM_UP_PAGES = 2_000, 200
DUSTREAM = str(Path(sys.executable).with_name("dustream"))  # of this environment, which need not be on the path


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(path: Path, extractor: str) -> dict[str, Any]:
    """The summary of a run, with the processor seconds it took."""
    with tempfile.TemporaryDirectory() as out:
        before = children_seconds()
        mapped = ["--map", f"fetched_at={TIMES[path.name]}"] if path.name in TIMES else []
        options = ["--out", out, "--extractor", extractor, "--jobs", "1", "--json", "--quiet", *mapped]
        command = [DUSTREAM, "run", str(path), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout) | {"processor_s": children_seconds() - before}


def row(name: str, extractor: str, summary: dict[str, Any]) -> list[Any]:
    roles, relations, stages = summary["roles"], summary["relations"], summary["seconds_per_stage"]
    return [
        name, extractor, summary["events"], summary["pages"], round(summary["processor_s"]), round(stages["sign"], 1),
        summary["groups"], roles.get("duplicate", 0), relations.get("exact", 0), relations.get("near", 0),
        roles.get("held", 0), summary["largest_group"], summary["rejected"],
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=COLLECTIONS, action="append", help="this collection (may be repeated)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        warm_up(Path(scratch))
        table = table_of(inputs(args.only or list(COLLECTIONS), Path(scratch)))
    print(table.markdown())
    if data_folder() is not None and not args.only:
        write_result("extractors", [table])
    return 0


def inputs(wanted: list[str], scratch: Path) -> dict[str, Path]:
    """The files of the collections; where there are none, one of a generated web."""
    folder = data_folder()
    if folder is not None:
        return {name: folder / f"{COLLECTIONS[name]}.jsonl.zst" for name in wanted}
    print("no real pages (set DUSTREAM_DATA): a generated web instead")
    return {"generated": generated(scratch, GENERATED_PAGES)}


def generated(scratch: Path, pages: int) -> Path:
    path = scratch / f"generated-{pages}.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in generate(pages, 7)))
    return path


def warm_up(scratch: Path) -> None:
    """Compile and cache what a first run compiles, so that no run below is charged for it."""
    for extractor in EXTRACTORS:
        run(generated(scratch, WARM_UP_PAGES), extractor)


def table_of(files: dict[str, Path]) -> Table:
    columns = [
        "pages", "extractor", "events", "URLs", "processor s", "signing s", "groups", "duplicates", "exact", "near",
        "held", "largest group", "rejected",
    ]  # fmt: skip
    rows = [row(name, extractor, run(path, extractor)) for name, path in files.items() for extractor in EXTRACTORS]
    return Table("`dustream run` with each extractor", columns, rows)


if __name__ == "__main__":
    sys.exit(main())
