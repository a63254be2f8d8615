"""A bounded sample of the pages in some inputs, independent of their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import NamedTuple

from dustream.core.errors import BadEvent
from dustream.core.partitioning import tie_of
from dustream.core.settings import Settings
from dustream.core.text.extractors import TextSource
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.points import PointBatch, batch_of
from dustream.core.urls.identity import page_identity
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.pages import Crawl
from dustream.streams.engine.signing import Chunk, sign_chunks
from dustream.streams.readers import Record, open_inputs
from dustream.streams.readers.field_map import FieldMap

CHUNK_EVENTS = 128
CHUNK_RECORDS = 8192  # however few of them are signed: progress is reported once per chunk
DEFAULT_SOURCE = Settings().text_source


class PageSample(NamedTuple):
    """The last version of each URL chosen. `read` counts records read: of these, `passed_over` were skipped because the
    hashes of their URLs are too high, and `unusable` are not pages."""

    batch: PointBatch
    read: int
    unusable: int
    passed_over: int


class _Place(NamedTuple):
    """Records read and skipped so far, and records rejected since the last chunk."""

    read: int
    passed_over: int
    rejections: int


class _Reservoir:
    """Keeps the URLs with the lowest hashes, so the choice does not depend on their order."""

    def __init__(self, pages_max: int) -> None:
        self._pages_max = pages_max
        self._highest_first: list[tuple[int, str]] = []
        self.pages: dict[str, Crawl] = {}

    def has_room_for(self, url: str) -> bool:
        return len(self.pages) < self._pages_max or sample_rank(url) <= -self._highest_first[0][0]

    def put(self, page: Crawl) -> None:
        known = self.pages.get(page.url)
        if known is not None:
            if page.version >= known.version:
                self.pages[page.url] = page
            return
        if not self.has_room_for(page.url):
            return
        self.pages[page.url] = page
        heappush(self._highest_first, (-sample_rank(page.url), page.url))
        if len(self.pages) > self._pages_max:
            del self.pages[heappop(self._highest_first)[1]]


def sample_rank(url: str) -> int:
    """Salted, so that it is independent of a page's tie."""
    return int.from_bytes(
        blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample").digest(), "big"
    )


def sample_pages(
    paths: Sequence[str],
    pages_max: int,
    source: TextSource = TextSource(),  # noqa: B008 - a value
    jobs: int = 1,
    field_map: FieldMap | None = None,
    on_progress: Callable[[int], None] = lambda read: None,
) -> PageSample:
    """Up to `pages_max` pages with content from these inputs, signed, in the order of their URLs."""
    reservoir = _Reservoir(pages_max)
    place, unusable = _Place(0, 0, 0), 0
    for signed in sign_chunks(_chunks(paths, field_map, reservoir), jobs, source):
        place = signed.chunk.place
        unusable += place.rejections + len(signed.intake.rejected) + sum(signed.intake.ignored.values())
        for page in signed.intake.crawls:
            if page.signature is not None:
                reservoir.put(page)
            else:
                unusable += 1
        on_progress(place.read)
    chosen = [reservoir.pages[url] for url in sorted(reservoir.pages)]
    return PageSample(_batch(chosen), place.read, unusable, place.passed_over)


def _chunks(paths: Sequence[str], field_map: FieldMap | None, reservoir: _Reservoir) -> Iterator[Chunk[_Place]]:
    """Events in chunks, without those that the reservoir has no room for: signing takes most of the time.

    Room only decreases, so a URL that is skipped would not be in the final sample.
    """
    read = passed_over = rejections = first = 0
    events: list[CrawlEvent] = []
    for opened in open_inputs(paths, field_map=field_map):
        for item in opened:
            read += 1
            if not isinstance(item, Record):
                rejections += 1
            elif _may_be_chosen(item.event, reservoir):
                events.append(item.event)
            else:
                passed_over += 1
            if len(events) == CHUNK_EVENTS or read - first == CHUNK_RECORDS:
                yield Chunk(events, _Place(read, passed_over, rejections))
                events, rejections, first = [], 0, read
    yield Chunk(events, _Place(read, passed_over, rejections))


def _may_be_chosen(event: CrawlEvent, reservoir: _Reservoir) -> bool:
    """Events without a usable URL are passed to intake, which reports the error."""
    try:
        return reservoir.has_room_for(page_identity(event.url))
    except BadEvent:
        return True


def _batch(pages: list[Crawl]) -> PointBatch:
    signatures = [page.signature for page in pages if page.signature is not None]
    return batch_of(
        [shingle_array(signature.shingles) for signature in signatures],
        [tie_of(page.url) for page in pages],
        [signature.lang for signature in signatures],
    )
