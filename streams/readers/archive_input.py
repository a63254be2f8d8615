"""Shared by the WARC and ARC readers: a seekable file, positions, and records in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import BinaryIO, ClassVar, NamedTuple

from dustream.core.errors import BadEvent
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.archive_record import RecordBlock, read_record
from dustream.streams.readers.content import Content, is_packed
from dustream.streams.readers.framing import Format, Frame, UnsoundRecord, frame, next_member
from dustream.streams.readers.records import Border, Input, Item, Record, Rejection, original_bytes_max
from dustream.streams.readers.sources import BrokenSource

NO_OFFSET = -1
_RECORDS_TRIED = 4


class _Lost(NamedTuple):
    """The rejected bytes: their offset, the first of them, and their number."""

    offset: int
    original: bytes
    size: int


class ArchiveInput(Input):
    """`file` is seekable. The offset of a record is that of the stored file, compressed or not; NO_OFFSET of a record
    that begins inside a compressed member."""

    archive: ClassVar[Format]

    def __init__(self, path: str, file: BinaryIO, total_bytes: int | None) -> None:
        super().__init__(path)
        self.file = file
        self.position = 0  # of the next record; at the end, the number of records
        self.start_offset = 0
        self.progress_bytes = 0
        self._total_bytes = total_bytes

    def jump_to(self, position: int, offset: int) -> bool:
        if offset == NO_OFFSET or is_packed(self.file, 0) != is_packed(self.file, offset):
            return False
        self.position, self.start_offset = position, offset
        return True

    def is_divisible(self) -> bool:
        """Whether the first records begin where they can be found: in plain files, or in members of their own."""
        content = Content(self.file, 0, packed=is_packed(self.file, 0))
        at = content.skip(content.begin)
        try:
            for _ in range(_RECORDS_TRIED):
                at = content.skip(frame(self.archive, content, at).end)
                if content.is_end(at) or content.stored(at) is None:
                    return False
        except UnsoundRecord:
            return False
        return True

    def __iter__(self) -> Iterator[Item]:
        border: Border | None = self._first_border()
        self.begins = border or self._end_of_file()
        while border is not None and border.offset < self.segment.end:
            border = yield from self._stretch(border)
        self.ends = border or self._end_of_file()
        if border is None:
            self.progress_bytes = self.bytes_total or self.progress_bytes

    def _first_border(self) -> Border | None:
        if self.segment.is_known:
            return self.segment.begin if self.segment.begin.offset else Border(self.start_offset)
        begin = self.segment.begin.offset
        if is_packed(self.file, 0):
            found = next_member(self.file, begin, self.archive.start)
        else:
            found = Content(self.file, begin, packed=False).find(self.archive.start, begin)
        return None if found is None else Border(found)

    def _end_of_file(self) -> Border:
        return Border(self.bytes_total or sys.maxsize)

    def _stretch(self, border: Border) -> Generator[Item, None, Border | None]:
        """Records from here to the end of the segment, or to the next damage of compressed data; then where to
        continue."""
        content = Content(self.file, border.offset, packed=is_packed(self.file, border.offset))
        content.cut_giants = border.cut_giants
        at = content.skip(content.begin)
        reason = ""
        while not reason and not content.is_end(at):
            content.release(at)
            stored = content.stored(at)
            if stored is not None and stored >= self.segment.end:
                return Border(stored, content.cut_giants)
            self.progress_bytes = stored or self.progress_bytes
            try:
                found = frame(self.archive, content, at)
            except UnsoundRecord as cut:
                next_at = cut.next_at or content.find(self.archive.start, at + 1)
                if next_at is None:
                    reason = str(cut)
                else:
                    yield from self._reject(self._lost(content, at, next_at), str(cut))
                    at = next_at
            else:
                after = content.skip(found.end)
                yield from self._give(content, at, found, after)
                at = after
        if content.broken is not None:
            return (yield from self._after_damage(content, at, content.broken))
        if not reason:
            return None
        # the beginning of a compressed file may be damaged so that it looks like a plain one
        next_start = None if content.is_packed else next_member(self.file, at + 1, self.archive.start)
        lost = self._lost(content, at, None) if next_start is None else self._stored(at, next_start)
        yield from self._reject(lost, reason, ends_input=next_start is None)
        return None if next_start is None else Border(next_start)

    def _after_damage(self, content: Content, at: int, broken: BrokenSource) -> Generator[Item, None, Border | None]:
        """`at` is where the record begins that the damage is in, or where the content ends."""
        next_start = next_member(self.file, broken.at + 1, self.archive.start) if content.is_packed else None
        if next_start is None and broken.at == 0 and content.is_packed:
            # nor can anything of the first member be read: a plain file whose beginning is damaged looks so, too
            next_start = Content(self.file, 1, packed=False).find(self.archive.start, 1)
        if content.is_packed and at >= content.broken_from:
            lost = self._stored(broken.at, next_start)
        else:
            lost = self._lost(content, at, None)
        yield from self._reject(lost, str(broken), ends_input=next_start is None)
        return None if next_start is None else Border(next_start)

    # ---------------------------------------------------------------- output

    def _next_position(self) -> int:
        position, self.position = self.position, self.position + 1
        return position

    def _give(self, content: Content, at: int, found: Frame, after: int) -> Iterator[Item]:
        """Yield a page or a rejection, or only count the record."""
        if not self.gives(self.position):
            self._next_position()
            return
        try:
            outcome = read_record(found.head.headers, RecordBlock(found.block, found.head.block_size))
        except BadEvent as error:
            yield from self._reject(self._lost(content, at, after), str(error))
            return
        position, offset = self._next_position(), content.stored(at)
        if isinstance(outcome, CrawlEvent):
            yield Record(outcome, position, NO_OFFSET if offset is None else offset)
        else:
            self.skip(position, outcome.reason)

    def _reject(self, lost: _Lost, reason: str, *, ends_input: bool = False) -> Iterator[Rejection]:
        position = self._next_position()
        if self.gives(position):
            yield self.reject_whole(position, lost.offset, reason, lost.original, size=lost.size, ends_input=ends_input)

    def _lost(self, content: Content, at: int, next_at: int | None) -> _Lost:
        """What lies between here and the next record, or the end: as it is stored, or unpacked, if it shares its member
        with others."""
        is_last = next_at is None or content.is_end(next_at)
        stored, stored_end = content.stored(at), None if is_last or next_at is None else content.stored(next_at)
        if stored is not None and (is_last or stored_end is not None):
            return self._stored(stored, stored_end)
        size = (content.end if next_at is None else next_at) - at
        return _Lost(NO_OFFSET if stored is None else stored, content.read(at, min(size, original_bytes_max)), size)

    def _stored(self, start: int, end: int | None) -> _Lost:
        size = (self.file.seek(0, os.SEEK_END) if end is None else end) - start
        self.file.seek(start)
        return _Lost(start, self.file.read(min(size, original_bytes_max)), size)

    @property
    def bytes_read(self) -> int:
        return self.progress_bytes

    @property
    def bytes_total(self) -> int | None:
        return self._total_bytes

    def close(self) -> None:
        self.file.close()
