"""The output of every reader: records and rejections in file order, and its progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
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


class Input(ABC):
    """One input, read once, in order. A position counts every record: good, rejected or skipped.

    `skipped` counts by reason what is well-formed but no page (requests, images, DNS records), from the start
    position on. `notices` says what a person should know of the input as a whole. `bytes_read` of `bytes_total` is
    progress through the file as stored, compressed or not; `bytes_total` is None for a pipe.
    """

    format: ClassVar[str]

    def __init__(self, path: str) -> None:
        self.path = path
        self.first_position = 0
        self.skipped: Counter[str] = Counter()
        self.notices: list[str] = []

    def start_at(self, position: int) -> Self:
        """Skip all records before this position (one past the last one processed)."""
        self.first_position = position
        return self

    def jump_to(self, position: int, offset: int) -> bool:
        """Begin with the record at this position, found before at this offset, without reading what precedes it.
        False, and nothing changed, where the format cannot: use `start_at` then."""
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
