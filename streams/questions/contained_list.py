"""Lists contained pages by their containers. Containment does not join groups, so it has a list of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from dustream.core.urls.sites import site_of
from dustream.core.vertex import url_of
from dustream.streams.questions.pages import known_pages, verdict_of
from dustream.streams.questions.state import ReadableState

PAGES_SHOWN_MAX = 5
PROGRESS_ROWS = 10_000

OnProgress = Callable[[int], None]
"""Called with the number of rows read so far."""


class ContainedPage(Struct, frozen=True):
    """A page, and the share of its shingles that its container has."""

    url: str
    share: float


class ContainerAnswer(Struct, frozen=True):
    """A kept page, the number of pages contained in it, and some of them."""

    container: str
    contained_count: int
    contained: list[ContainedPage]


class _Pair(NamedTuple):
    container: str
    page: ContainedPage


def list_containers(
    state: ReadableState, market: int, top: int, site: str | None, on_progress: OnProgress
) -> list[ContainerAnswer]:
    """Containers of the most pages first; with a site, those that are on it or contain pages of it."""
    counts: Counter[str] = Counter()
    wanted: set[str] = set()
    for container, page in _pairs(state, market, on_progress):
        counts[container] += 1
        if site is None or site in (site_of(container), site_of(page.url)):
            wanted.add(container)
    most = sorted(wanted, key=lambda url: (-counts[url], url))[:top]
    some = contained_in(state, market, set(most), on_progress)
    return [ContainerAnswer(url, counts[url], some[url][:PAGES_SHOWN_MAX]) for url in most]


def contained_in(
    state: ReadableState, market: int, containers: set[str], on_progress: OnProgress
) -> dict[str, list[ContainedPage]]:
    """The pages contained in each of these, by URL. Reads all rows, since containers do not have the list."""
    found: dict[str, list[ContainedPage]] = {url: [] for url in containers}
    for container, page in _pairs(state, market, on_progress) if containers else ():
        if container in found:
            found[container].append(page)
    return {url: sorted(pages, key=lambda page: page.url) for url, pages in found.items()}


def _pairs(state: ReadableState, market: int, on_progress: OnProgress) -> Iterator[_Pair]:
    if state.settings.containment == "off":
        return
    read = 0
    for partition in range(state.settings.partitions):
        rows = state.table("tier2", partition, "containers").scan()
        while some := [url_of(row.page) for _, row in islice(rows, PROGRESS_ROWS)]:
            read += len(some)
            on_progress(read)
            for page in known_pages(state, some):
                verdict = verdict_of(page, market) if page.row.kind == "content" else None
                if verdict is not None and verdict.contained:
                    yield _Pair(verdict.winner, ContainedPage(page.url, verdict.similarity))
