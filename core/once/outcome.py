"""The status of each URL, from the state of all URLs at the end of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from dustream.core.once.contents import Contents
from dustream.core.once.decided import DecidedPairs, joined
from dustream.core.once.fold import Fold, FoldedPage
from dustream.core.once.matching import MatchGraph, Sets, first_copies, match_graph, ranked_winners, sets_between
from dustream.core.once.rows import Grouped, Rows, bare_row
from dustream.core.pages.resolution import REDIRECT_HOPS_MAX, resolution
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Resolution, Standing, Verdict

PAGES_AT_ONCE = 100_000  # whose names and keys are in memory


class Grouping:
    """The groups of the content pages, and their winners."""

    def __init__(self, fold: Fold, contents: Contents, markets: Markets, group_size_max: int) -> None:
        self._fold = fold
        self._markets = markets
        self._group_size_max = group_size_max
        self._ratio = contents.ratio
        self._release = contents.release
        self._urls = [url for url, page in fold.pages.items() if page.kind == "content"]
        present = np.array([fold.pages[url].content for url in self._urls], dtype=np.int64)
        columns = contents.columns()
        self._copies = first_copies(columns.hashes, present)
        decided = DecidedPairs(fold.same(), self._urls, self._copies)
        self._decided = decided.of
        self._firsts = decided.firsts(len(columns.keys))
        self._same = decided.matches(self._firsts, columns.bare)
        keys, bare, starts, ends = columns.keys, columns.bare, columns.starts, columns.ends
        if self._decided:
            own = self._copies[decided.pages]
            keys, bare = np.concatenate((keys, keys[own])), np.concatenate((bare, bare[own]))
            starts, ends = np.concatenate((starts, starts[own])), np.concatenate((ends, ends[own]))
        self._sets: Sets = sets_between(starts, ends, columns.shingles)
        distinct = np.unique(self._firsts)
        graph = match_graph(keys, distinct[~bare[distinct]], self._sets, self._ratio, on_rows=self._release)
        self._graph: MatchGraph = graph._replace(roots=joined(graph.roots, self._same))

    def grouped(self) -> Iterator[dict[str, Grouped]]:
        """The pages in groups of several; some whole groups at once."""
        _, groups, sizes = np.unique(self._graph.roots[self._firsts], return_inverse=True, return_counts=True)
        together = np.flatnonzero(sizes[groups] > 1)
        together = together[np.argsort(groups[together], kind="stable")]
        ends = np.flatnonzero(np.diff(groups[together], append=-1)) + 1
        bounds = np.concatenate(([0], ends))
        begin = 0
        while begin < len(ends):
            end = max(begin + 1, int(np.searchsorted(ends, bounds[begin] + PAGES_AT_ONCE, side="right")))
            some = bounds[begin : end + 1].tolist()
            yield dict(self._grouped([together[one:other].tolist() for one, other in pairwise(some)]))
            begin = end

    def _grouped(self, groups: list[list[int]]) -> Iterator[tuple[str, Grouped]]:
        numbers = [number for group in groups for number in group]
        names = {number: self._vertex(self._urls[number]) for number in numbers}
        verdicts = list(zip(*self._verdicts(numbers, names), strict=True))
        at = 0
        for group in groups:
            standing = self._standing(group, names)
            for number in group:
                yield self._urls[number], Grouped(standing, verdicts[at])
                at += 1

    def _standing(self, group: list[int], names: dict[int, str]) -> Standing:
        eldest = self._urls[min(group, key=names.__getitem__)]
        pass_from = self._fold.pass_from(eldest)
        return Standing(eldest, False, len(group) > self._group_size_max and pass_from is None, pass_from or 0.0)

    def _verdicts(self, numbers: Sequence[int], names: dict[int, str]) -> Iterator[list[Verdict]]:
        """The verdicts on these pages, by market."""
        pages = [self._fold.pages[self._urls[number]] for number in numbers]
        keys = [
            self._markets.keys(self._urls[number], page, names[number])
            for number, page in zip(numbers, pages, strict=True)
        ]
        for market in range(len(self._markets.names)):
            yield self._market_verdicts(numbers, [each[market] for each in keys])

    def _market_verdicts(self, numbers: Sequence[int], keys: list[bytes]) -> list[Verdict]:
        ranked = np.array(sorted(range(len(numbers)), key=keys.__getitem__), dtype=np.int64)
        firsts = self._firsts[np.array(numbers, dtype=np.int64)]
        graph, sets, release = self._graph, self._sets, self._release
        found = ranked_winners(firsts, ranked, graph, sets, self._ratio, on_rows=release, same=self._same)
        verdicts = []
        for number, best, similarity in zip(numbers, found.winners.tolist(), found.similarities.tolist(), strict=True):
            winner = numbers[best]
            exact = bool(self._copies[number] == self._copies[winner])
            decided = winner in self._decided.get(number, ())
            verdicts.append(Verdict(self._urls[winner], 1.0 if exact else similarity, exact, decided=decided))
        return verdicts

    def _vertex(self, url: str) -> str:
        page = self._fold.pages[url]
        return vertex_name(page.first_seen_ms, url, page.epoch)


def ways(fold: Fold, rows: Rows, hops_max: int = REDIRECT_HOPS_MAX) -> Iterator[tuple[str, Resolution | None]]:
    """Where each redirect leads, once the rows of pages with content are known."""
    for url, page in fold.pages.items():
        if page.kind == "redirect":
            yield url, _way(page.target, fold.pages, rows, hops_max)


def _way(url: str, pages: dict[str, FoldedPage], rows: Rows, hops_max: int) -> Resolution | None:
    """The resolution of a URL; None if it takes too many hops, as a ring does."""
    path = [url]
    page = pages.get(url)
    while page is not None and page.kind == "redirect":
        if len(path) > hops_max:
            return None
        path.append(page.target)
        page = pages.get(page.target)
    end = path[-1]
    known = rows.get(end) if page is None or page.kind == "content" else bare_row(page, None)
    way = resolution(end, known, hops_max)
    return None if way is None else Resolution(tuple(path), way.end, way.standing, way.verdicts)
