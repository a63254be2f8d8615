"""JSON Lines: one crawl event per line, plain, gzip or zstd, from a file or standard input.

Unknown fields are ignored. Of a key given twice the last value counts, as in every common JSON parser.
Blank lines are no records. Offsets are in the decompressed data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import ClassVar

import msgspec

from dustream.core.errors import BadEvent
from dustream.core.events import check_schema_version
from dustream.schemas.crawl import CRAWL_EVENT_VERSION, CrawlEvent
from dustream.streams.readers.field_map import FieldMap, UnseenFields, mapped_type, source_fields
from dustream.streams.readers.lines import BrokenLine, Line, LineInput, lines_of
from dustream.streams.readers.records import Border, Item, Record, line_bytes_max, readable
from dustream.streams.readers.sources import Source, read_content

_UTF8_MARK = b"\xef\xbb\xbf"

EventDecoder = Callable[[bytes], CrawlEvent]


class JsonLines(LineInput):
    """See the head of this file."""

    format: ClassVar[str] = "JSONL"

    def __init__(self, path: str, source: Source, field_map: FieldMap | None = None) -> None:
        super().__init__(path, source)
        self._decode = event_decoder(field_map or {})
        self._unseen = UnseenFields(field_map or {})
        self._begin = (0, 0)

    def jump_to(self, position: int, offset: int) -> bool:
        if not self._source.seek(offset):
            return False
        self._begin = (position, offset)
        return True

    def is_divisible(self) -> bool:
        """A line begins behind every line feed. Whether a map fits is noticed from the first lines of the input."""
        return self._source.is_plain_file and not self._unseen.is_looking

    def __iter__(self) -> Iterator[Item]:
        position, _ = self._begin
        try:
            for line in self._lines():
                if line.offset == 0 and line.content.startswith(_UTF8_MARK):
                    line = line._replace(start=line.start + len(_UTF8_MARK))
                if line.is_blank:
                    continue
                if position >= self.first_position:
                    if self._unseen.is_looking:
                        self.notices += self._unseen.look(line.content)
                    if self.share.has(position):
                        yield self._item(line, position)
                position += 1
            self.notices += self._unseen.end()
        except BrokenLine as error:
            self.notices += self._unseen.end()
            if self.gives(position):
                yield self.reject(position, error.offset, str(error), error.content, ends_input=True)

    def _lines(self) -> Iterator[Line]:
        """Those that begin in the segment, and its borders. Without a line behind it, or one that can be read, it ends
        where the file does."""
        segment, offset = self.segment, self._begin[1]
        if segment.begin.offset:
            offset = segment.begin.offset - (not segment.is_known)  # else a line that begins there is taken for a rest
            self._source.seek(offset)
        lines = lines_of(iter(self._source.read, b"") if offset else read_content(self._source), offset=offset)
        self.begins = self.ends = Border(self.bytes_total or sys.maxsize)
        if not segment.is_known:
            next(lines, None)
        for number, line in enumerate(lines):
            if not number:
                self.begins = Border(line.offset)
            if line.offset >= segment.end:
                self.ends = Border(line.offset)
                return
            yield line

    def _item(self, line: Line, position: int) -> Item:
        content = line.content
        if line.too_long:
            return self.reject(position, line.offset, f"line longer than {line_bytes_max} bytes", content)
        try:
            return Record(self._decode(content), position, line.offset)
        except BadEvent as error:
            return self.reject_whole(position, line.offset, str(error), content, ends_input=not line.ended)


def event_decoder(field_map: FieldMap) -> EventDecoder:
    """A function from one JSON object to its event; raises BadEvent with a readable reason."""
    decode = _mapped_decode(field_map) if field_map else msgspec.json.Decoder(CrawlEvent).decode
    url_source = source_fields(field_map).get("url", "url")

    def decode_event(content: bytes) -> CrawlEvent:
        try:
            event = decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadEvent(_explain(error, content, url_source)) from None
        return readable(event)

    return decode_event


def _mapped_decode(field_map: FieldMap) -> EventDecoder:
    decode = msgspec.json.Decoder(mapped_type(field_map)).decode
    names = tuple(source_fields(field_map))

    def decode_mapped(content: bytes) -> CrawlEvent:
        mapped = decode(content)
        return CrawlEvent(**{name: getattr(mapped, name) for name in names})

    return decode_mapped


class _VersionOnly(msgspec.Struct):
    v: int = CRAWL_EVENT_VERSION


def _explain(error: Exception, content: bytes, url_source: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not valid UTF-8: {error.reason}"
    if isinstance(error, RecursionError):
        return "JSON nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        return f"not a JSON object: {error}"
    try:
        check_schema_version(_version_of(content))
    except BadEvent as refusal:
        return str(refusal)
    text = str(error)
    if text == f"Object missing required field `{url_source}`" or text.endswith(f"got `null` - at `$.{url_source}`"):
        return f"no URL (field {url_source})"
    return f"not a crawl event: {text[0].lower()}{text[1:].replace(' - at `$.', ' in field `')}"


def _version_of(content: bytes) -> int:
    try:
        return msgspec.json.decode(content, type=_VersionOnly).v
    except (msgspec.MsgspecError, RecursionError):
        return CRAWL_EVENT_VERSION  # not a version: the first error is more helpful
