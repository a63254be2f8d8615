"""Small corpora, and the command on them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from dustream.streams.cli.main import main

Row = dict[str, Any]


def text(number: int, words: int = 60, changed: int = 0) -> str:
    """Texts of different numbers have nothing in common; `changed` words at the end are others."""
    kept = [f"t{number}w{word}" for word in range(words - changed)]
    return " ".join([*kept, *(f"t{number}x{word}" for word in range(changed))])


def corpus_rows(count: int = 60) -> list[Row]:
    """Every fifth row is a near copy of the one before, every seventh an exact one, every eleventh has no text."""
    rows: list[Row] = []
    for number in range(count):
        own = text(number)
        if number % 5 == 4:
            own = text(number - 1) + " more"
        elif number % 7 == 6 and rows[-1]["text"]:
            own = rows[-1]["text"]
        if number % 11 == 10:
            own = ""
        rows.append({"id": f"row {number}", "text": own, "meta": {"url": f"https://e.x/{number}", "score": number % 4}})
    return rows


def write_parquet(path: Path, rows: Sequence[Row], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path, **options)
    return path


def write_lines(path: Path, rows: Sequence[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, lambda data: data)
    path.write_bytes(pack(data))
    return path


def dedupe(*arguments: Any) -> int:
    """The exit status of the command, with one process unless --jobs is given."""
    is_stage = str(arguments[0]) in ("sign", "match", "resolve", "filter")
    jobs = [] if is_stage or "--jobs" in arguments else ["--jobs", "1"]
    return main(["dedupe", *map(str, arguments), *jobs, *([] if is_stage else ["--quiet"])])


def verdicts(out: Path) -> list[Row]:
    return pq.read_table(out / "verdicts.parquet").to_pylist()


def roles(out: Path) -> list[str]:
    return [row["role"] for row in verdicts(out)]


def tree(folder: Path) -> dict[str, bytes]:
    """All files in a folder, by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
