"""MinHash of a shingle set: 128 permutations, 32 bits each, the same numbers datasketch (scheme affine32) computes
from the lowest 32 bits of every shingle. Estimates only: verdicts are by exact Jaccard (`shingles.jaccard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.permutations import ADDENDS, MULTIPLIERS
from dustream.schemas.signature import PageSignature

if TYPE_CHECKING:
    from datasketch import MinHash

PERMUTATIONS = 128
DATASKETCH_SEED = 1
DATASKETCH_SCHEME = "affine32"

MULTIPLIERS_32 = np.array(MULTIPLIERS, dtype=np.uint32)
ADDENDS_32 = np.array(ADDENDS, dtype=np.uint32)


@njit(cache=True)
def _fmix32(h: np.uint32) -> np.uint32:
    """MurmurHash3's 32-bit finaliser, which datasketch applies before permuting."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@njit(cache=True)
def minima(
    shingles: NDArray[np.uint64], multipliers: NDArray[np.uint32], addends: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Four shingles at a time, all permutations in the inner loop: it becomes vector instructions."""
    lowest = np.full(PERMUTATIONS, 0xFFFFFFFF, dtype=np.uint32)
    if shingles.size == 0:
        return lowest
    last = shingles.size - 1
    for i in range(0, shingles.size, 4):
        h0 = _fmix32(np.uint32(shingles[i]))
        h1 = _fmix32(np.uint32(shingles[min(i + 1, last)]))  # past the end the last one again: no harm to a minimum
        h2 = _fmix32(np.uint32(shingles[min(i + 2, last)]))
        h3 = _fmix32(np.uint32(shingles[min(i + 3, last)]))
        for j in range(PERMUTATIONS):
            a, b = multipliers[j], addends[j]
            left = min(np.uint32(a * h0 + b), np.uint32(a * h1 + b))
            right = min(np.uint32(a * h2 + b), np.uint32(a * h3 + b))
            lowest[j] = min(lowest[j], min(left, right))
    return lowest


def minhash(shingles: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The 128 minima; all ones for an empty set."""
    return minima(shingles, MULTIPLIERS_32, ADDENDS_32)


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
