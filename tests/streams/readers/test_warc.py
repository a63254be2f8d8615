"""WARC: what each record gives, and what damage costs."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from fastwarc.stream_io import BrotliWriter
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dustream.core.errors import UnreadableInput
from dustream.core.events import classify
from dustream.core.text.page_guard import PAGE_BYTES_MAX
from dustream.streams.readers import Input, Item, Record, Rejection, open_input

HTML = "<html><body><p>Grüße aus dem Archiv</p></body></html>".encode()


def record(kind: str, url: str, block: bytes, *fields: str, content_type: str = "application/http") -> bytes:
    head = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Target-URI: {url}",
        "WARC-Date: 2024-05-01T12:00:00Z",
        "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000000>",
        f"Content-Type: {content_type}",
        *fields,
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def http(payload: bytes = HTML, *fields: str, status: str = "200 OK", content_type: str | None = "text/html") -> bytes:
    types = [f"Content-Type: {content_type}"] if content_type else []
    return "\r\n".join([f"HTTP/1.1 {status}", *types, *fields]).encode() + b"\r\n\r\n" + payload


def response(number: int, payload: bytes = HTML) -> bytes:
    return record("response", f"http://a.de/{number}", http(payload))


def open_bytes(path: Path, content: bytes) -> Input:
    path.write_bytes(content)
    return open_input(str(path))


def read(path: Path, content: bytes) -> list[Item]:
    with open_bytes(path, content) as opened:
        return list(opened)


def urls(items: list[Item]) -> list[str]:
    return [item.event.url for item in items if isinstance(item, Record)]


def rejections(items: list[Item]) -> list[Rejection]:
    return [item for item in items if isinstance(item, Rejection)]


Compress = Callable[[bytes], bytes]
BY_RECORD: dict[str, Compress] = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}
by_record = pytest.mark.parametrize("compress", BY_RECORD.values(), ids=BY_RECORD)


@by_record
def test_responses(tmp_path: Path, compress: Compress) -> None:
    parts = [compress(response(number)) for number in range(5)]
    items = read(tmp_path / "x", b"".join(parts))
    assert urls(items) == [f"http://a.de/{number}" for number in range(5)]
    assert [item.offset for item in items] == [sum(map(len, parts[:number])) for number in range(5)]
    assert [item.position for item in items] == list(range(5))
    event = items[0].event
    assert event.body == HTML
    assert (event.status, event.fetched_at, event.content_type) == (200, "2024-05-01T12:00:00Z", "text/html")


@by_record
def test_a_large_body_arrives_whole(tmp_path: Path, compress: Compress) -> None:
    body = random.Random(1).randbytes(2_000_000).hex().encode()
    first, second = read(tmp_path / "x", compress(response(0, body)) + compress(response(1, body)))
    assert first.event.body == second.event.body == body


def test_files_written_by_warcio_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    writer = WARCWriter(buffer, gzip=True)
    writer.write_record(writer.create_warcinfo_record("x.warc.gz", {"software": "test"}))
    headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.0")
    page = writer.create_warc_record("http://a.de/", "response", payload=io.BytesIO(HTML), http_headers=headers)
    writer.write_record(page)
    revisit = writer.create_revisit_record("http://a.de/", "sha1:ABC", "http://a.de/", "2024-05-01T12:00:00Z", headers)
    writer.write_record(revisit)
    first, second = read(tmp_path / "x", buffer.getvalue())
    assert (first.event.url, first.event.body, first.position) == ("http://a.de/", HTML, 1)
    assert (second.event.revisit_of, second.event.digest, second.position) == ("http://a.de/", "ABC", 2)


def brotli(payload: bytes) -> bytes:
    buffer = io.BytesIO()
    writer = BrotliWriter(buffer)
    writer.write(payload)
    writer.close()
    return buffer.getvalue()


def deflate_bare(payload: bytes) -> bytes:
    return zlib.compress(payload)[2:-4]


def chunked(payload: bytes) -> bytes:
    return b"5;extension=1\r\n%s\r\n%x\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (payload[:5], len(payload) - 5, payload[5:])


PAYLOADS = {
    "gzip": (gzip.compress(HTML), ["Content-Encoding: gzip"]),
    "deflate": (zlib.compress(HTML), ["Content-Encoding: deflate"]),
    "bare deflate": (deflate_bare(HTML), ["Content-Encoding: deflate"]),
    "brotli": (brotli(HTML), ["Content-Encoding: br"]),
    "zstd": (zstandard.compress(HTML), ["Content-Encoding: zstd"]),
    "chunked": (chunked(HTML), ["Transfer-Encoding: chunked"]),
    "chunked gzip": (chunked(gzip.compress(HTML)), ["Transfer-Encoding: Chunked", "content-encoding: GZIP"]),
    "two codings": (brotli(gzip.compress(HTML)), ["Content-Encoding: gzip, br"]),
    "lying gzip": (HTML, ["Content-Encoding: gzip"]),
    "lying brotli": (HTML, ["Content-Encoding: br"]),
    "lying zstd": (HTML, ["Content-Encoding: zstd"]),
    "lying deflate": (HTML, ["Content-Encoding: deflate"]),
    "lying chunked": (HTML, ["Transfer-Encoding: chunked"]),
    "unknown coding": (HTML, ["Content-Encoding: rot13"]),
    "gzip without its end": (gzip.compress(HTML)[:-8], ["Content-Encoding: gzip"]),
}


@pytest.mark.parametrize("coding", PAYLOADS)
def test_payload_codings_are_removed(tmp_path: Path, coding: str) -> None:
    payload, fields = PAYLOADS[coding]
    [item] = read(tmp_path / "x", gzip.compress(record("response", "http://a.de/", http(payload, *fields))))
    assert item.event.body == HTML


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_of_a_page_beyond_the_limit_the_beginning_is_read(tmp_path: Path, coding: str) -> None:
    page = b"<p>" + b"words of a page " * (PAGE_BYTES_MAX // 16)
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotli}[coding]
    parts = [
        record("response", "http://a.de/bomb", http(packed(page * 3), f"Content-Encoding: {coding}")),
        response(1, page * 2),
        record("response", "http://a.de/image", http(page * 9, content_type="image/png")),
        response(2, page[:PAGE_BYTES_MAX]),
        record("resource", "http://a.de/3", page, content_type="text/html"),
        record("conversion", "http://a.de/4", page, content_type="text/plain"),
    ]
    with open_bytes(tmp_path / "x", b"".join(parts)) as opened:
        items = list(opened)
    assert not rejections(items) and opened.skipped == {"content type image/png": 1}
    assert [item.event.truncated for item in items] == [True, True, False, True, True]
    assert all((item.event.body or item.event.text.encode()) == page[:PAGE_BYTES_MAX] for item in items)


def test_redirects_and_errors_come_without_bodies(tmp_path: Path) -> None:
    parts = [
        record("response", "http://a.de/old", http(HTML, "Location: /new", status="301 Moved")),
        record("response", "http://a.de/u", http(b"", status="302 Found").replace(b"302", b"302", 1)),
        record("response", "http://a.de/gone", http(HTML, status="404 Not Found")),
        record("response", "http://a.de/short", http(b"", "Location: http://b.de/", status="302 ")),
        record("response", "http://a.de/latin", http(b"", "Location: /ä", status="302 Found")),
    ]
    items = read(tmp_path / "x", b"".join(parts))
    events = [item.event for item in items]
    assert [event.status for event in events] == [301, 302, 404, 302, 302]
    assert [event.redirect_to for event in events] == ["/new", None, None, "http://b.de/", "/ä"]
    assert all(event.body is None for event in events)
    assert [classify(event).kind for event in events] == ["redirect", "failed", "gone", "redirect", "redirect"]


def test_revisits(tmp_path: Path) -> None:
    other = "WARC-Refers-To-Target-URI: <http://b.de/original>"
    digest = "WARC-Payload-Digest: sha1:ABC"
    parts = [
        record("revisit", "<http://a.de/same>", http(b""), digest),
        record("revisit", "http://a.de/other", http(b""), other),
        record("revisit", "http://a.de/bare", b""),
        record("revisit", "http://a.de/304", http(b"", status="304 Not Modified")),
        record("revisit", "http://a.de/moved", http(b"", "Location: /x", status="301 Moved")),
        record("revisit", "http://a.de/picture", http(b"", content_type="image/png")),
    ]
    items = read(tmp_path / "x", b"".join(parts))
    events = [item.event for item in items]
    assert events[0].url == events[0].revisit_of == "http://a.de/same"
    assert events[0].digest == "ABC"
    assert events[1].revisit_of == "http://b.de/original"
    assert [classify(event).kind for event in events] == ["seen", "revisit", "seen", "seen", "redirect"]


def test_resources_and_conversions(tmp_path: Path) -> None:
    parts = [
        record("resource", "http://a.de/page", HTML, content_type="text/html"),
        record("conversion", "http://a.de/text", "Grüße \xff".encode("latin-1"), content_type="text/plain"),
        record("conversion", "http://a.de/picture", b"", content_type="image/png"),
    ]
    page, text = read(tmp_path / "x", b"".join(parts))
    assert page.event.body == HTML
    assert text.event.text == "Gr\ufffd\ufffde \ufffd"


def test_what_is_no_page_is_counted_not_given(tmp_path: Path) -> None:
    parts = [
        record("warcinfo", "", b"software: x"),
        record("request", "http://a.de/", b"GET / HTTP/1.0\r\n\r\n"),
        record("metadata", "http://a.de/", b"x: y"),
        record("response", "dns:a.de", b"20240501 a.de", content_type="text/dns"),
        record("resource", "urn:screenshot", b"x", content_type="image/png"),
        record("response", "http://a.de/style", http(b"p {}", content_type="text/css")),
        record("response", "http://a.de/unknown", http(b"\x89PNG\r\n\x1a\n\0\0", content_type=None)),
        response(1),
    ]
    with open_bytes(tmp_path / "x", b"".join(parts)) as opened:
        [item] = opened
    assert item.position == 7
    assert opened.skipped == {
        "warcinfo record": 1,
        "request record": 1,
        "metadata record": 1,
        "scheme dns": 1,
        "scheme urn": 1,
        "content type text/css": 1,
        "binary data without a content type": 1,
    }


def test_a_page_without_content_type_is_read(tmp_path: Path) -> None:
    [item] = read(tmp_path / "x", record("response", "http://a.de/", http(content_type=None)))
    assert item.event.body == HTML


LENIENT = {
    "line feeds in the HTTP head": http().replace(b"\r\n", b"\n"),
    "no reason phrase": http(status="200"),
    "HTTP/2": http().replace(b"HTTP/1.1", b"HTTP/2"),
    "a header without a colon": http(HTML, "nonsense"),
}


@pytest.mark.parametrize("block", LENIENT.values(), ids=LENIENT)
def test_sloppy_servers_are_read(tmp_path: Path, block: bytes) -> None:
    [item] = read(tmp_path / "x", record("response", "http://a.de/", block))
    assert (item.event.status, item.event.body) == (200, HTML)


@by_record
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record("response", "http://a.de/bad", b"no HTTP here"), "no HTTP response"),
        (record("response", "http://a.de/bad", b""), "no HTTP response"),
        (record("response", "", http()), "no URL"),
        (record("response", "http://a.de/" + "x" * 40_000, http()).replace(b"WARC-Record-ID", b"X"), ""),
    ],
)
def test_a_bad_record_is_rejected_and_its_neighbours_are_unharmed(
    tmp_path: Path, compress: Compress, bad: bytes, reason: str
) -> None:
    whole = compress(response(0)) + compress(bad) + compress(response(1))
    items = read(tmp_path / "x", whole)
    assert urls(items) == ["http://a.de/0", "http://a.de/1"]
    [rejection] = rejections(items)
    assert reason in rejection.reason
    assert (rejection.position, rejection.offset) == (1, len(compress(response(0))))
    stored = compress(bad)
    assert (rejection.excerpt, rejection.original, rejection.original_size) == (stored[:256], stored, len(stored))


def test_of_a_long_record_the_beginning_is_kept_and_its_length(tmp_path: Path) -> None:
    bad = record("response", "http://a.de/bad", b"no HTTP here " * 200_000)
    [rejection] = rejections(read(tmp_path / "x", response(0) + bad + response(1)))
    assert rejection.original == bad[: 1 << 20] and rejection.original_size == len(bad)


def test_what_damage_costs_is_kept_up_to_where_reading_goes_on(tmp_path: Path) -> None:
    parts = [gzip.compress(response(number)) for number in range(3)]
    parts[1] = parts[1][:40] + b"\0" * 8 + parts[1][48:]
    [rejection] = rejections(read(tmp_path / "x", b"".join(parts)))
    assert rejection.original == parts[1]


def lengths_claimed(content: bytes, claimed: int) -> bytes:
    head, _, block = content.partition(b"\r\n\r\n")
    prefix = head[: head.index(b"Content-Length: ")]
    return prefix + b"Content-Length: %d" % claimed + b"\r\n\r\n" + block


@by_record
@pytest.mark.parametrize("error", [-1, -30, 5, 30, 300, 100_000])
def test_a_lying_content_length_costs_its_own_record(tmp_path: Path, compress: Compress, error: int) -> None:
    true_length = len(http())
    parts = [response(0), lengths_claimed(response(1), true_length + error), response(2), response(3)]
    items = read(tmp_path / "x.warc", b"".join(map(compress, parts)))
    assert urls(items) == ["http://a.de/0", "http://a.de/2", "http://a.de/3"]
    assert [item.position for item in rejections(items)] == [1]
    assert not rejections(items)[0].ends_input


@by_record
@pytest.mark.parametrize("error", [1, 2, 3, 4])
def test_a_content_length_that_counts_the_line_ends_after_it_is_harmless(
    tmp_path: Path, compress: Compress, error: int
) -> None:
    parts = [lengths_claimed(response(0), len(http()) + error), response(1)]
    first, second = read(tmp_path / "x.warc", b"".join(map(compress, parts)))
    assert first.event.body.rstrip() == second.event.body == HTML


@by_record
@pytest.mark.parametrize("length", ["abc", "-5", "", "9" * 30])
def test_a_content_length_that_is_no_length(tmp_path: Path, compress: Compress, length: str) -> None:
    broken = lengths_claimed(response(1), 7).replace(b"Content-Length: 7", f"Content-Length: {length}".encode())
    items = read(tmp_path / "x.warc", b"".join(map(compress, [response(0), broken, response(2)])))
    assert urls(items) == ["http://a.de/0", "http://a.de/2"]
    assert len(rejections(items)) == 1


@by_record
def test_garbage_between_records_costs_no_record(tmp_path: Path, compress: Compress) -> None:
    parts = [compress(response(0)), b"garbage\r\n" * 20, compress(response(1)), compress(response(2))]
    items = read(tmp_path / "x.warc", b"".join(parts))
    assert urls(items) == ["http://a.de/0", "http://a.de/1", "http://a.de/2"]
    assert [(item.position, item.offset) for item in rejections(items)] == [(1, len(parts[0]))]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_damaged_member_costs_its_own_record(tmp_path: Path, compress: Compress) -> None:
    big = bytes(range(65, 91)) * 10_000
    parts = [bytearray(compress(response(number, big))) for number in range(4)]
    middle = len(parts[1]) // 2
    parts[1][middle : middle + 20] = b"\xff" * 20
    items = read(tmp_path / "x.warc", b"".join(parts))
    assert urls(items) == ["http://a.de/0", "http://a.de/2", "http://a.de/3"]
    assert [item.position for item in rejections(items)] == [1]


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_wrong_gzip_checksum_costs_its_own_record(tmp_path: Path, size: int) -> None:
    parts = [bytearray(gzip.compress(response(number, b"x" * size))) for number in range(3)]
    parts[1][-8] ^= 0xFF
    items = read(tmp_path / "x.warc.gz", b"".join(parts))
    assert urls(items) == ["http://a.de/0", "http://a.de/2"]
    assert [item.position for item in rejections(items)] == [1]


SMALL = [
    record("warcinfo", "", b"software: x"),
    response(0, b"<p>one"),
    record("revisit", "http://a.de/1", b""),
    record("response", "http://a.de/2", http(b"", "Location: /x", status="301 Moved")),
    response(3, b"<p>two"),
]
SMALL_URLS = ["http://a.de/0", "http://a.de/1", "http://a.de/2", "http://a.de/3"]


@by_record
def test_every_cut_gives_a_prefix_and_at_most_one_rejection(tmp_path: Path, compress: Compress) -> None:
    parts = [compress(part) for part in SMALL]
    whole = b"".join(parts)
    ends = [sum(map(len, parts[: number + 1])) for number in range(len(parts))]
    for cut in range(1, len(whole), 5 if compress is bytes else 1):
        items = read(tmp_path / "cut.warc", whole[:cut])
        good = urls(items)
        assert good == SMALL_URLS[: len(good)], cut
        complete = sum(end <= cut for end in ends)
        assert len(good) >= complete - 1, cut
        broken = rejections(items)
        assert len(broken) <= 1, cut
        if cut in ends:
            assert not broken, cut
        elif compress is not bytes:
            assert broken, cut
        if broken:
            assert items[-1] is broken[0], cut
            assert broken[0].ends_input, cut


def test_every_damaged_byte_spares_the_other_records(tmp_path: Path) -> None:
    parts = [gzip.compress(part) for part in SMALL]
    whole = b"".join(parts)
    start = len(parts[0]) + len(parts[1])
    for at in range(start, start + len(parts[2])):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        good = urls(read(tmp_path / "x.warc.gz", bytes(damaged)))
        assert [url for url in good if url != "http://a.de/1"] == [SMALL_URLS[0], SMALL_URLS[2], SMALL_URLS[3]], at


def test_a_file_compressed_as_a_whole_is_read(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(SMALL))
    assert urls(read(tmp_path / "x", whole)) == SMALL_URLS
    items = read(tmp_path / "x", whole[: len(whole) * 2 // 3])
    assert urls(items) == SMALL_URLS[: len(urls(items))]
    assert [rejection.ends_input for rejection in rejections(items)] == [True]


def test_wrong_line_ends_are_read(tmp_path: Path) -> None:
    block = http()
    head, _, _ = record("response", "http://a.de/odd", block).partition(b"\r\n\r\n")
    odd = head.replace(b"\r\n", b"\r\r\n") + b"\r\r\n\r\r\n" + block + b"\r\n\r\n"
    assert urls(read(tmp_path / "x", odd + response(1))) == ["http://a.de/odd", "http://a.de/1"]


@by_record
@pytest.mark.parametrize("start", range(7))
def test_reading_starts_at_a_position(tmp_path: Path, compress: Compress, start: int) -> None:
    parts = [*map(compress, SMALL[:3]), b"garbage\r\n", *map(compress, SMALL[3:])]
    path = tmp_path / "x.warc"
    everything = read(path, b"".join(parts))
    assert [item.position for item in everything] == [1, 2, 3, 4, 5]
    with open_input(str(path)) as opened:
        assert list(opened.start_at(start)) == [item for item in everything if item.position >= start]


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    whole = b"".join(gzip.compress(part) for part in SMALL)
    with open_bytes(tmp_path / "x", whole) as opened:
        seen = [opened.bytes_read for _ in opened]
        assert seen == sorted(seen)
        assert opened.bytes_read == opened.bytes_total == len(whole)


def test_a_wat_is_refused(tmp_path: Path) -> None:
    by_name = record("warcinfo", "", b"x", "WARC-Filename: CC-MAIN.warc.wat.gz")
    by_content = record("warcinfo", "", b"x") + record(
        "metadata", "http://a.de/", b'{"Container":{}}', content_type="application/json"
    )
    for content in (by_name, by_content):
        with pytest.raises(UnreadableInput, match="a WAT file"):
            open_bytes(tmp_path / "x", gzip.compress(content))
