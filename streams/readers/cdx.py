"""CDX and CDXJ indexes, plain, gzip (also ZipNum: many members) or zstd: URLs with digest and status, no bodies.

    CDX    fields named by the header (" CDX N b a m s k r M S V g"), or by their number where there is none
    CDXJ   urlkey, time, and a JSON object with url, mime, status, digest, redirect

A row of type warc/revisit says that its URL was fetched again and found unchanged. Rows of types that are no pages are
counted as skipped. Offsets are in the decompressed data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from dustream.core.errors import BadEvent
from dustream.core.events import is_page_type, media_type
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.lines import BrokenLine, Line, LineInput, lines_of
from dustream.streams.readers.records import Item, Record, bare_digest, readable
from dustream.streams.readers.sources import Source, read_content

row_bytes_max: Final = 1024 * 1024

# Letters of the CDX legend: N key, b time, a URL, m type, s status, k digest, r redirect; M, S, V, g are not used here.
_FIELDS_BY_COUNT: Final = {7: "NbamskS", 9: "NbamskrVg", 10: "NbamskrMVg", 11: "NbamskrMSVg"}

_ROW_START: Final = re.compile(rb"\S+ \d{14} ")
_WHOLE_ROW: Final = re.compile(rb"\S+ \d{14} (\{.*\}|\S+( \S+){4,8})$")


class _CdxjFields(msgspec.Struct):
    """The object of a CDXJ row. Writers disagree on whether numbers are strings."""

    url: str | None = None
    mime: str | None = None
    mime_detected: str | None = msgspec.field(default=None, name="mime-detected")
    status: str | int | None = None
    digest: str | None = None
    redirect: str | None = None


_decode_fields = msgspec.json.Decoder(_CdxjFields).decode


class CdxIndex(LineInput):
    """See the head of this file."""

    format: ClassVar[str] = "CDX"

    def __init__(self, path: str, source: Source) -> None:
        super().__init__(path, source)
        self._fields = ""  # letters of the header; empty: go by the number of fields

    def __iter__(self) -> Iterator[Item]:
        position = 0
        try:
            for line in lines_of(_separate_blocks(read_content(self._source)), row_bytes_max):
                if line.is_blank or self._is_header(line.content):
                    continue
                if self.gives(position):
                    yield from self._item(line, position)
                position += 1
        except BrokenLine as error:
            if self.gives(position):
                yield self.reject(position, error.offset, str(error), error.content, ends_input=True)

    def _is_header(self, content: bytes) -> bool:
        if content.startswith((b" CDX ", b"CDX ")):
            self._fields = "".join(content.decode("ascii", "replace").split()[1:])
            return True
        return content.startswith((b"!", b"@"))  # CDXJ metadata lines

    def _item(self, line: Line, position: int) -> Iterator[Item]:
        try:
            if line.too_long:
                raise BadEvent(f"line longer than {row_bytes_max} bytes")
            outcome = self._read(line.content)
        except BadEvent as error:
            yield self.reject_whole(position, line.offset, str(error), line.content, ends_input=not line.ended)
            return
        if isinstance(outcome, CrawlEvent):
            yield Record(outcome, position, line.offset)
        else:
            self.skip(position, outcome)

    def _read(self, content: bytes) -> CrawlEvent | str:
        try:
            text = content.decode().strip()
        except UnicodeDecodeError as error:
            raise BadEvent(f"not valid UTF-8: {error.reason}") from None
        parts = text.split(" ", 2)
        if len(parts) == 3 and parts[2].startswith("{"):
            return _event(_cdxj_fields(parts[2]), parts[1])
        return self._cdx_event(text.split())

    def _cdx_event(self, values: list[str]) -> CrawlEvent | str:
        letters = self._fields or _FIELDS_BY_COUNT.get(len(values), "")
        if len(letters) != len(values):
            expected = len(letters) or "7, 9, 10 or 11"
            raise BadEvent(f"not a CDX row: {len(values)} fields instead of {expected}")
        row = {letter: value for letter, value in zip(letters, values, strict=True) if value != "-"}
        fields = _CdxjFields(row.get("a"), row.get("m"), None, row.get("s"), row.get("k"), row.get("r"))
        return _event(fields, row.get("b"))


def _separate_blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Some ZipNum writers leave out the line feed at the end of a block (a gzip member): put it back where one whole
    row meets another. Offsets count it."""
    tail = b""
    block_ended = False
    for piece in pieces:
        if not piece:
            block_ended = True
            continue
        if block_ended and _ROW_START.match(piece) and _WHOLE_ROW.match(tail):
            yield b"\n"
        block_ended = False
        yield piece
        before, feed, last = piece.rpartition(b"\n")
        tail = last if feed else (tail + before + last)[:row_bytes_max]


def _cdxj_fields(text: str) -> _CdxjFields:
    try:
        return _decode_fields(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadEvent(f"not a CDXJ row: {error}") from None


def _event(fields: _CdxjFields, time: str | None) -> CrawlEvent | str:
    """The event of a row, or why it is not a page."""
    if not fields.url:
        raise BadEvent("no URL")
    scheme = fields.url.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        return f"scheme {scheme[:40]}"
    revisit = fields.mime == "warc/revisit"
    mime = None if revisit else _known(fields.mime) or _known(fields.mime_detected)
    status = _status(fields.status)
    if 200 <= status <= 299 and not is_page_type(mime):
        return f"content type {media_type(mime)[:80]}"
    event = CrawlEvent(
        url=fields.url,
        fetched_at=time,
        status=status,
        digest=bare_digest(fields.digest),
        redirect_to=_known(fields.redirect),
        revisit_of=fields.url if revisit else None,
        content_type=mime,
    )
    return readable(event)


def _known(value: str | None) -> str | None:
    return None if value in (None, "", "-", "unk") else value


def _status(status: str | int | None) -> int:
    """Rows without a status are revisits and resources: pages that were there."""
    if status is None or status in ("", "-"):
        return 200
    if isinstance(status, str):
        if not status.isdecimal() or len(status) > 4:
            raise BadEvent(f"status {status[:40]!r} is no number")
        return int(status)
    return status
