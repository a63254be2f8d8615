"""The search inside a partition with many similar pages that do not match each other.

Pages with one template around different texts share bands with all other pages of the template. If their similarities
are just below the threshold, each page is a candidate of every other and a component of its own, and a search would
cost the whole crowd. A crowd is detected by searches that meet many components without a match. Its *heavy* pages
(crowd.py) are moved to a separate index: heavy pages find each other by their own shingles, all other pairs by bands.
The matches stay the same, because a heavy pair must share a band as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.bands import PERMUTATIONS
from dustream.core.tier2.crowd import ENTRIES_MAX, Crowd, core_of
from dustream.core.tier2.index import SHINGLE_CACHE_BYTES_MAX, SimilarityIndex
from dustream.core.tier2.search_protocol import ALL, IndexedPage, Match, Matching, Query, ShinglesOf
from dustream.schemas.signature import PageSignature

CROWD_MIN = 2 * ENTRIES_MAX  # candidates without a match; a candidate is met in about half of the bands
SAMPLE_MAX = 512  # pages of a crowd from which its core is computed
HEAVY_CACHE_SHARE = 4  # part of the shingle cache, as a divisor: heavy pages are seldom compared


class CrowdedIndex:
    """Pages present in one partition, searchable by similarity ≥ τ, with the interface of SimilarityIndex."""

    def __init__(
        self,
        tau: float,
        shingles_of: ShinglesOf,
        permutations: int = PERMUTATIONS,
        shingle_cache_bytes_max: int = SHINGLE_CACHE_BYTES_MAX,
    ) -> None:
        self._shingles_of = shingles_of
        self._light = SimilarityIndex(tau, shingles_of, permutations, shingle_cache_bytes_max)
        self._heavy: SimilarityIndex | None = None
        self._heavy_settings = tau, shingles_of, permutations, shingle_cache_bytes_max // HEAVY_CACHE_SHARE
        self._crowd = Crowd(self._light.ratio, self._set)
        self._crowd_min = CROWD_MIN
        self._newest: tuple[int, Query | None] = (-1, None)  # perhaps not stored yet

    def __len__(self) -> int:
        return len(self._light) + (0 if self._heavy is None else len(self._heavy))

    @property
    def comparisons(self) -> int:
        """Pairs of sets compared so far."""
        return self._light.comparisons + (0 if self._heavy is None else self._heavy.comparisons)

    @property
    def heavy_count(self) -> int:
        return 0 if self._heavy is None else len(self._heavy)

    # ---- insertion and removal

    def queries(self, signatures: Sequence[PageSignature]) -> list[Query]:
        return self._light.queries(signatures)

    def rebuild(self, pages: Iterable[IndexedPage]) -> None:
        """Crowds are detected by later searches."""
        self._light.rebuild(pages)

    def insert(self, number: int, query: Query, component: int | None = None) -> None:
        self._newest = number, query
        part = self._heavy_part(query)
        if part is None:
            self._light.insert(number, query, component)
        else:
            assert self._heavy is not None
            self._heavy.insert(number, query, component)
            self._lighten(self._crowd.enter(number, part))

    def remove(self, number: int) -> None:
        if self._heavy is None or number in self._light:
            self._light.remove(number)
            return
        part = self._crowd.heavy_part(self._set(number))
        assert part is not None
        self._crowd.withdraw(number, part)
        self._heavy.remove(number)

    def relabel(self, numbers: Iterable[int], component: int) -> None:
        light, heavy = self._apart(numbers)
        self._light.relabel(light, component)
        if heavy and self._heavy is not None:
            self._heavy.relabel(heavy, component)

    def separate(self, numbers: Iterable[int], component: int) -> None:
        light, heavy = self._apart(numbers)
        self._light.separate(light, component)
        if heavy and self._heavy is not None:
            self._heavy.separate(heavy, component)

    # ---- searches

    def first_match_per_component(self, query: Query, order_key: int, except_component: int = -1) -> list[Match]:
        found = self._light.first_match_per_component(query, order_key, except_component)
        if 2 * self._light.components_met > (self._crowd_min + len(found)) * self._light.bands:
            self._draft(query)
        if self._heavy is None:
            return found
        part = self._heavy_part(query)
        if part is None:
            more = self._heavy.first_match_per_component(query, order_key, except_component)
        else:
            labelled = ((*page, self._heavy.component_of(page[0])) for page in self._sharing(self._heavy, query, part))
            more = [Match(*match) for match in labelled if match[2] != except_component]
        by_component = {match.component: match for match in (*more, *found)}
        return [by_component[label] for label in sorted(by_component)]

    def matching(self, query: Query, after: int = -1, candidates_max: int = ALL) -> Matching:
        found = self._light.matching(query, after, candidates_max)
        if found.looked - 2 * len(found.pages) > self._crowd_min:
            self._draft(query)
            found = self._light.matching(query, after, candidates_max)
        if self._heavy is None:
            return found
        part = self._heavy_part(query)
        if part is None:
            more = self._heavy.matching(query, after, candidates_max)
        else:
            pages = [page for page in self._sharing(self._heavy, query, part) if page[0] > after]
            more = Matching(pages, len(pages), -1)
        last = min((each.last for each in (found, more) if each.last >= 0), default=-1)
        merged = sorted(page for each in (found, more) for page in each.pages if last < 0 or page[0] <= last)
        return Matching(merged, found.looked + more.looked, last)

    def _sharing(self, heavy: SimilarityIndex, query: Query, part: NDArray[np.uint64]) -> list[tuple[int, float]]:
        """The heavy pages that match a heavy page, ascending."""
        numbers = self._crowd.sharing(part)
        return heavy.matches_among(query, numbers) if len(numbers) else []

    def _heavy_part(self, query: Query) -> NDArray[np.uint64] | None:
        """The shingles under which a page is entered, if it is in a crowd and heavy."""
        heavy = self._heavy
        if heavy is None or not heavy.meets_many(query, ENTRIES_MAX):
            return None
        return self._crowd.heavy_part(_set_of(query))

    # ---- crowds

    def _draft(self, query: Query) -> None:
        """Move the heavy pages among the candidates of a page. The others are not examined again until there are twice
        as many."""
        if self._heavy is None:
            self._heavy = SimilarityIndex(*self._heavy_settings)
        numbers = self._light.candidates(query).tolist()
        step = max(1, len(numbers) // SAMPLE_MAX)
        sample = [self._set(number) for number in numbers[::step][:SAMPLE_MAX]]
        self._lighten(self._crowd.learn(core_of(sample)))
        staying = 0
        for number in numbers:
            part = self._crowd.heavy_part(self._set(number))
            if part is None:
                staying += 1
            else:
                self._light.move_to(self._heavy, number)
                self._lighten(self._crowd.enter(number, part))
        self._crowd_min = max(self._crowd_min, 2 * staying)

    def _lighten(self, numbers: list[int]) -> None:
        for number in numbers:
            assert self._heavy is not None
            self._heavy.move_to(self._light, number)

    def _set(self, number: int) -> NDArray[np.uint64]:
        newest, query = self._newest
        if number == newest and query is not None:
            return _set_of(query)
        return self._shingles_of(number).astype(np.uint64)

    def _apart(self, numbers: Iterable[int]) -> tuple[list[int], list[int]]:
        every = list(numbers)
        if self._heavy is None:
            return every, []
        light = [number for number in every if number in self._light]
        return light, [number for number in every if number not in self._light]


def _set_of(query: Query) -> NDArray[np.uint64]:
    """A writable array: kernels are compiled for one array type."""
    return shingle_array(query.signature.shingles).astype(np.uint64)
