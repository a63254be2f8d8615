"""WARC and WET, plain, gzip or zstd.

    response     → a fetch: status, Location of a redirect, body of a page (transfer and content codings removed)
    resource     → a page kept without HTTP headers
    revisit      → revisit_of the URL it refers to, or of itself
    conversion   → text (WET)
    all others   → counted as skipped

Only http and https URLs, and only types that can be pages (`is_page_type`), are read; the rest is counted by reason and
its bytes are passed over. A record is given out when the next one has been found where it should be, or the input has
ended: until then its Content-Length may prove wrong. Damage costs the records it touches and one rejection.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, NamedTuple

from fastwarc.warc import ArchiveIterator

from dustream.core.errors import BadEvent
from dustream.streams.readers.archive_input import ArchiveInput
from dustream.streams.readers.archive_record import Outcome, Skip, Truncated, read_record
from dustream.streams.readers.framing import ANY_BLANK_LINE, framed_end, is_compressed_at, member_end, next_record_start
from dustream.streams.readers.records import Item, excerpt_bytes_max
from dustream.streams.readers.sources import BrokenSource


class _Held(NamedTuple):
    """A record read but not yet given out."""

    offset: int
    outcome: Outcome


class WarcArchive(ArchiveInput):
    """See the head of this file."""

    format: ClassVar[str] = "WARC"

    def jump_to(self, position: int, offset: int) -> bool:
        """In a file that is compressed as a whole its records have no offsets of their own."""
        if is_compressed_at(self.file, 0) and not is_compressed_at(self.file, offset):
            return False
        self.position, self.start_offset = position, offset
        return True

    def _stretch(self, start: int) -> Generator[Item, None, int | None]:
        self.file.seek(start)
        held: _Held | None = None
        offset = start
        try:
            for record in ArchiveIterator(self.file, parse_http=False):
                offset = self.progress_bytes = record.stream_pos
                if held is not None:
                    yield from self.give(held.outcome, held.offset, end=offset)
                    held = None
                held = _Held(offset, self._outcome(record))
        except (OSError, Truncated) as error:
            return (yield from self._after_damage(held, offset, str(error)))
        yield from self._after_end(held, start)
        return None

    def _after_end(self, held: _Held | None, start: int) -> Generator[Item, None, None]:
        """What breaks off inside a member's header or checksum looks like an end to the parser: the records are good,
        but more may be missing."""
        if held is not None:
            yield from self.give(held.outcome, held.offset)
        last = start if held is None else held.offset
        if not is_compressed_at(self.file, last):
            return
        try:
            end = last if held is None else member_end(self.file, last)
            self.file.seek(end)
            if self.file.read(excerpt_bytes_max).strip(b"\0\r\n"):
                raise BrokenSource("is followed by a piece of another")
        except BrokenSource as error:
            reason = BadEvent(f"the last record {error}: the file is truncated")
            yield from self.give(reason, last, ends_input=True)

    def _after_damage(self, held: _Held | None, offset: int, reason: str) -> Generator[Item, None, int | None]:
        """`held` is the record before the damage, read in full; without it the damage is in the record at `offset`."""
        broken_at = offset
        if held is not None:
            try:
                broken_at = self._end_of(held)
                yield from self.give(held.outcome, held.offset, end=broken_at)
            except BrokenSource as error:
                reason = f"the record {error}"
        again = self._reread(broken_at)
        next_start = next_record_start(self.file, broken_at + 1)
        if again is not None:
            yield from self.give(again.outcome, again.offset, end=next_start)
        else:
            yield from self.give(BadEvent(reason), broken_at, end=next_start, ends_input=next_start is None)
        return next_start

    def _end_of(self, held: _Held) -> int:
        """Where a record ends; BrokenSource if it is not sound to there. In a file compressed as a whole there is no
        telling: its records have no offsets of their own."""
        if is_compressed_at(self.file, 0) and not is_compressed_at(self.file, held.offset):
            return held.offset
        return framed_end(self.file, held.offset)

    def _reread(self, offset: int) -> _Held | None:
        """The record here, if it is only spelt against the rules (line ends, white space) but whole."""
        try:
            framed_end(self.file, offset, ANY_BLANK_LINE)
            self.file.seek(offset)
            for record in ArchiveIterator(self.file, parse_http=False, quirks_mode=True):
                return _Held(offset, self._outcome(record)) if record.stream_pos == offset else None
        except (BrokenSource, OSError, Truncated):
            pass
        return None

    def _outcome(self, record: Any) -> Outcome:
        if not record.headers.get("WARC-Type") or record.headers.get("Content-Length") is None:
            raise Truncated("the record header is broken off or no WARC header")
        block = WarcBlock(record)
        if self.position < self.first_position:
            outcome: Outcome = Skip("before the start position")
        else:
            try:
                outcome = read_record(record.headers, block)
            except BadEvent as error:
                outcome = error
        block.finish()
        return outcome


class WarcBlock:
    """The block of a WARC record."""

    def __init__(self, record: Any) -> None:
        self._record = record
        length = record.headers["Content-Length"].strip()
        if not length.isdecimal():
            raise Truncated(f"Content-Length {length[:40]!r} is no number")
        self.size = int(length)
        self._seen = 0

    def read(self, size: int) -> bytes:
        content: bytes = self._record.reader.read(min(size, self.size - self._seen))
        self._seen += len(content)
        return content

    def finish(self) -> None:
        """Pass over what was not read; all of it must be there."""
        self._seen += self._record.consume()
        if self._seen < self.size:
            raise Truncated(f"the record is truncated: {self._seen} of {self.size} bytes are there")
