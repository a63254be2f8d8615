"""Damaged and hostile inputs, made from small sound ones by code: `python tests/support/reader_fuzz.py --cases 20000`.

Of plain WARC and ARC, of archives compressed record by record, and of lines, one record is damaged, anywhere and in any
way, and every other one must come out as it went in. Of all other inputs a reader gives records and rejections, or it
refuses the file; it never fails otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from archives import ARC_HEADER, Page, arc_record, bgzf, page, warc_record

from dustream.core.errors import UnreadableInput
from dustream.core.intake import take_in
from dustream.core.text.extractors import DEFAULT_SOURCE
from dustream.streams.readers import Item, Record, open_input

RECORDS = 5
SIGNED_EVERY = 20  # cases: all events of one are checked and signed, too
SLOW_S = 5.0

HOSTILE = (
    b"9" * 5_000, b"-1", b"0", b"18446744073709551616", b"1e9", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n",
    b"\r\n\r\n", b"\n\n", b"WARC/1.0\r\n", b"WARC/1.0\r\nWARC-Type: response\r\n", b"Content-Length: 10\r\n\r\n",
    b"{", b"[" * 3_000, b'{"a":' * 3_000, b'"', b"\\ud800", b"http://", b" ", b"%", b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"http://b.de/ 1.1.1.1 20020501120000 text/html 7\n", b"x" * 70_000, b"\r" * 70_000, b"http:" * 4_000,
    "ä".encode() * 100,
)  # fmt: skip


class Kind(NamedTuple):
    """An input in which one record can be damaged alone: what it begins with, its records, and what each gives."""

    name: str
    head: bytes
    record: Callable[[Page], bytes]
    compress: Callable[[bytes], bytes]


def json_line(page: Page) -> bytes:
    return json.dumps({"url": page.url, "html": page.body.decode()}).encode() + b"\n"


def cdx_line(page: Page) -> bytes:
    return f"de,a)/ 20240501120000 {page.url} text/html 200 ABC 1\n".encode()


KINDS = (
    Kind("x.warc", b"", warc_record, bytes),
    Kind("x.warc.gz", b"", warc_record, gzip.compress),
    Kind("x.warc.zst", b"", warc_record, zstandard.compress),
    Kind("x.arc", ARC_HEADER, arc_record, bytes),
    Kind("x.arc.gz", gzip.compress(ARC_HEADER), arc_record, gzip.compress),
    Kind("x.jsonl", b"", json_line, bytes),
    Kind("x.cdx", b" CDX N b a m s k S\n", cdx_line, bytes),
)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Damaged somewhere: cut, overwritten, torn out, filled with something, or repeated in part."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((0, 1, 1, 4, 30, 200)))
        piece = content[at:end]
        way = rng.randrange(6)
        if way == 0:
            content = content[:at]
        elif way == 1:
            content = content[:at] + bytes(byte ^ (1 << rng.randrange(8)) for byte in piece) + content[end:]
        elif way == 2:
            content = content[:at] + content[end:]
        elif way == 3:
            content = content[:at] + rng.choice(HOSTILE) + content[end:]
        elif way == 4:
            content = content[:at] + rng.randbytes(end - at) + content[end:]
        else:
            content = content[:end] + piece + content[end:]
    return content


def hostile_length(content: bytes, rng: random.Random) -> bytes:
    """Another number where a number stands."""
    numbers = list(re.finditer(rb"\d+", content))
    chosen = rng.choice(numbers)
    other = rng.choice((b"%d" % rng.randrange(2_000), *HOSTILE[:5]))
    return content[: chosen.start()] + other + content[chosen.end() :]


def alone_damaged(kind: Kind, rng: random.Random) -> tuple[bytes, list[Page], bool]:
    """An input of which one record is damaged, the pages of the others, and whether all of them can be told apart."""
    pages = [page(number, rng.choice((0, 1, 12, 12, 200))) for number in range(RECORDS)]
    which = rng.randrange(RECORDS)
    sound = kind.record(pages[which])
    if kind.compress is not bytes and rng.random() < 0.5:
        damaged = mutated(kind.compress(sound), rng)  # as stored
    else:
        damaged = (mutated if rng.random() < 0.7 else hostile_length)(sound, rng)
        damaged = damaged and kind.compress(damaged)
    if kind.record in (json_line, cdx_line):
        damaged += b"\n"
    stored = [kind.compress(kind.record(each)) for each in pages]
    stored[which] = damaged
    others = pages[:which] + pages[which + 1 :]
    return kind.head + b"".join(stored), others, not (kind.name == "x.arc" and is_joined(damaged))


def is_joined(damaged: bytes) -> bool:
    """Whether an ARC record breaks off inside a URL so that the next one looks like the rest of it."""
    return re.search(rb"[^\sA-Za-z0-9]$", damaged) is not None and b" " not in damaged.rpartition(b"\n")[2]


# ---------------------------------------------------------------- other inputs


def sound_inputs() -> dict[str, bytes]:
    pages = [page(number, 30) for number in range(RECORDS)]
    warc, arc = b"".join(map(warc_record, pages)), ARC_HEADER + b"".join(map(arc_record, pages))
    lines = b"".join(map(json_line, pages))
    parquet, package = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"url": [each.url for each in pages], "html": [each.body for each in pages]}), parquet)
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("archive/a.warc.gz", gzip.compress(warc))
        zipped.writestr("archive/b.warc", warc)
    return {
        "whole.warc.gz": gzip.compress(warc),
        "whole.warc.zst": zstandard.compress(warc),
        "bgzf.warc.gz": bgzf(warc, 500),
        "whole.arc.gz": gzip.compress(arc),
        "x.jsonl.gz": gzip.compress(lines),
        "x.jsonl.zst": zstandard.compress(lines),
        "x.parquet": parquet.getvalue(),
        "x.wacz": package.getvalue(),
    }


# ---------------------------------------------------------------- running


class Failure(AssertionError):
    """What went wrong, and with which case: `--first N --cases 1` does it again."""


def read(path: Path) -> list[Item]:
    try:
        with open_input(str(path)) as opened:
            return list(opened)
    except UnreadableInput:
        return []


def pages_of(items: list[Item], kind: Kind | None) -> list[tuple[str, bytes]]:
    def body(item: Record) -> bytes:
        return item.event.body or (item.event.html or "").encode()

    with_body = kind is None or kind.record is not cdx_line
    return [(item.event.url, body(item) if with_body else b"") for item in items if isinstance(item, Record)]


def case(number: int, folder: Path, inputs: dict[str, bytes]) -> str:
    """One case; the name of what was damaged."""
    rng = random.Random(number)
    if rng.random() < 0.75:
        kind = rng.choice(KINDS)
        content, others, told_apart = alone_damaged(kind, rng)
        path = folder / kind.name
        path.write_bytes(content)
        items = read(path)
        found = pages_of(items, kind)
        wanted = [(each.url, each.body if kind.record is not cdx_line else b"") for each in others]
        lost = [url for url, body in wanted if (url, body) not in found]
        if lost and told_apart:
            raise Failure(f"case {number}: {kind.name} lost {', '.join(lost)}, which were sound")
    else:
        name = rng.choice(sorted(inputs))
        path = folder / name
        path.write_bytes(mutated(inputs[name], rng))
        items = read(path)
    check(number, items)
    return path.name


def check(number: int, items: list[Item]) -> None:
    positions = [item.position for item in items]
    if positions != sorted(set(positions)):
        raise Failure(f"case {number}: positions {positions}")
    if number % SIGNED_EVERY == 0:
        take_in([item.event for item in items if isinstance(item, Record)], DEFAULT_SOURCE)


def run(first: int, cases: int) -> Counter[str]:
    """All cases; how many of each kind. Raises at the first that fails."""
    inputs, counts = sound_inputs(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + cases):
            started = time.perf_counter()
            try:
                counts[case(number, Path(folder), inputs)] += 1
            except Failure:
                raise
            except Exception as error:
                raise Failure(f"case {number}: {type(error).__name__}: {error}") from error
            if time.perf_counter() - started > SLOW_S:
                raise Failure(f"case {number} took {time.perf_counter() - started:.1f} s")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    args = parser.parse_args()
    started = time.perf_counter()
    counts = run(args.first, args.cases)
    shown = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    print(f"{args.cases:,} damaged inputs in {time.perf_counter() - started:.0f} s, no sound record lost: {shown}")


if __name__ == "__main__":
    main()
