"""Whatever bytes come, a reader gives records and rejections or refuses the file; it never fails otherwise."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dustream.core.errors import BadEvent, UnreadableInput
from dustream.core.events import check_event
from dustream.streams.readers import Record, Rejection, open_input

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>some words to read</p>"


def warc(compress: Callable[[bytes], bytes]) -> bytes:
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.de/%d\r\nContent-Length: %d\r\n\r\n"
    return b"".join(compress(head % (number, len(HTTP)) + HTTP + b"\r\n\r\n") for number in range(4))


def arc() -> bytes:
    version = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
    head = b"filedesc://x.arc 0.0.0.0 20020501120000 text/plain %d\n" % len(version) + version + b"\n"
    pages = [b"http://a.de/%d 10.0.0.1 20020501120000 text/html %d\n" % (n, len(HTTP)) + HTTP + b"\n" for n in range(3)]
    return b"".join(gzip.compress(part) for part in [head, *pages])


def jsonl() -> bytes:
    return b"".join(json.dumps({"url": f"http://a.de/{n}", "html": "<p>" * n}).encode() + b"\n" for n in range(20))


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"url": [f"http://a.de/{n}" for n in range(50)], "html": ["<p>"] * 50}), buffer)
    return buffer.getvalue()


def wacz() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("archive/a.warc.gz", warc(gzip.compress))
        package.writestr("archive/b.warc", warc(bytes))
    return buffer.getvalue()


def cdx() -> bytes:
    row = b"de,a)/%d 20240501120000 http://a.de/%d text/html 200 ABC - - 10 20 f\n"
    return b" CDX N b a m s k r M S V g\n" + b"".join(row % (n, n) for n in range(20))


SOUND = {
    "x.warc": warc(bytes),
    "x.warc.gz": warc(gzip.compress),
    "x.warc.zst": warc(zstandard.compress),
    "x.arc.gz": arc(),
    "x.jsonl": jsonl(),
    "x.jsonl.gz": gzip.compress(jsonl()),
    "x.jsonl.zst": zstandard.compress(jsonl()),
    "x.parquet": parquet(),
    "x.wacz": wacz(),
    "x.cdx": cdx(),
    "x.cdx.gz": gzip.compress(cdx()),
}


def damaged(sound: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    content = bytearray(sound)
    for _ in range(rng.choice([1, 1, 3, 10])):
        at = rng.randrange(len(content))
        length = rng.choice([1, 1, 8, 100])
        replacement = rng.choice([b"", rng.randbytes(length), bytes(length), bytes(content[:length])])
        content[at : at + rng.choice([0, length])] = replacement
    return bytes(content)


@pytest.mark.parametrize("name", SOUND)
def test_random_damage_is_survived(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for seed in range(150):
        path.write_bytes(damaged(SOUND[name], seed))
        try:
            with open_input(str(path)) as opened:
                items = list(opened)
        except UnreadableInput as error:
            assert str(error).startswith(str(path))
            continue
        positions = [item.position for item in items]
        assert positions == sorted(set(positions)), seed
        for item in items:
            if isinstance(item, Record):
                with contextlib.suppress(BadEvent):
                    check_event(item.event)
            else:
                assert isinstance(item, Rejection)
                assert item.reason
                assert len(item.excerpt) <= 256


@pytest.mark.parametrize("name", SOUND)
def test_the_same_bytes_give_the_same_records(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for seed in range(20):
        path.write_bytes(damaged(SOUND[name], seed))
        try:
            with open_input(str(path)) as first, open_input(str(path)) as second:
                everything = list(first)
                assert list(second.start_at(2)) == [item for item in everything if item.position >= 2], seed
        except UnreadableInput:
            continue
