"""MinHash of a shingle set: 128 permutations, 32 bits each, the same numbers datasketch (scheme affine32) computes
from the lowest 32 bits of every shingle. Estimates only: verdicts are by exact Jaccard (`shingles.jaccard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.compiled import inner
from dustream.core.text.permutations import ADDENDS, MULTIPLIERS
from dustream.schemas.signature import PageSignature

if TYPE_CHECKING:
    from datasketch import MinHash

PERMUTATIONS = 128
DATASKETCH_SEED = 1
DATASKETCH_SCHEME = "affine32"

MULTIPLIERS_32 = np.array(MULTIPLIERS, dtype=np.uint32)
ADDENDS_32 = np.array(ADDENDS, dtype=np.uint32)


@inner
def _fmix32(h: np.uint32) -> np.uint32:
    """MurmurHash3's 32-bit finaliser, which datasketch applies before permuting."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@inner
def _mixed(shingles: NDArray[np.uint64], i: int) -> np.uint32:
    """The i-th shingle as it is permuted; past the end the last one again, which does no harm to a minimum."""
    return _fmix32(np.uint32(shingles[min(i, shingles.size - 1)]))


@njit(cache=True)
def minima_into(
    shingles: NDArray[np.uint64], multipliers: NDArray[np.uint32], addends: NDArray[np.uint32],
    lowest: NDArray[np.uint32],
) -> None:  # fmt: skip
    """Eight shingles at a time, all permutations in the inner loop: it becomes vector instructions."""
    for j in range(PERMUTATIONS):
        lowest[j] = 0xFFFFFFFF
    for i in range(0, shingles.size, 8):
        h0, h1, h2, h3 = (
            _mixed(shingles, i), _mixed(shingles, i + 1), _mixed(shingles, i + 2), _mixed(shingles, i + 3),
        )  # fmt: skip
        h4, h5, h6, h7 = (
            _mixed(shingles, i + 4), _mixed(shingles, i + 5), _mixed(shingles, i + 6), _mixed(shingles, i + 7),
        )  # fmt: skip
        for j in range(PERMUTATIONS):
            a, b = multipliers[j], addends[j]
            p0 = min(np.uint32(a * h0 + b), np.uint32(a * h1 + b))
            p1 = min(np.uint32(a * h2 + b), np.uint32(a * h3 + b))
            p2 = min(np.uint32(a * h4 + b), np.uint32(a * h5 + b))
            p3 = min(np.uint32(a * h6 + b), np.uint32(a * h7 + b))
            lowest[j] = min(lowest[j], min(min(p0, p1), min(p2, p3)))


def minhash(shingles: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The 128 minima; all ones for an empty set."""
    lowest = np.empty(PERMUTATIONS, dtype=np.uint32)
    minima_into(shingles, MULTIPLIERS_32, ADDENDS_32, lowest)
    return lowest


def minhash_jaccard(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> float:
    """The estimate: the share of permutations with equal minima (standard error about √(J(1−J)/128))."""
    return float(np.count_nonzero(a == b)) / PERMUTATIONS


def to_datasketch(signature: PageSignature) -> MinHash:
    """The same MinHash as a datasketch object.

    It compares with `MinHash(128, seed=1, hashfunc=lambda shingle: shingle & 0xFFFFFFFF)` updated with our shingles;
    a datasketch index whose owner hashed other shingles is not comparable, whatever the library.
    """
    from datasketch import MinHash  # only people who have datasketch indexes need it

    values = np.frombuffer(signature.minhash, dtype="<u4")
    return MinHash(
        num_perm=PERMUTATIONS,
        seed=DATASKETCH_SEED,
        hashfunc=lambda shingle: int(shingle) & 0xFFFFFFFF,
        hashvalues=values,
        permutations=np.array([MULTIPLIERS_32, ADDENDS_32]),
        scheme=DATASKETCH_SCHEME,
    )
