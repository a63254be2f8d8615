"""Opening inputs: names, formats, what is refused, and knowing a file again."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path

import msgspec
import pytest
import zstandard

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.streams.readers import (
    Fingerprint,
    change_since,
    expand_paths,
    fingerprint,
    open_input,
    open_inputs,
)

LINE = b'{"url": "http://a.de/"}\n'


def test_paths_are_expanded_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "sub/c.jsonl", ".hidden", "sub/.git/d.jsonl", "_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(LINE)
    base = str(tmp_path)
    assert expand_paths([base]) == [f"{base}/a.jsonl", f"{base}/b.jsonl", f"{base}/sub/c.jsonl"]
    assert expand_paths([f"{base}/*.jsonl"]) == [f"{base}/a.jsonl", f"{base}/b.jsonl"]
    assert expand_paths([f"{base}/b.jsonl", "-", f"{base}/a.jsonl"]) == [f"{base}/b.jsonl", "-", f"{base}/a.jsonl"]


@pytest.mark.parametrize("path", ["nowhere.jsonl", "no*match"])
def test_a_path_that_leads_nowhere_is_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        expand_paths([str(tmp_path / path)])


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no files in this folder"):
        expand_paths([str(tmp_path)])


def test_inputs_are_opened_one_after_the_other(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(LINE * number)
    assert [len(list(opened)) for opened in open_inputs([str(tmp_path)])] == [0, 1, 2]


@pytest.mark.parametrize("name", ["x", "x.jsonl", "x.warc", "x.warc.gz", "x.arc", "x.cdx"])
@pytest.mark.parametrize("content", [b"", gzip.compress(b""), zstandard.compress(b""), b"\n\n"])
def test_an_empty_file_has_no_records(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with open_input(str(path)) as opened:
        assert not [item for item in opened if not hasattr(item, "reason")]


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(LINE)
    with open_input(str(path)) as opened:
        assert opened.format == "JSONL"
        assert len(list(opened)) == 1


REFUSED = {
    "a JSON array": b'[{"url": "http://a.de/"}]',
    "over several lines": json.dumps({"url": "http://a.de/"}, indent=1).encode(),
    "bzip2": bz2.compress(LINE),
    "a PDF": b"%PDF-1.7\n",
    "an image": b"\x89PNG\r\n\x1a\n",
    "UTF-16": '{"url": "x"}'.encode("utf-16"),
    "a page by itself": b"<!DOCTYPE html><p>x",
    "ZipNum index": b"de,a)/ 20240501120000\tpart-0\t0\t275\t1\n",
    "not recognised": b"just some words\nand more\n",
}


@pytest.mark.parametrize(("what", "content"), REFUSED.items(), ids=REFUSED)
def test_other_formats_are_refused_by_name_with_a_reason(tmp_path: Path, what: str, content: bytes) -> None:
    path = tmp_path / "input.bin"
    for stored in (content, gzip.compress(content)):
        path.write_bytes(stored)
        with pytest.raises(UnreadableInput) as caught:
            open_input(str(path))
        assert str(caught.value).startswith(f"{path}: ")
        assert what in str(caught.value)
        assert "Formats read: WARC" in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="No such file"):
        open_input(str(tmp_path / "x"))
    with pytest.raises(UnreadableInput, match="directory"):
        open_input(str(tmp_path))


def test_a_field_map_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="no field when"):
        open_input(str(tmp_path / "missing"), field_map={"when": "t"})


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_a_file_is_known_again(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    content = os.urandom(size)
    path.write_bytes(content)
    known = fingerprint(str(path))
    assert change_since(known, str(path)) == "same"
    path.write_bytes(content + b"more")
    assert change_since(known, str(path)) == "grown"
    if size:
        for changed_at in (0, size - 1):
            other = bytearray(content + b"more")
            other[changed_at] ^= 1
            path.write_bytes(other)
            assert change_since(known, str(path)) == "other"
        path.write_bytes(content[:-1])
        assert change_since(known, str(path)) == "other"


def test_a_fingerprint_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(LINE)
    known = fingerprint(str(tmp_path / "x"))
    assert msgspec.json.decode(msgspec.json.encode(known), type=Fingerprint) == known


def test_standard_input_cannot_be_known_again() -> None:
    with pytest.raises(UnreadableInput, match="only a regular file"):
        fingerprint("-")
