"""What WARC and ARC readers share: a seekable file, positions, and outcomes given out in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import BinaryIO

from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.archive_record import Outcome, Skip
from dustream.streams.readers.records import Input, Item, Record, excerpt_bytes_max


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

    def give(self, outcome: Outcome, offset: int, *, ends_input: bool = False) -> Iterator[Item]:
        """The next record: a page, a rejection, or nothing but a count."""
        position, self.position = self.position, self.position + 1
        if position < self.first_position:
            return
        if isinstance(outcome, CrawlEvent):
            yield Record(outcome, position, offset)
        elif isinstance(outcome, Skip):
            self.skipped[outcome.reason] += 1
        else:
            yield self.reject(position, offset, str(outcome), self._stored(offset), ends_input=ends_input)

    def _stored(self, offset: int) -> bytes:
        resume_at = self.file.tell()
        self.file.seek(offset)
        excerpt = self.file.read(excerpt_bytes_max)
        self.file.seek(resume_at)
        return excerpt

    @property
    def bytes_read(self) -> int:
        return self.progress_bytes

    @property
    def bytes_total(self) -> int | None:
        return self._total_bytes

    def close(self) -> None:
        self.file.close()
