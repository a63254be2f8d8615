"""JSONL in all its wrappings, and broken in all ways."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.errors import BadSetting
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers import Item, Record, Rejection, open_input, parse_field_map
from dustream.streams.readers import jsonl as jsonl_reader
from dustream.streams.readers.lines import lines_of

ROWS = [
    {"url": f"http://a.de/{n}", "html": f"<p>page {n} {'x' * 50 * n}", "fetched_at": 1_700_000_000 + n}
    for n in range(8)
]
PLAIN = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
URLS = [row["url"] for row in ROWS]
WRAPPED = {
    "plain": PLAIN,
    "gzip": gzip.compress(PLAIN),
    "gzip members": b"".join(gzip.compress(PLAIN[start : start + 100]) for start in range(0, len(PLAIN), 100)),
    "gzip padded": gzip.compress(PLAIN) + bytes(1000),
    "zstd": zstandard.compress(PLAIN),
    "zstd frames": zstandard.compress(PLAIN[:300]) + zstandard.compress(PLAIN[300:]),
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "CRLF": PLAIN.replace(b"\n", b"\r\n"),
    "no last line feed": PLAIN.rstrip(),
    "blank lines": b"\n\n" + PLAIN.replace(b"\n", b"\n \n"),
}


def read(path: Path, content: bytes, **options: dict[str, str]) -> list[Item]:
    path.write_bytes(content)
    with open_input(str(path), **options) as opened:
        return list(opened)


def urls(items: list[Item]) -> list[str]:
    return [item.event.url for item in items if isinstance(item, Record)]


def rejections(items: list[Item]) -> list[Rejection]:
    return [item for item in items if isinstance(item, Rejection)]


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_every_wrapping_gives_the_same_records(tmp_path: Path, wrapping: str) -> None:
    items = read(tmp_path / "pages", WRAPPED[wrapping])
    assert urls(items) == URLS
    assert [item.position for item in items] == list(range(len(ROWS)))


def test_fields_arrive_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    row = {"url": "http://a.de/", "body": "PGI+", "status": 404, "popularity": 0.5, "canonical": {"deep": [1]}}
    [item] = read(tmp_path / "x", json.dumps(row).encode())
    assert item.event == CrawlEvent(url="http://a.de/", body=b"<b>", status=404, popularity=0.5)


def test_offsets_are_where_lines_begin(tmp_path: Path) -> None:
    for item in read(tmp_path / "x", WRAPPED["zstd"]):
        assert PLAIN[item.offset :].startswith(b'{"url": "http://a.de/%d"' % item.position)


def test_large_zstd_windows_are_read(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # size unknown: keeps the window
    assert urls(read(tmp_path / "x", writer.compress(PLAIN) + writer.flush())) == URLS


BAD_LINES = [
    (b'{"url": "http://a.de/", "html": "\xff"}', "not valid UTF-8"),
    (b'{"url": "http://a.de/"', "not a JSON object"),
    (b'{"url": "http://a.de/"} {"url": "http://b.de/"}', "not a JSON object"),
    (b"garbage", "not a JSON object"),
    (b"[1, 2]", "expected `object`"),
    (b'{"html": "x"}', "no URL"),
    (b'{"url": null}', "no URL"),
    (b'{"url": " "}', "no URL"),
    (b'{"url": 5}', "in field `url`"),
    (b'{"url": "http://a.de/", "status": "200"}', "in field `status`"),
    (b'{"url": "http://a.de/", "fetched_at": NaN}', "not a JSON object"),
    (b'{"url": "http://a.de/", "v": 2}', "schema version 2"),
    (b'{"url": "http://a.de/", "v": 2, "html": {"new": "shape"}}', "schema version 2"),
    (b'{"url": "http://a.de/", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    (b'{"url": "http://a.de/' + b"a" * 100_000 + b'"}', "longer than"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES, ids=[reason for _, reason in BAD_LINES])
def test_a_bad_line_is_rejected_and_its_neighbours_are_unharmed(tmp_path: Path, line: bytes, reason: str) -> None:
    first, *others = PLAIN.splitlines(keepends=True)
    items = read(tmp_path / "x", b"".join([first, line + b"\n", *others]))
    assert urls(items) == URLS
    [rejection] = rejections(items)
    assert reason in rejection.reason
    assert rejection.position == 1
    assert rejection.offset == len(first)
    assert rejection.file == str(tmp_path / "x")
    assert rejection.excerpt == line[:256]
    assert not rejection.ends_input


def test_of_a_key_given_twice_the_last_counts(tmp_path: Path) -> None:
    line = b'{"url": "http://a.de/1", "url": "http://a.de/2"}\n'
    assert urls(read(tmp_path / "x", line)) == ["http://a.de/2"]


def test_a_line_beyond_the_limit_is_rejected_without_holding_it() -> None:
    pieces = iter([b"a\n", *[b"x" * 1000] * 50, b"\nb\n" + b"y" * 101 + b"\nc"])
    lines = list(lines_of(pieces, 100))
    assert [line.offset for line in lines] == [0, 2, 50_003, 50_005, 50_107]
    assert [line.too_long for line in lines] == [False, True, False, True, False]
    assert [line.content for line in lines] == [b"a", b"x" * 256, b"b", b"y" * 101, b"c"]
    assert not lines[-1].ended


def test_a_long_line_is_a_rejection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_reader, "lines_of", lambda pieces, offset: lines_of(pieces, 300, offset))
    items = read(tmp_path / "x", PLAIN)
    assert urls(items) == URLS[:5]
    assert ["line longer" in rejection.reason for rejection in rejections(items)] == [True] * 3


@given(st.lists(st.binary(max_size=30), max_size=10), st.integers(1, 7))
def test_lines_are_those_of_split(parts: list[bytes], size: int) -> None:
    content = b"\n".join(parts)
    pieces = iter([content[start : start + size] for start in range(0, len(content), size)])
    found = list(lines_of(pieces))
    expected = content.split(b"\n")
    assert [line.content for line in found] == (expected[:-1] if not expected[-1] else expected)
    assert all(content[line.offset :].startswith(line.content) for line in found)


@pytest.mark.parametrize("wrapping", ["plain", "gzip", "gzip members", "zstd", "zstd frames"])
def test_every_cut_gives_a_prefix_and_at_most_one_rejection(tmp_path: Path, wrapping: str) -> None:
    whole = WRAPPED[wrapping]
    path = tmp_path / "cut.jsonl"
    for cut in range(1, len(whole), 7 if wrapping == "plain" else 1):
        items = read(path, whole[:cut])
        given_urls = urls(items)
        assert given_urls == URLS[: len(given_urls)]
        broken = rejections(items)
        assert len(broken) <= 1
        if broken:
            assert items[-1] is broken[0]
            assert broken[0].ends_input
            assert broken[0].position == len(given_urls)
        elif wrapping in ("gzip", "zstd"):
            pytest.fail(f"a file cut at {cut} of {len(whole)} passes for whole")


def test_a_cut_gzip_gives_all_lines_before_the_break(tmp_path: Path) -> None:
    whole = gzip.compress(PLAIN)
    cut = len(whole) * 2 // 3
    there = zlib.decompressobj(31).decompress(whole[:cut]).count(b"\n")
    assert there > 2
    assert len(urls(read(tmp_path / "x", whole[:cut]))) == there


def corrupted_in_the_middle(compressed: bytes) -> bytes:
    half = len(compressed) // 2
    return compressed[:half] + bytes(64) + compressed[half + 64 :]


INCOMPRESSIBLE = [{"url": f"http://a.de/{n}", "text": random.Random(n).randbytes(900).hex()} for n in range(400)]


def test_zstd_corruption_gives_what_precedes_it_and_one_rejection(tmp_path: Path) -> None:
    content = b"".join(json.dumps(row).encode() + b"\n" for row in INCOMPRESSIBLE)
    items = read(tmp_path / "x", corrupted_in_the_middle(zstandard.compress(content)))
    good = urls(items)
    assert good == [row["url"] for row in INCOMPRESSIBLE[: len(good)]]
    assert len(good) > 100
    assert [rejection.ends_input for rejection in rejections(items)] == [True]


def test_gzip_corruption_ends_in_a_rejection(tmp_path: Path) -> None:
    """Deflate may decode damage to garbage for a while: its lines are rejected one by one."""
    content = b"".join(json.dumps(row).encode() + b"\n" for row in INCOMPRESSIBLE)
    items = read(tmp_path / "x", corrupted_in_the_middle(gzip.compress(content)))
    first_bad = next(index for index, item in enumerate(items) if isinstance(item, Rejection))
    assert first_bad > 150
    assert urls(items[:first_bad]) == [row["url"] for row in INCOMPRESSIBLE[:first_bad]]
    assert isinstance(items[-1], Rejection)
    assert items[-1].ends_input


def test_a_wrong_gzip_checksum_is_reported_after_the_records(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(PLAIN))
    whole[-8] ^= 0xFF
    items = read(tmp_path / "x", bytes(whole))
    assert urls(items) == URLS
    assert "corrupt" in rejections(items)[0].reason


def test_a_gzip_bomb_is_a_long_line_in_bounded_memory(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=9) as writer:
        for _ in range(112):
            writer.write(b"x" * 2**20)
        writer.write(b"\n" + PLAIN)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    content = b'{"url":"http://a.de/first"}\n'
    items = read(tmp_path / "x", gzip.compress(content) + bomb.getvalue())
    assert urls(items) == ["http://a.de/first", *URLS]
    assert ["line longer" in rejection.reason for rejection in rejections(items)] == [True]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 240 * 1024


@pytest.mark.parametrize("wrapping", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("start", [0, 1, 5, 8, 100])
def test_reading_starts_at_a_position(tmp_path: Path, wrapping: str, start: int) -> None:
    path = tmp_path / "x"
    everything = read(path, WRAPPED[wrapping])
    with open_input(str(path)) as opened:
        assert list(opened.start_at(start)) == everything[start:]


def test_progress_ends_at_the_size_of_the_stored_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(WRAPPED["zstd"])
    with open_input(str(path)) as opened:
        assert (opened.bytes_read, opened.bytes_total) == (0, len(WRAPPED["zstd"]))
        assert len(list(opened)) == len(ROWS)
        assert opened.bytes_read == opened.bytes_total


READ_STDIN = """
from dustream.streams.readers import open_input
for item in open_input("-"):
    print(item.event.url, flush=True)
"""


@pytest.mark.parametrize("wrapping", ["plain", "gzip", "zstd"])
def test_standard_input(wrapping: str) -> None:
    done = subprocess.run([sys.executable, "-c", READ_STDIN], input=WRAPPED[wrapping], capture_output=True, check=True)
    assert done.stdout.decode().split() == URLS


def test_a_slow_pipe_gives_each_line_as_it_comes() -> None:
    with subprocess.Popen([sys.executable, "-c", READ_STDIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for line, url in zip(PLAIN.splitlines(keepends=True), URLS, strict=True):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().decode().strip() == url
        process.stdin.close()


def test_field_map_renames_fields(tmp_path: Path) -> None:
    line = b'{"t": 5, "link": "http://a.de/", "fetched_at": "not read", "html": "<p>", "url": {"not": "read"}}\n'
    [item] = read(tmp_path / "x", line, field_map=parse_field_map(["fetched_at=t", " url = link "]))
    assert item == Record(CrawlEvent(url="http://a.de/", fetched_at=5, html="<p>"), 0, 0)
    assert type(item.event) is CrawlEvent
    assert msgspec.json.decode(msgspec.json.encode(item.event))["fetched_at"] == 5


def test_a_field_taken_by_another_is_not_read_itself(tmp_path: Path) -> None:
    [item] = read(tmp_path / "x", b'{"url": "http://a.de/", "html": "words"}', field_map={"text": "html"})
    assert (item.event.text, item.event.html) == ("words", None)


def test_missing_mapped_url_names_their_field(tmp_path: Path) -> None:
    [item] = read(tmp_path / "x", b'{"url": "http://a.de/"}\n', field_map={"url": "link"})
    assert isinstance(item, Rejection)
    assert item.reason == "no URL (field link)"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["fetched_at"], "write OUR_FIELD=THEIR_FIELD"),
        (["=t"], "write OUR_FIELD=THEIR_FIELD"),
        (["fetched_at="], "write OUR_FIELD=THEIR_FIELD"),
        (["fetchedat=t"], "no field fetchedat; there are url, v, fetched_at"),
        (["fetched_at=t", "fetched_at=u"], "already read from t"),
    ],
)
def test_field_map_errors_say_what_to_write(settings: list[str], reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        parse_field_map(settings)


def test_two_fields_from_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(PLAIN)
    with pytest.raises(BadSetting, match="both be read from t"):
        open_input(str(path), field_map={"fetched_at": "t", "lang": "t"})
