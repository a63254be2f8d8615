"""ARC files and WACZ packages."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dustream.core.errors import UnreadableInput
from dustream.streams.readers import Item, Record, Rejection, open_input

HTML = b"<html><body>from the old days</body></html>"
Compress = Callable[[bytes], bytes]
by_record = pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])


def http(payload: bytes, content_type: str = "text/html") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode() + payload


def arc_record(url: str, block: bytes, length: str | None = None) -> bytes:
    head = f"{url} 10.0.0.1 20020501120000 text/html {length or len(block)}\n"
    return head.encode() + block + b"\n"


VERSION = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
ARC_HEADER = b"filedesc://x.arc 0.0.0.0 20020501120000 text/plain %d\n" % len(VERSION) + VERSION + b"\n"


def page(number: int) -> bytes:
    return arc_record(f"http://a.de/{number}", http(HTML))


def read(path: Path, content: bytes) -> list[Item]:
    path.write_bytes(content)
    with open_input(str(path)) as opened:
        return list(opened)


def urls(items: list[Item]) -> list[str]:
    return [item.event.url for item in items if isinstance(item, Record)]


def rejections(items: list[Item]) -> list[Rejection]:
    return [item for item in items if isinstance(item, Rejection)]


@by_record
def test_arc_records(tmp_path: Path, compress: Compress) -> None:
    dns = arc_record("dns:a.de", b"20020501120000\na.de. 10 IN A 10.0.0.1\n")
    image = arc_record("http://a.de/i", http(b"GIF", "image/gif"))
    parts = [compress(part) for part in [ARC_HEADER, page(1), dns, image, page(2)]]
    path = tmp_path / "x"
    path.write_bytes(b"".join(parts))
    with open_input(str(path)) as opened:
        items = list(opened)
    assert urls(items) == ["http://a.de/1", "http://a.de/2"]
    assert [item.position for item in items] == [1, 4]
    assert [item.offset for item in items] == [sum(map(len, parts[:1])), sum(map(len, parts[:4]))]
    assert items[0].event.body == HTML
    assert items[0].event.fetched_at == "20020501120000"
    assert opened.skipped == {"arc header record": 1, "scheme dns": 1, "content type image/gif": 1}
    assert opened.bytes_read == opened.bytes_total
    with open_input(str(path)) as opened:
        assert list(opened.start_at(2)) == items[1:]


@by_record
@pytest.mark.parametrize("length", ["-1", "abc", "40", "99999"])
def test_a_wrong_arc_length_costs_its_own_record(tmp_path: Path, compress: Compress, length: str) -> None:
    parts = [ARC_HEADER, page(1), arc_record("http://a.de/bad", http(HTML), length), page(2), page(3)]
    items = read(tmp_path / "x.arc", b"".join(map(compress, parts)))
    assert urls(items) == ["http://a.de/1", "http://a.de/2", "http://a.de/3"]
    [rejection] = rejections(items)
    assert rejection.original == compress(parts[2]), "up to the next record that can be read"


@by_record
def test_bad_arc_record_is_kept_as_it_is_stored(tmp_path: Path, compress: Compress) -> None:
    bad = arc_record("http://a.de/bad", b"no HTTP here")
    items = read(tmp_path / "x.arc", b"".join(map(compress, [ARC_HEADER, page(1), bad, page(2)])))
    [rejection] = rejections(items)
    assert rejection.original.rstrip(b"\n") == compress(bad).rstrip(b"\n")
    assert urls(items) == ["http://a.de/1", "http://a.de/2"]


@by_record
def test_every_arc_cut_gives_a_prefix_and_at_most_one_rejection(
    tmp_path: Path, compress: Compress, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = b"".join(map(compress, [ARC_HEADER, page(1), page(2), page(3)]))
    for cut in range(1, len(whole), 5 if compress is bytes else 1):
        path = tmp_path / "cut.arc"
        try:
            items = read(path, whole[:cut])
        except UnreadableInput:
            assert cut < len(ARC_HEADER)
            continue
        good = urls(items)
        assert good == ["http://a.de/1", "http://a.de/2", "http://a.de/3"][: len(good)], cut
        assert len(rejections(items)) <= 1, cut
    assert capsys.readouterr().err == ""


def warc_record(number: int) -> bytes:
    block = http(HTML)
    return (
        (
            b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.de/%d\r\nWARC-Date: 2024-05-01T12:00:00Z\r\n"
            b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n" % (number, len(block))
        )
        + block
        + b"\r\n\r\n"
    )


def wacz(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as package:
        for name, content in members.items():
            package.writestr(name, content)
    return path


MEMBERS = {
    "datapackage.json": b"{}",
    "archive/b.warc": warc_record(3),
    "archive/a.warc.gz": gzip.compress(warc_record(1)) + gzip.compress(warc_record(2)),
    "indexes/index.cdx.gz": gzip.compress(b"x"),
    "pages/pages.jsonl": b'{"url": "http://not.read/"}',
}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wacz_is_its_warcs(tmp_path: Path, compression: int) -> None:
    path = wacz(tmp_path / "x.wacz", MEMBERS, compression)
    with open_input(str(path)) as opened:
        items = list(opened)
        assert opened.bytes_read == opened.bytes_total == path.stat().st_size
    assert urls(items) == ["http://a.de/1", "http://a.de/2", "http://a.de/3"]
    assert [item.position for item in items] == [0, 1, 2]
    for start in range(4):
        with open_input(str(path)) as opened:
            assert list(opened.start_at(start)) == items[start:]


def test_damage_in_a_wacz_names_the_warc(tmp_path: Path) -> None:
    members = {**MEMBERS, "archive/a.warc.gz": gzip.compress(warc_record(1)) + gzip.compress(warc_record(2))[:-30]}
    path = wacz(tmp_path / "x.wacz", members)
    with open_input(str(path)) as opened:
        items = list(opened)
    assert urls(items) == ["http://a.de/1", "http://a.de/3"]
    assert [(item.file, item.position) for item in rejections(items)] == [(f"{path}!archive/a.warc.gz", 1)]
    assert [item.position for item in items] == [0, 1, 2]


def test_damage_of_the_zip_costs_one_part(tmp_path: Path) -> None:
    path = wacz(tmp_path / "x.wacz", MEMBERS)
    content = bytearray(path.read_bytes())
    at = content.index(b"http://a.de/3") + 12
    content[at : at + 1] = b"9"  # the record stays well-formed, but the zip's checksum does not fit
    path.write_bytes(content)
    with open_input(str(path)) as opened:
        items = list(opened)
    assert urls(items)[:2] == ["http://a.de/1", "http://a.de/2"]
    assert "cannot be read further" in rejections(items)[0].reason


def test_zips_that_are_no_wacz_are_refused(tmp_path: Path) -> None:
    path = wacz(tmp_path / "x.zip", {"data/test.txt": b"x"})
    with pytest.raises(UnreadableInput, match="not a WACZ"):
        open_input(str(path))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UnreadableInput, match="truncated or damaged"):
        open_input(str(path))
