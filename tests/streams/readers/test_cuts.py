"""A record that breaks off, anywhere, costs no neighbour and takes nothing of one."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from archives import (
    ARC_HEADER,
    BGZF_END,
    BY_RECORD,
    Compress,
    Page,
    arc_record,
    bgzf,
    http,
    page,
    pages_in,
    read,
    rejections,
    warc_record,
)

BEFORE, CUT, AFTER, LAST = page(0), page(1, 40), page(2), page(3, 4)
KINDS: dict[str, tuple[Callable[[Page], bytes], bytes]] = {"warc": (warc_record, b""), "arc": (arc_record, ARC_HEADER)}


def with_cut(kind: str, size: int, compress: Compress = bytes) -> bytes:
    """Four records, of the second only the first bytes, cut before it is compressed."""
    record, head = KINDS[kind]
    parts = [record(BEFORE), record(CUT)[:size], record(AFTER), record(LAST)]
    return b"".join(compress(part) for part in [head, *parts] if part)


@pytest.mark.parametrize("compress", BY_RECORD.values(), ids=BY_RECORD)
@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_costs_a_neighbour(tmp_path: Path, kind: str, compress: Compress) -> None:
    whole = len(KINDS[kind][0](CUT))
    for size in range(whole):
        items = read(tmp_path / "x", with_cut(kind, size, compress))
        if kind == "arc" and compress is bytes and size == len("http://a.de/"):
            continue  # http://a.de/http://a.de/2 is a URL as archives have them: nothing shows that it is two
        found = pages_in(items)
        kept = CUT in found
        assert found == [BEFORE, *[CUT] * kept, AFTER, LAST], size
        assert kept == (size >= len(KINDS[kind][0](CUT).rstrip(b"\r\n"))), size
        assert len(rejections(items)) == (not kept and size > 0), size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, bgzf], ids=["gzip", "zstd", "bgzf"])
def test_no_cut_costs_a_neighbour_in_a_file_compressed_as_a_whole(
    tmp_path: Path, kind: str, compress: Compress
) -> None:
    for size in range(0, len(KINDS[kind][0](CUT)), 7):
        found = pages_in(read(tmp_path / "x", compress(with_cut(kind, size))))
        assert [page for page in found if page != CUT] == [BEFORE, AFTER, LAST], size


def test_a_cut_as_long_as_the_next_record_is_noticed(tmp_path: Path) -> None:
    """The lengths fit by chance: the record would end where the next one ends."""
    for others in ([AFTER], [AFTER, LAST]):
        swallowed = sum(len(warc_record(other)) for other in others)
        long = page(1, 200)
        cut = warc_record(long)[:-swallowed]
        items = read(
            tmp_path / "x", warc_record(BEFORE) + cut + b"".join(map(warc_record, others)) + warc_record(page(9))
        )
        assert pages_in(items) == [BEFORE, *others, page(9)]
        assert [rejection.original for rejection in rejections(items)] == [cut]


def proven(page: Page, *, by: str) -> bytes:
    """A record that shows by more than its length that it is whole."""
    length = f"\r\nContent-Length: {len(page.body)}\r\n\r\n".encode()
    block = http(page.body).replace(b"\r\n\r\n", length, 1) if by == "length" else http(page.body)
    record = (
        warc_record(page)
        .replace(http(page.body), block)
        .replace(
            b"Content-Length: %d\r\n\r\nHTTP" % len(http(page.body)), b"Content-Length: %d\r\n\r\nHTTP" % len(block)
        )
    )
    digest = base64.b32encode(hashlib.sha1(block).digest())
    return (
        record.replace(b"Content-Type", b"WARC-Block-Digest: sha1:%s\r\nContent-Type" % digest, 1)
        if by == "digest"
        else record
    )


@pytest.mark.parametrize("by", ["digest", "length"])
def test_a_page_that_quotes_a_record_is_a_page(tmp_path: Path, by: str) -> None:
    quoting = Page("http://a.de/quotes", b"<p>so it looks: " + warc_record(page(7)).removesuffix(b"\r\n\r\n"))
    items = read(tmp_path / "x", warc_record(BEFORE) + proven(quoting, by=by) + warc_record(AFTER))
    assert pages_in(items) == [BEFORE, quoting, AFTER]
    assert not rejections(items)


def test_records_in_a_payload_are_no_records(tmp_path: Path) -> None:
    inner = b"".join(warc_record(page(number)) for number in range(5, 8))
    nested = Page("http://a.de/archive", inner + b"end")
    assert pages_in(read(tmp_path / "x", warc_record(nested) + warc_record(AFTER))) == [nested, AFTER]


EMPTY = {"gzip": gzip.compress(b""), "bgzf end": BGZF_END, "zstd": zstandard.compress(b""), "padding": b"\0" * 512,
         "skippable frame": b"\x50\x2a\x4d\x18\x04\0\0\0seek"}  # fmt: skip


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("kind", KINDS)
def test_members_of_any_kind_are_read_through(tmp_path: Path, kind: str, empty: bytes) -> None:
    record, head = KINDS[kind]
    parts = [gzip.compress(head + record(BEFORE)), empty, gzip.compress(record(CUT)), empty, empty]
    items = read(
        tmp_path / "x", b"".join([*parts, zstandard.compress(record(AFTER)), gzip.compress(record(LAST)), empty])
    )
    assert pages_in(items) == [BEFORE, CUT, AFTER, LAST]
    assert not rejections(items)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_bytes", [1, 7, 100, 60_000])
def test_members_that_cut_records_anywhere_are_read_through(tmp_path: Path, kind: str, block_bytes: int) -> None:
    record, head = KINDS[kind]
    items = read(tmp_path / "x", bgzf(head + b"".join(map(record, [BEFORE, CUT, AFTER])), block_bytes))
    assert pages_in(items) == [BEFORE, CUT, AFTER] and not rejections(items)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.cdx.gz"])
def test_lines_in_members_of_any_kind_are_read_through(tmp_path: Path, name: str) -> None:
    line = (
        b'{"url": "http://a.de/%d"}\n'
        if "jsonl" in name
        else b"de,a)/%d 20240501120000 http://a.de/1 text/html 200 A 1\n"
    )
    content = b"".join(gzip.compress(line % number) + BGZF_END for number in range(3))
    assert len(read(tmp_path / name, gzip.compress(b"") + content)) == 3


def test_a_damaged_block_of_bgzf_costs_the_records_it_touches(tmp_path: Path) -> None:
    records = [page(number, 60) for number in range(12)]
    packed = bytearray(bgzf(b"".join(map(warc_record, records)), 900))
    packed[packed.index(b"\x1f\x8b", len(packed) // 2) + 40] ^= 0xFF
    items = read(tmp_path / "x", bytes(packed))
    found = pages_in(items)
    assert [page for page in records if page in found] == found and len(found) >= 8
    assert found[0] == records[0] and found[-1] == records[-1] and rejections(items)


@pytest.mark.parametrize("claim", [b"9" * 5000, b"9" * 18, b"70000000", b"123456789"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_length_beyond_all_bounds_costs_its_own_record(tmp_path: Path, claim: bytes, compress: Compress) -> None:
    lying = warc_record(CUT).replace(b"Content-Length: %d" % len(http(CUT.body)), b"Content-Length: " + claim)
    content = warc_record(BEFORE) + lying + warc_record(AFTER) + lying * 30 + warc_record(LAST)
    items = read(tmp_path / "x", compress(content))
    assert pages_in(items) == [BEFORE, AFTER, LAST]
    assert len(rejections(items)) == 31


def test_of_a_block_larger_than_the_window_the_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dustream.streams.readers.framing.window_bytes_max", 200_000)
    monkeypatch.setattr("dustream.streams.readers.content.window_bytes_max", 200_000)
    large = page(1, 100_000)
    for compress in (bytes, gzip.compress, bgzf):
        content = warc_record(BEFORE) + warc_record(large) + warc_record(large)[:-500] + warc_record(AFTER)
        items = read(tmp_path / "x", compress(content))
        assert pages_in(items) == [BEFORE, large, AFTER]
        assert [rejection.original_size for rejection in rejections(items)] == [len(warc_record(large)) - 500]
