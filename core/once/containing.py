"""Containment among all pages at once: the rules of core/tier2/containers.py, applied from the best page to the
worst."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.containment.candidate_index import CandidateIndex, Changes
from dustream.core.containment.sketch import (
    code_kinds,
    code_terms,
    shingle_kinds,
    sketches_of,
)
from dustream.core.kernels.compile import kernel
from dustream.core.once.contents import Contents
from dustream.core.pages.rows import PageRow
from dustream.core.text.repeatability import repeatability
from dustream.core.text.shingles import common_shingles
from dustream.core.tier2.containers import ContainmentRules
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Verdict

PAGES_AT_ONCE = 4_096

Ints = NDArray[np.int64]


class Posted(NamedTuple):
    """A page that is not a duplicate in some market."""

    url: str
    row: PageRow
    content: int


class Containing:
    """The containment search. Pages are numbered by their index in `posted`."""

    def __init__(self, posted: list[Posted], contents: Contents, markets: Markets, rules: ContainmentRules) -> None:
        self._starts, self._shingles = contents.sets()
        self._contents = contents
        self._markets = markets
        self._rules = rules
        self._posted = [each for each in posted if self._is_looked_at(each.content)]
        self._numbers = np.array([each.content for each in self._posted], dtype=np.int64)
        self._orders: dict[int, tuple[bytes, ...]] = {}
        self._index = CandidateIndex()

    def found(self) -> Iterator[tuple[str, int, Verdict]]:
        """The verdicts on contained pages: URL, market, verdict."""
        candidates = self._candidates()
        for market in range(len(self._markets.names)):
            for page, verdict in self._contained(candidates, market):
                yield self._posted[page].url, market, verdict

    def _is_looked_at(self, content: int) -> bool:
        languages, size = self._rules.languages, int(self._starts[content + 1] - self._starts[content])
        return bool(size >= self._rules.shingles_min) and (
            languages is None or self._contents.languages[content] in languages
        )

    def _candidates(self) -> dict[int, dict[int, float]]:
        """By page: the pages that contain enough of it, and the share of each."""
        changes = [self._changes(first) for first in range(0, len(self._posted), PAGES_AT_ONCE)]
        if not changes:
            return {}
        pairs, inverse = np.unique(np.concatenate([each[:, :2] for each in changes]), axis=0, return_inverse=True)
        sums = np.bincount(inverse.reshape(-1), weights=np.concatenate([each[:, 2] for each in changes]))
        pairs = pairs[sums > 0]
        shares = np.empty(len(pairs), dtype=np.float64)
        _shares_into(self._starts, self._shingles, self._numbers[pairs], shares)
        found: dict[int, dict[int, float]] = {}
        for (page, container), share in zip(pairs.tolist(), shares.tolist(), strict=True):
            if share >= self._rules.share_min:
                found.setdefault(page, {})[container] = share
        return found

    def _changes(self, first: int) -> Changes:
        """Post some pages to the index and return the changes."""
        numbers = self._numbers[first : first + PAGES_AT_ONCE]
        starts, ends = self._starts[numbers], self._starts[numbers + 1]
        rows, counts, masks = sketches_of(self._shingles, starts, ends)
        terms, kinds = [], []
        for at, (number, count) in enumerate(zip(numbers.tolist(), counts.tolist(), strict=True)):
            terms.append(rows[at, :count])
            kinds.append(shingle_kinds(count))
            code = self._contents.codes.get(number)
            if code:
                runs = code_terms(code)
                terms.append(runs)
                kinds.append(code_kinds(runs.size))
                counts[at] += runs.size
        ids = np.arange(first, first + len(numbers), dtype=np.int64)
        sizes = (ends - starts).astype(np.int32)
        return self._index.post(ids, sizes, masks, counts, np.concatenate(terms), np.concatenate(kinds))

    def _contained(self, candidates: dict[int, dict[int, float]], market: int) -> Iterator[tuple[int, Verdict]]:
        """From the best page to the worst: each is contained in the kept page that has the largest share of it, if that
        is enough. Only a page alone in its group can be contained, unless an operator decided to keep it."""
        contained: set[int] = set()
        ranked = [page for page in candidates if self._may_be_contained(page) and self._is_winner(page, market)]
        for page in sorted(ranked, key=lambda each: self._order(each, market)):
            order = self._order(page, market)
            kept = [each for each in candidates[page] if each not in contained and self._is_winner(each, market)]
            better = [each for each in kept if self._order(each, market) < order]
            if better:
                best = min(better, key=lambda each: (-candidates[page][each], self._order(each, market)))
                contained.add(page)
                yield page, self._verdict(page, best, candidates[page][best])

    def _verdict(self, page: int, container: int, share: float) -> Verdict:
        codes = [self._contents.codes.get(self._posted[each].content) for each in (page, container)]
        code_share = repeatability(codes[0], codes[1]) if codes[0] and codes[1] else None
        return Verdict(self._posted[container].url, share, exact=False, contained=True, code_share=code_share)

    def _is_winner(self, page: int, market: int) -> bool:
        return self._posted[page].row.verdicts[market].winner == self._posted[page].url

    def _may_be_contained(self, page: int) -> bool:
        row = self._posted[page].row
        return row.standing is not None and row.standing.alone and not row.kept

    def _order(self, page: int, market: int) -> bytes:
        if page not in self._orders:
            url, row, content = self._posted[page]
            vertex = vertex_name(row.first_seen_ms, url, row.epoch)
            size = int(self._starts[content + 1] - self._starts[content])
            keys = self._markets.keys(url, row, vertex)
            self._orders[page] = tuple(self._rules.order(size, key) for key in keys)
        return self._orders[page][market]


@kernel
def _shares_into(starts: Ints, shingles: NDArray[np.uint64], pairs: Ints, shares: NDArray[np.float64]) -> None:
    for i in range(len(pairs)):
        page, container = pairs[i]
        mine = shingles[starts[page] : starts[page + 1]]
        shares[i] = common_shingles(mine, shingles[starts[container] : starts[container + 1]]) / mine.size
