"""What WARC and ARC readers share: a seekable file, positions, and outcomes given out in order."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import BinaryIO

from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.archive_record import Outcome, Skip
from dustream.streams.readers.framing import is_compressed_at
from dustream.streams.readers.records import Input, Item, Record, Rejection, excerpt_bytes_max, original_bytes_max


class ArchiveInput(Input):
    """`file` is seekable; offsets are those of the stored file, compressed or not."""

    def __init__(self, path: str, file: BinaryIO, total_bytes: int | None) -> None:
        super().__init__(path)
        self.file = file
        self.position = 0  # of the next record to give out; in the end, how many there were
        self.start_offset = 0
        self.progress_bytes = 0
        self._total_bytes = total_bytes

    def __iter__(self) -> Iterator[Item]:
        start: int | None = self.start_offset
        while start is not None:
            start = yield from self._stretch(start)
        self.progress_bytes = self.bytes_total or self.progress_bytes

    @abstractmethod
    def _stretch(self, start: int) -> Generator[Item, None, int | None]:
        """Records from here to the end or the next damage; returns where to go on after it."""

    def give(
        self, outcome: Outcome, offset: int, *, end: int | None = None, ends_input: bool = False
    ) -> Iterator[Item]:
        """The next record: a page, a rejection, or nothing but a count. It ends at `end`, or with the file."""
        position, self.position = self.position, self.position + 1
        if position < self.first_position:
            return
        if isinstance(outcome, CrawlEvent):
            yield Record(outcome, position, offset)
        elif isinstance(outcome, Skip):
            self.skipped[outcome.reason] += 1
        else:
            resume_at = self.file.tell()
            rejection = self._rejection(position, offset, str(outcome), end, ends_input)
            self.file.seek(resume_at)
            yield rejection

    def _rejection(self, position: int, offset: int, reason: str, end: int | None, ends_input: bool) -> Rejection:
        """With the record as it is stored, compressed or not. In a file that is compressed as a whole, records have no
        bytes of their own."""
        if is_compressed_at(self.file, 0) and not is_compressed_at(self.file, offset):
            return self.reject(position, offset, reason, self._stored(offset, excerpt_bytes_max), ends_input=ends_input)
        size = (self.file.seek(0, os.SEEK_END) if end is None else end) - offset
        stored = self._stored(offset, min(size, original_bytes_max))
        return self.reject_whole(position, offset, reason, stored, size=size, ends_input=ends_input)

    def _stored(self, offset: int, size: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(size)

    @property
    def bytes_read(self) -> int:
        return self.progress_bytes

    @property
    def bytes_total(self) -> int | None:
        return self._total_bytes

    def close(self) -> None:
        self.file.close()
