"""The output of every reader: records and rejections in file order, and its progress."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Self

from dustream.core.errors import BadEvent
from dustream.core.events import check_schema_version
from dustream.core.page_cut import cut_event
from dustream.core.urls.identity import URL_BYTES_MAX
from dustream.schemas.crawl import CrawlEvent

line_bytes_max: Final = 96 * 1024 * 1024
excerpt_bytes_max: Final = 256
original_bytes_max: Final = 1024 * 1024  # of a rejected record; the rest stays in its file
STRIPE_RECORDS: Final = 128


class Record(NamedTuple):
    """One crawl event. `position` is its ordinal among all records of the input; `offset` its byte offset,
    -1 where the format has none."""

    event: CrawlEvent
    position: int
    offset: int


class Rejection(NamedTuple):
    """A record that cannot be used, and why. After one that `ends_input`, nothing more of the input can be read.
    `original` is the record as it is stored, or the beginning of it if `original_size`, the bytes it has, is more."""

    file: str
    position: int
    offset: int
    reason: str
    excerpt: bytes = b""
    ends_input: bool = False
    original: bytes = b""
    original_size: int = 0


Item = Record | Rejection


class Share(NamedTuple):
    """The records that one of several readers of the same input gives out: of every `readers` stripes of consecutive
    positions, the one with its number."""

    reader: int = 0
    readers: int = 1
    base: int = 0
    """Added to a position: an input inside another one counts its own."""

    def has(self, position: int) -> bool:
        return (position + self.base) // STRIPE_RECORDS % self.readers == self.reader


class Border(NamedTuple):
    """A place between two records at which one reader of a file can stop and another begin: where the next record is
    stored, and what else the second must know to go on as the first would (`Content.cut_giants`)."""

    offset: int = 0
    cut_giants: int = 0


class Segment(NamedTuple):
    """A part of a file: the records that begin from `begin` on and before the byte `end`. `is_known`: one begins at
    `begin`; else the first one behind it is searched for."""

    begin: Border = Border()
    end: int = sys.maxsize
    is_known: bool = True


WHOLE: Final = Segment()


class Input(ABC):
    """One input, read once, in order. A position counts every record: good, rejected or skipped.

    `skipped` counts, by reason, well-formed records that are not pages (requests, images, DNS records), from the start
    position on; `on_skip` is called for each. `notices` are warnings about the input as a whole. `bytes_read` of
    `bytes_total` is progress through the file as stored, compressed or not; `bytes_total` is None for a pipe. A format
    whose records can be found from any byte on may be read in segments (`is_divisible`), which count their own
    positions; `begins` and `ends` are the borders of the segment, as far as it was read.
    """

    format: ClassVar[str]

    def __init__(self, path: str) -> None:
        self.path = path
        self.first_position = 0
        self.share = Share()
        self.segment = WHOLE
        self.begins = self.ends = Border()
        self.skipped: Counter[str] = Counter()
        self.on_skip: Callable[[int, str], None] = lambda position, reason: None
        self.notices: list[str] = []

    def start_at(self, position: int) -> Self:
        """Skip all records before this position (one past the last one processed)."""
        self.first_position = position
        return self

    def gives(self, position: int) -> bool:
        """Whether the record at this position is to be read and given out."""
        return position >= self.first_position and self.share.has(position)

    def skip(self, position: int, reason: str) -> None:
        """Count a record that is no page."""
        self.skipped[reason] += 1
        self.on_skip(position, reason)

    def jump_to(self, position: int, offset: int) -> bool:
        """Begin with the record at this position, found before at this offset, without reading what precedes it.
        False, and nothing changed, where the format cannot: use `start_at` then."""
        return False

    def is_divisible(self) -> bool:
        """Whether several readers can each read a segment."""
        return False

    @abstractmethod
    def __iter__(self) -> Iterator[Item]: ...

    @property
    @abstractmethod
    def bytes_read(self) -> int: ...

    @property
    @abstractmethod
    def bytes_total(self) -> int | None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reject(
        self, position: int, offset: int, reason: str, excerpt: bytes = b"", *, ends_input: bool = False
    ) -> Rejection:
        return Rejection(self.path, position, offset, reason, bytes(excerpt[:excerpt_bytes_max]), ends_input)

    def reject_whole(
        self,
        position: int,
        offset: int,
        reason: str,
        record: bytes,
        *,
        size: int | None = None,
        ends_input: bool = False,
    ) -> Rejection:
        """Of a record whose bytes are known, or their beginning and their number."""
        rejection = self.reject(position, offset, reason, record, ends_input=ends_input)
        return rejection._replace(
            original=bytes(record[:original_bytes_max]), original_size=len(record) if size is None else size
        )


def readable(event: CrawlEvent) -> CrawlEvent:
    """The event, its page cut to what is read. BadEvent for errors outside the page; core.events checks the rest."""
    check_schema_version(event.v)
    if not event.url or event.url.isspace():
        raise BadEvent("no URL")
    if len(event.url) > 4 * URL_BYTES_MAX:
        raise BadEvent(f"URL longer than {URL_BYTES_MAX} bytes")
    return cut_event(event)


def bare_digest(digest: str | None) -> str | None:
    """A payload digest as CDX files have it: WARC headers name the usual algorithm before it."""
    if digest is None or digest in ("", "-"):
        return None
    return digest.strip().removeprefix("sha1:")
