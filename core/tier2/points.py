"""Pages as points for a partition map: their shingles, and the ties between pages with equal coordinates.

The top 12 bits of a shingle are the bucket of its first token (schemas/signature.py), so the number of distinct
shingles in any sub-dictionary, a set of buckets, follows from the shingles alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.kernels.compile import kernel
from dustream.core.partitioning import tie_of

BUCKET_COUNT = 4096
BUCKET_SHIFT = 52
PAGE_SHINGLES_MAX = 2**31 - 1  # keeps every product in the bounds of cut_tree.py within 63 bits
PARTITIONS_MAX = 4096
TAU_PARTS = 10_000


@dataclass(frozen=True)
class PointBatch:
    """Many pages: page i has shingles[start[i]:start[i + 1]], ascending and distinct.

    `tie` is `tie_of(url)`; `token_lengths` are Zhu's, words with repeats per sub-dictionary, if the text is available.
    """

    shingles: NDArray[np.uint64]
    start: NDArray[np.int64]
    tie: NDArray[np.int64]
    lang: tuple[str, ...] | None = None
    token_lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def length(self) -> NDArray[np.int64]:
        """L of each page: its number of distinct shingles."""
        return np.diff(self.start)

    def take(self, pages: NDArray[np.int64]) -> PointBatch:
        """The same columns for some of the pages, in the order given."""
        length = self.length[pages]
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
        shift = np.repeat(self.start[pages] - start[:-1], length)
        return PointBatch(
            self.shingles[np.arange(start[-1]) + shift],
            start,
            self.tie[pages],
            None if self.lang is None else tuple(self.lang[page] for page in pages),
            None if self.token_lengths is None else self.token_lengths[pages],
        )


def batch_of(
    shingle_sets: Sequence[NDArray[np.uint64]],
    ties: Sequence[int] | None = None,
    langs: Sequence[str] | None = None,
    token_lengths: NDArray[np.int64] | None = None,
) -> PointBatch:
    """A batch from single pages. Without ties, each page gets one by its index in the sequence."""
    sizes = np.array([0, *(len(one) for one in shingle_sets)], dtype=np.int64)
    flat = np.concatenate(shingle_sets) if len(shingle_sets) else np.zeros(0)
    tie = np.array(ties if ties is not None else [tie_of(str(i)) for i in range(len(shingle_sets))], dtype=np.int64)
    lang = None if langs is None else tuple(langs)
    return PointBatch(flat.astype(np.uint64), np.cumsum(sizes), tie, lang, token_lengths)


def tau_parts(tau: float) -> int:
    """τ in ten-thousandths, rounded down: integer bounds are the same on every machine, and never too narrow."""
    if not 0.0 < tau < 1.0 or int(tau * TAU_PARTS) == 0:
        raise BadSetting(f"tau is {tau}: the similarity threshold must be strictly between 0 and 1, such as 0.9")
    return int(tau * TAU_PARTS)


def require_partitions(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise BadSetting(f"{partitions} partitions: use a number from 1 to {PARTITIONS_MAX}")


@kernel
def count_by_table(
    shingles: NDArray[np.uint64], start: NDArray[np.int64], table: NDArray[np.uint8], dimensions: int
) -> NDArray[np.int64]:
    """L_i of each page: its distinct shingles whose first token's bucket lies in sub-dictionary i."""
    lengths = np.zeros((len(start) - 1, dimensions), np.int64)
    for page in range(len(start) - 1):
        for at in range(start[page], start[page + 1]):
            lengths[page, table[shingles[at] >> np.uint64(BUCKET_SHIFT)]] += 1
    return lengths
