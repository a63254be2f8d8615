"""Pairs of pages that an operator decided to be the same: they match whatever their similarity.

Pages with one content have the same matches, so one of them stands for all. That does not hold for a page of such a
pair: it has a row of its own among the contents, behind all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dustream.core.once.matching import NO_PAIRS

Ints = NDArray[np.int64]


class DecidedPairs:
    """The pairs of pages with content, by their numbers. `copies`: of each page, the first content equal to its own."""

    def __init__(self, pairs: Iterable[tuple[str, str]], urls: list[str], copies: Ints) -> None:
        self._copies = copies
        wanted = list(pairs)
        named = {url for pair in wanted for url in pair}
        numbers = {url: number for number, url in enumerate(urls) if url in named} if named else {}
        self.of: dict[int, set[int]] = {}
        for one, other in wanted:
            if one in numbers and other in numbers:
                self.of.setdefault(numbers[one], set()).add(numbers[other])
                self.of.setdefault(numbers[other], set()).add(numbers[one])
        self.pages: Ints = np.array(sorted(self.of), dtype=np.int64)

    def firsts(self, contents: int) -> Ints:
        """Of each page the content that stands for it; the pages of pairs have those from `contents` on."""
        firsts = self._copies.copy()
        firsts[self.pages] = np.arange(contents, contents + len(self.pages))
        return firsts

    def matches(self, firsts: Ints, bare: NDArray[np.bool_]) -> Ints:
        """The pairs of contents that match without a search: those decided, and copies that have no shingles."""
        found = {(int(firsts[one]), int(firsts[other])) for one, others in self.of.items() for other in others}
        used = {*firsts.tolist()} if self.of else set()
        alike: dict[int, list[int]] = {}
        for page in self.pages.tolist():
            copy = int(self._copies[page])
            if bare[copy]:
                alike.setdefault(copy, [copy] if copy in used else []).append(int(firsts[page]))
        for contents in alike.values():
            found |= {*combinations(contents, 2)}
        pairs = sorted({(min(pair), max(pair)) for pair in found})
        return np.array(pairs, dtype=np.int64) if pairs else NO_PAIRS


def joined(roots: Ints, pairs: Ints) -> Ints:
    """The roots of components that these pairs join, too."""
    if not len(pairs):
        return roots
    parents = np.arange(len(roots))
    for one, other in pairs.tolist():
        ends = [int(roots[one]), int(roots[other])]
        for at in range(2):
            while parents[ends[at]] != ends[at]:
                ends[at] = int(parents[ends[at]])
        parents[max(ends)] = min(ends)
    return flattened(parents)[roots]


def flattened(parents: Ints) -> Ints:
    """Each vertex's root; a parent is never larger than its child."""
    while not np.array_equal(above := parents[parents], parents):
        parents = above
    return parents
