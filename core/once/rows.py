"""The rows of `pages` at the end of the log. They are made when asked for: a row takes more memory than all else that
is known of a page, and most pages are alone in their groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dustream.core.once.fold import Fold, FoldedPage
from dustream.core.pages.rows import PageRow
from dustream.schemas.pages import Resolution, Standing, Verdict


class Grouped(NamedTuple):
    """A page in a group of several: the group's standing, and the page's verdicts by market."""

    standing: Standing
    verdicts: tuple[Verdict, ...]


class Rows:
    """By URL, with the fields that others can see, in the order in which the pages first appeared."""

    def __init__(self, fold: Fold, lengths: NDArray[np.int64], markets: int) -> None:
        """`lengths`: the number of shingles of every content."""
        self._fold = fold
        self._lengths = lengths
        self._markets = markets
        self._grouped: dict[str, Grouped] = {}
        self._contained: dict[str, tuple[Verdict | None, ...]] = {}
        self._ways: dict[str, Resolution | None] = {}
        self._lost: dict[str, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._fold.pages)

    def __getitem__(self, url: str) -> PageRow:
        page = self._fold.pages[url]
        return self._content_row(url, page) if page.kind == "content" else bare_row(page, self._ways.get(url))

    def get(self, url: str) -> PageRow | None:
        return self[url] if url in self._fold.pages else None

    def items(self) -> Iterator[tuple[str, PageRow]]:
        for url in self:
            yield url, self[url]

    def kept_contents(self) -> Iterator[tuple[str, int]]:
        """The pages that are not duplicates in some market: URL, number of the content."""
        for url, page in self._fold.pages.items():
            if page.kind == "content":
                found = self._grouped.get(url)
                if found is None or any(verdict.winner == url for verdict in found.verdicts):
                    yield url, page.content

    def add_groups(self, found: dict[str, Grouped]) -> None:
        self._grouped |= found

    def add_contained(self, url: str, market: int, verdict: Verdict) -> None:
        before = self._contained.get(url) or (None,) * self._markets
        self._contained[url] = (*before[:market], verdict, *before[market + 1 :])

    def add_way(self, url: str, way: Resolution | None) -> None:
        """Where a redirect leads."""
        self._ways[url] = way

    def set_lost(self, url: str, lost: int) -> None:
        """The markets in which the winner is on another site. The page is not held yet."""
        self._lost[url] = lost, 0

    def hold(self, url: str, markets: int) -> bool:
        """Hold a page in these markets, as far as it is lost there. Whether it is held in any."""
        lost, _ = self._lost.get(url, (0, 0))
        if lost:
            self._lost[url] = lost, lost & markets
        return bool(lost & markets)

    def length(self, page: FoldedPage) -> int:
        """The number of shingles of a page with content."""
        return int(self._lengths[page.content])

    def _content_row(self, url: str, page: FoldedPage) -> PageRow:
        found, lost = self._grouped.get(url), self._lost.get(url)
        row = PageRow(
            page.version,
            page.first_seen_ms,
            "content",
            page.epoch,
            1,
            popularity=page.popularity,
            canonical=page.canonical,
            found_at=page.found_at,
            revisit=page.revisit,
            standing=Standing(url, True) if found is None else found.standing,
            verdicts=(Verdict(url),) * self._markets if found is None else found.verdicts,
            contained=self._contained.get(url, ()),
            truncated=page.truncated,
            size=page.size,
            length=self.length(page),
            kept=self._fold.is_kept(url),
        )
        return row if lost is None else replace(row, lost=lost[0], site_held=lost[1])


def bare_row(page: FoldedPage, upstream: Resolution | None) -> PageRow:
    """The row of a page without content of its own."""
    return PageRow(
        page.version,
        page.first_seen_ms,
        page.kind,
        page.epoch,
        1,
        popularity=page.popularity,
        found_at=page.found_at,
        revisit=page.revisit,
        target=page.target,
        via=page.via,
        upstream=upstream,
    )
