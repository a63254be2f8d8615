"""The interface of the search inside a partition and of the partition map, as processors use them; and a brute-force
search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import jaccard
from dustream.schemas.signature import PageSignature

ALL = 1 << 62


class Match(NamedTuple):
    """A matching page present, its exact similarity, and its component."""

    number: int
    similarity: float
    component: int


class IndexedPage(NamedTuple):
    """A page for `rebuild`; `component` None: the component of its copies if there are any, else a new one."""

    number: int
    content_hash: bytes
    minhash: NDArray[np.uint32] | bytes
    component: int | None = None


class Query(NamedTuple):
    """A page prepared for searches, once for all of them, by `Search.queries`.

    `words` is the page in the form for the search's kernels; empty for a search without kernels."""

    signature: PageSignature
    words: NDArray[np.uint64]


class Matching(NamedTuple):
    """Some of the pages that match a page, ascending, and their exact similarities."""

    pages: list[tuple[int, float]]
    looked: int  # candidates examined
    last: int  # the last of them, if there are more; else -1


class Search(Protocol):
    """The pages of one partition by local number. Each has the label of its component of the match graph, which the
    caller keeps up to date, so that a search for one match per component need not examine all candidates."""

    def __len__(self) -> int: ...

    def queries(self, signatures: Sequence[PageSignature]) -> list[Query]:
        """Pages prepared for any search with the same threshold; a batch costs little more than one page."""

    def insert(self, number: int, query: Query, component: int | None = None) -> None: ...

    def rebuild(self, pages: Iterable[IndexedPage]) -> None:
        """Insert many pages at once."""

    def remove(self, number: int) -> None: ...

    def relabel(self, numbers: Iterable[int], component: int) -> None:
        """Merge components: all pages of one get the label of the other."""

    def separate(self, numbers: Iterable[int], component: int) -> None:
        """Split a component: these pages of it get a fresh label."""

    def first_match_per_component(self, query: Query, order_key: int, except_component: int = -1) -> list[Match]:
        """One match in every component that has any, without `except_component`; `order_key` selects which one."""

    def matching(self, query: Query, after: int = -1, candidates_max: int = ALL) -> Matching:
        """All matches, or in batches: those among the first candidates after a number. Whether two pages are candidates
        depends on the pair alone."""


ShinglesOf = Callable[[int], NDArray[np.uint64]]
MakeSearch = Callable[[ShinglesOf], Search]

_NO_WORDS = np.zeros(0, dtype=np.uint64)
_MIX = 0x9E3779B97F4A7C15
_WORD = 0xFFFF_FFFF_FFFF_FFFF


class BruteForceSearch:
    """Every page is a candidate. The oracle of the tests, suitable for a few hundred pages."""

    def __init__(self, tau: float, shingles_of: ShinglesOf) -> None:
        self._tau = tau
        self._shingles_of = shingles_of
        self._hashes: dict[int, bytes] = {}
        self._labels: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def queries(self, signatures: Sequence[PageSignature]) -> list[Query]:
        return [Query(signature, _NO_WORDS) for signature in signatures]

    def insert(self, number: int, query: Query, component: int | None = None) -> None:
        self._insert(number, query.signature.content_hash, component)

    def _insert(self, number: int, content_hash: bytes, component: int | None) -> None:
        self._hashes[number] = content_hash
        self._labels[number] = -1 if component is None else component

    def rebuild(self, pages: Iterable[IndexedPage]) -> None:
        for page in pages:
            self._insert(page.number, page.content_hash, page.component)

    def remove(self, number: int) -> None:
        del self._hashes[number], self._labels[number]

    def relabel(self, numbers: Iterable[int], component: int) -> None:
        self._labels |= dict.fromkeys(numbers, component)

    separate = relabel

    def first_match_per_component(self, query: Query, order_key: int, except_component: int = -1) -> list[Match]:
        near = self.candidates(query)
        similarities = self.similarities(query, near)
        each = zip(near.tolist(), similarities.tolist(), strict=True)
        found: dict[int, Match] = {}
        for number, similarity in sorted(each, key=lambda pair: (pair[0] ^ order_key) * _MIX & _WORD):
            label = self._labels[number]
            if similarity >= self._tau and label != except_component:
                found.setdefault(label, Match(number, similarity, label))
        return sorted(found.values(), key=lambda match: match.component)

    def matching(self, query: Query, after: int = -1, candidates_max: int = ALL) -> Matching:
        near = self.candidates(query)
        near = near[near > after]
        some = near[:candidates_max]
        each = zip(some.tolist(), self.similarities(query, some).tolist(), strict=True)
        last = int(some[-1]) if len(some) < len(near) else -1
        return Matching([(number, value) for number, value in each if value >= self._tau], len(some), last)

    def candidates(self, query: Query) -> NDArray[np.int64]:
        return np.array(sorted(self._hashes), dtype=np.int64)

    def similarities(self, query: Query, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([self._similarity(query, int(number)) for number in numbers], dtype=np.float64)

    def _similarity(self, query: Query, number: int) -> float:
        if self._hashes[number] == query.signature.content_hash:
            return 1.0
        return jaccard(shingle_array(query.signature.shingles), self._shingles_of(number))
