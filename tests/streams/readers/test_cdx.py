"""CDX and CDXJ rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from dustream.core.events import classify
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers import Item, Record, Rejection, open_input

HEADER_11 = b" CDX N b a m s k r M S V g\n"
HEADER_9 = b" CDX N b a m s k r V g\n"
KEY = b"de,a)/x 20240501120000 http://a.de/x "
PAGE = CrawlEvent(url="http://a.de/x", fetched_at="20240501120000", digest="ABC", content_type="text/html")


def read(path: Path, content: bytes) -> list[Item]:
    path.write_bytes(content)
    with open_input(str(path)) as opened:
        return list(opened)


@pytest.mark.parametrize(
    "content",
    [
        HEADER_11 + KEY + b"text/html 200 ABC - - 10 20 f.warc.gz\n",
        KEY + b"text/html 200 ABC - - 10 20 f.warc.gz\n",
        HEADER_9 + KEY + b"text/html 200 ABC - 20 f.warc.gz\n",
        KEY + b"text/html 200 ABC - 20 f.warc.gz\n",
        KEY + b"text/html 200 ABC - - 20 f.warc.gz\n",
        KEY + b"text/html 200 ABC 10\n",
        b" CDX b s a k m N\n20240501120000 200 http://a.de/x ABC text/html de,a)/x\n",
        b'de,a)/x 20240501120000 {"url": "http://a.de/x", "mime": "text/html", "status": "200", "digest": "ABC"}\n',
        b'de,a)/x 20240501120000 {"url": "http://a.de/x", "mime": "unk", "mime-detected": "text/html", "status": 200,'
        b' "digest": "sha1:ABC", "more": {}}',
        b"!OpenWayback-CDXJ 1.0\n"
        b'de,a)/x 20240501120000 {"url": "http://a.de/x", "mime": "text/html", "digest": "ABC", "redirect": "-"}\n',
    ],
)
def test_one_row_in_all_spellings(tmp_path: Path, content: bytes) -> None:
    [item] = read(tmp_path / "x", content)
    assert item.event == PAGE
    assert item.position == 0
    for compress in (gzip.compress, zstandard.compress):
        assert read(tmp_path / "x", compress(content)) == [item]


def test_rows_say_what_happened(tmp_path: Path) -> None:
    rows = [
        b"warc/revisit - ABC - - 10 20 f",
        b"text/html 302 ABC http://a.de/y - 10 20 f",
        b"text/html 302 ABC - - 10 20 f",
        b"image/png 404 ABC - - 10 20 f",
        b"unk 200 - - - 10 20 f",
        b"- 200 ABC - - 10 20 f",
    ]
    items = read(tmp_path / "x", HEADER_11 + b"".join(KEY + row + b"\n" for row in rows))
    kinds = [classify(item.event).kind for item in items]
    assert kinds == ["seen", "redirect", "failed", "gone", "skipped", "content"]
    assert items[0].event.revisit_of == "http://a.de/x"
    assert items[1].event.redirect_to == "http://a.de/y"


def test_what_is_no_page_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(
        KEY
        + b"image/png 200 ABC - - 10 20 f\n"
        + b"de,a 20240501120000 dns:a.de text/dns - ABC - - 10 20 f\n"
        + KEY
        + b"text/html 200 ABC - - 10 20 f\n"
    )
    with open_input(str(path)) as opened:
        [item] = opened
    assert item.position == 2
    assert opened.skipped == {"content type image/png": 1, "scheme dns": 1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (KEY + b"text/html 200 ABC - - 10 20 f extra", "12 fields instead of 11"),
        (b"garbage", "1 fields instead of 11"),
        (KEY + b"text/html 2x0 ABC - - 10 20 f", "status '2x0' is no number"),
        (b"de,a)/x 20240501120000 - text/html 200 ABC - - 10 20 f", "no URL"),
        (KEY.replace(b"/x ", b"/\xff ") + b"text/html 200 ABC - - 10 20 f", "not valid UTF-8"),
        (b'de,a)/x 20240501120000 {"url": 5}', "not a CDXJ row"),
        (b'de,a)/x 20240501120000 {"url": "http', "not a CDXJ row"),
        (b"x" * 2_000_000, "longer than"),
    ],
)
def test_a_bad_row_is_rejected_and_its_neighbours_are_unharmed(tmp_path: Path, row: bytes, reason: str) -> None:
    good = KEY + b"text/html 200 ABC - - 10 20 f\n"
    first, bad, last = read(tmp_path / "x", HEADER_11 + good + row + b"\n" + good)
    assert first.event == last.event == PAGE
    assert isinstance(bad, Rejection)
    assert reason in bad.reason
    assert (bad.position, bad.offset) == (1, len(HEADER_11) + len(good))
    assert bad.excerpt == row[:256]


def test_zipnum_blocks_are_read_with_and_without_line_ends(tmp_path: Path) -> None:
    rows = [KEY.replace(b"/x", b"/%d" % number) + b"text/html 200 ABC - - 10 20 f" for number in range(9)]
    blocks = [b"\n".join(rows[start : start + 3]) for start in (0, 3, 6)]
    expected = [f"http://a.de/{number}" for number in range(9)]
    for end in (b"", b"\n"):
        items = read(tmp_path / "x.cdx.gz", b"".join(gzip.compress(block + end) for block in blocks))
        assert [item.event.url for item in items if isinstance(item, Record)] == expected


def test_a_row_across_gzip_members_stays_one_row(tmp_path: Path) -> None:
    content = HEADER_11 + KEY + b"text/html 200 ABC - - 10 20 f\n"
    for cut in range(1, len(content)):
        items = read(tmp_path / "x.cdx.gz", gzip.compress(content[:cut]) + gzip.compress(content[cut:]))
        assert [item.event for item in items if isinstance(item, Record)] == [PAGE]


def test_a_truncated_index_gives_all_before_the_break(tmp_path: Path) -> None:
    rows = b"".join(KEY.replace(b"/x", b"/%d" % number) + b"text/html 200 ABC - - 10 20 f\n" for number in range(500))
    whole = gzip.compress(rows)
    items = read(tmp_path / "x", whole[: len(whole) // 2])
    assert len(items) > 100
    assert all(isinstance(item, Record) for item in items[:-1])
    assert isinstance(items[-1], Rejection)
    assert items[-1].ends_input
    with open_input(str(tmp_path / "x")) as opened:
        assert list(opened.start_at(50)) == items[50:]
