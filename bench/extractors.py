"""`dustream run` with each extractor on every collection of real pages, side by side: python bench/extractors.py

Each run is a process of its own with a state of its own; processor seconds are those of it and its workers. The pages
come from the folder DUSTREAM_DATA (default: ../shared/data beside the repository); without it, a generated web is run.
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

from dustream.streams.generate import generate

COLLECTIONS = {
    "networkx": "A_networkx_doc",
    "kafka": "A_kafka_site",
    "dolphinscheduler": "A_dolphinscheduler_zh_en",
    "many sites": "C_pages_multisite",
    "flink recrawl": "B_recrawl_flink",
}
EXTRACTORS = ("scan", "resiliparse")
GENERATED_PAGES = 2_000
DUSTREAM = str(Path(sys.executable).with_name("dustream"))  # of this environment, which need not be on the path


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(path: Path, extractor: str) -> dict[str, Any]:
    """The summary of a run, with the processor seconds it took."""
    with tempfile.TemporaryDirectory() as out:
        before = children_seconds()
        command = [DUSTREAM, "run", str(path), "--out", out, "--extractor", extractor, "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout) | {"processor_s": children_seconds() - before}


def row(name: str, extractor: str, summary: dict[str, Any]) -> str:
    roles, relations, stages = summary["roles"], summary["relations"], summary["seconds_per_stage"]
    cells = (
        name, extractor, summary["events"], summary["pages"], f"{summary['processor_s']:.0f}", f"{stages['sign']:.1f}",
        summary["groups"], roles.get("duplicate", 0), relations.get("exact", 0), relations.get("near", 0),
        roles.get("held", 0), summary["largest_group"], summary["rejected"],
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=COLLECTIONS, action="append", help="this collection (may be repeated)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print_table(inputs(args.only or list(COLLECTIONS), Path(scratch)))
    return 0


def inputs(wanted: list[str], scratch: Path) -> dict[str, Path]:
    """The files of the collections; where there are none, one of a generated web."""
    folder = data_folder()
    if folder is not None:
        return {name: folder / f"{COLLECTIONS[name]}.jsonl.zst" for name in wanted}
    print("no real pages (set DUSTREAM_DATA): a generated web instead")
    path = scratch / "generated.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in generate(GENERATED_PAGES, 7)))
    return {"generated": path}


def print_table(files: dict[str, Path]) -> None:
    print("| pages | extractor | events | URLs | processor s | signing s | groups | duplicates | exact | near | held "
          "| largest group | rejected |\n" + "|---" * 13 + "|")  # fmt: skip
    for name, path in files.items():
        for extractor in EXTRACTORS:
            print(row(name, extractor, run(path, extractor)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
