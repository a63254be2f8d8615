"""What the processors need of the search inside a partition and of the partition map; and the search done by brute
force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PartitionMap(Protocol):
    """Where pages are stored and whom they must ask. A pair that matches meets: each probes the other's home.

    `tie` (a hash of the URL) may split pages that stand at one point."""

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """The home, and the other partitions that may hold a match, ascending."""


class Search(Protocol):
    """The pages of one partition by local number."""

    def insert(self, number: int, content_hash: bytes, minhash: NDArray[np.uint32]) -> None: ...

    def remove(self, number: int) -> None: ...

    def candidates(self, content_hash: bytes, minhash: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Numbers that may match, ascending. Whether a pair is proposed is a fact of the pair."""

    def similarities(
        self, shingles: NDArray[np.uint64], content_hash: bytes, numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Exact Jaccard similarity to each of the numbers."""


ShinglesOf = Callable[[int], NDArray[np.uint64]]
MakeSearch = Callable[[ShinglesOf], Search]


class BruteForceSearch:
    """Every page is a candidate. The oracle of the tests; fit for a few hundred pages."""

    def __init__(self, shingles_of: ShinglesOf) -> None:
        self._shingles_of = shingles_of
        self._hashes: dict[int, bytes] = {}

    def insert(self, number: int, content_hash: bytes, minhash: NDArray[np.uint32]) -> None:
        self._hashes[number] = content_hash

    def remove(self, number: int) -> None:
        del self._hashes[number]

    def candidates(self, content_hash: bytes, minhash: NDArray[np.uint32]) -> NDArray[np.int64]:
        return np.array(sorted(self._hashes), dtype=np.int64)

    def similarities(
        self, shingles: NDArray[np.uint64], content_hash: bytes, numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return np.array([self._similarity(shingles, content_hash, int(number)) for number in numbers], dtype=np.float64)

    def _similarity(self, shingles: NDArray[np.uint64], content_hash: bytes, number: int) -> float:
        if self._hashes[number] == content_hash:
            return 1.0
        return jaccard(shingles, self._shingles_of(number))


def jaccard(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> float:
    """|A ∩ B| / |A ∪ B| of two ascending sets; two empty sets are equal."""
    common = len(np.intersect1d(one, other, assume_unique=True))
    union = len(one) + len(other) - common
    return common / union if union else 1.0
