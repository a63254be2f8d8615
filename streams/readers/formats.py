"""Detects the format of an input by its content; the name only helps where contents look alike."""

from __future__ import annotations

import os
import re
from typing import Final, Literal

from dustream.core.errors import UnreadableInput
from dustream.streams.readers.sources import Source, compression_of, peek_content

Format = Literal["jsonl", "warc", "arc", "cdx", "parquet", "wacz"]

READ_FORMATS: Final = "WARC and WET (.gz, .zst), ARC (.gz), WACZ, JSONL (.gz, .zst), Parquet, CDX and CDXJ (.gz, .zst)"

FORMATS_READ: Final = f". Formats read: {READ_FORMATS}"

_NAMED_FORMAT: Final = re.compile(r"\.(warc|wet|arc|cdxj?|jsonl|ndjson|json)(?=\.|$)")
_FORMAT_NAMED: Final[dict[str, Format]] = {
    "warc": "warc",
    "wet": "warc",
    "arc": "arc",
    "cdx": "cdx",
    "cdxj": "cdx",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
}
_CDXJ_LINE: Final = re.compile(rb"\S+ \d{4,17} \{|!\S*CDXJ")
_CDX_HEADER: Final = re.compile(rb" ?CDX( [A-Za-z])+\s*$")
_CDX_LINE: Final = re.compile(rb"\S+ \d{14} \S+( \S+){4,8}\s*$")
_ZIPNUM_INDEX_LINE: Final = re.compile(rb"\S+( \d{14})?[^\t]*\t[^\t]+\t\d+\t\d+(\t\d+)?\s*$")
_ZIPNUM_LOCATION_LINE: Final = re.compile(rb"[^\t{<]+(\t\S+)+\s*$")
_ARC_HEADER: Final = re.compile(rb"filedesc://\S+ \S+ \d{8,14} text/plain -?\d+")

NOT_RECOGNISED: Final = "format not recognised"
_WARC_START: Final = re.compile(rb"WARC/\d\.\d\r?\nWARC-")
# in an array of objects, each on a line, a comma or a bracket follows the object
_OBJECT_LINE: Final = re.compile(rb"^\{.*\}[ \t\r]*\n\s*(?![\s\],])", re.MULTILINE)
_first_line_bytes_max: Final = 4096  # looked at, by patterns that take long on a long line
_WARC_TYPE: Final = re.compile(rb"^WARC-Type:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
_WAT_NAME: Final = re.compile(rb"^WARC-Filename:[ \t]*\S+\.wat(\.gz)?\s*$", re.IGNORECASE | re.MULTILINE)
_WAT_ENVELOPE: Final = re.compile(rb'\r\n\r\n\{"(Container|Envelope)":')

# Magic numbers of files passed by mistake, and what to do instead.
_KNOWN_OTHERS: Final = (
    (b"BZh", "bzip2 data: unpack it first (bunzip2)"),
    (b"\xfd7zXZ\0", "xz data: unpack it first (xz -d)"),
    (b"\x04\x22\x4d\x18", "lz4 data: unpack it first (lz4 -d)"),
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG", "an image"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"ARROW1", "Arrow IPC data: write it as Parquet"),
    (b"Obj\x01", "Avro data: write it as Parquet or JSONL"),
    (b"ORC", "ORC data: write it as Parquet"),
    (b"\xff\xfe", "UTF-16 text: convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16 text: convert it to UTF-8"),
)


def detect_format(path: str, source: Source) -> Format:
    """The format of an input, or UnreadableInput saying what it seems to be instead."""
    head = source.peek()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "wacz"
    content = peek_content(source)
    found = _text_format(path, content)
    if found is None and _is_broken_off(head, content):
        found = _format_by_name(path)
    if found is not None:
        return found
    what = _what_else(path, content)
    # the first record may be damaged: the others are found by the reader
    named = _format_by_name(path)
    if what == NOT_RECOGNISED or (named == "jsonl" and _OBJECT_LINE.search(content)):
        found = named or _format_inside(content)
    if found is None:
        raise refuse(path, what)
    return found


def refuse(path: str, reason: str) -> UnreadableInput:
    return UnreadableInput(f"{path}: {reason}{FORMATS_READ}")


def _is_broken_off(head: bytes, content: bytes) -> bool:
    """Whether the file is too short to detect its format: it ends within its first line."""
    return b"\n" not in content and (len(head) < 8 or compression_of(head) != "plain")


def _format_by_name(path: str) -> Format | None:
    """So that an empty file is an input with no records, and the reader of a broken one reports where it breaks."""
    found = _NAMED_FORMAT.search(os.path.basename(path).lower())
    return _FORMAT_NAMED[found[1]] if found else None


def _format_inside(content: bytes) -> Format | None:
    """Of an archive whose first record is damaged."""
    return "warc" if _WARC_START.search(content) else "arc" if _ARC_HEADER.search(content) else None


def _text_format(path: str, content: bytes) -> Format | None:
    if content.startswith(b"WARC/"):
        return _warc_format(path, content)
    if _ARC_HEADER.match(content):
        return "arc"
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return _format_by_name(path) or "jsonl"
    if text[:1] in (b"{", b"["):
        return _json_format(path, text)
    first = text.partition(b"\n")[0]
    if _CDX_HEADER.match(content.partition(b"\n")[0]) or _CDXJ_LINE.match(first) or _CDX_LINE.match(first):
        return "cdx"
    return None


def _warc_format(path: str, content: bytes) -> Format:
    """A WAT is recognised by the file name in its warcinfo, or by a first record of JSON metadata after it."""
    types = _WARC_TYPE.findall(content)
    first = next((kind for kind in types if kind.lower() != b"warcinfo"), b"")
    if _WAT_NAME.search(content) or (first.lower() == b"metadata" and _WAT_ENVELOPE.search(content)):
        raise refuse(path, "a WAT file, metadata of pages without the pages: pass the WARC or WET it was made from")
    return "warc"


def _json_format(path: str, text: bytes) -> Format:
    first, feed, rest = text.partition(b"\n")
    if _OBJECT_LINE.search(rest):  # whatever the first line is
        return "jsonl"
    if text.startswith(b"["):
        raise refuse(path, "a JSON array: write one object per line (jq -c '.[]')")
    if feed and first.strip() == b"{":
        raise refuse(path, "JSON objects over several lines: write one per line (jq -c .)")
    return "jsonl"


def _what_else(path: str, content: bytes) -> str:
    first = content.lstrip().partition(b"\n")[0][:_first_line_bytes_max]
    for magic, what in _KNOWN_OTHERS:
        if content.startswith(magic):
            return what
    if _ZIPNUM_INDEX_LINE.match(first):
        return "a ZipNum index: pass the .cdx.gz files it points to"
    if path.lower().endswith(".loc") and _ZIPNUM_LOCATION_LINE.match(first):
        return "a ZipNum location file: pass the .cdx.gz files it names"
    if re.match(rb"<(!doctype|html|\?xml)", content.lstrip(), re.IGNORECASE):
        return "a page by itself: put pages into WARC or JSONL, with their URLs"
    return NOT_RECOGNISED
