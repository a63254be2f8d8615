"""Banded MinHash: which rows of a MinHash form a band, and the key of each band.

Two pages agree in one row of their MinHashes with probability J, their Jaccard similarity (Broder 1997), in a whole
band of r rows with J^r, and in none of b bands with (1 − J^r)^b (Indyk and Motwani 1998). Pages that share a band
are candidates. Exact Jaccard decides on them: a false candidate costs time, a pair that is not a candidate is lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.kernels.compile import inner, threaded_kernel
from dustream.core.kernels.mix64 import mix64
from dustream.core.similarity import check_tau

PERMUTATIONS = 128
MISS_PROBABILITY_MAX = 1e-4

# All 128 minima of a page without shingles; such a page has no bands.
EMPTY_MINIMUM = np.uint32(0xFFFF_FFFF)


def miss_probability(similarity: float, bands: int, rows: int) -> float:
    """(1 − J^r)^b: the probability that a pair of this similarity shares no band."""
    return float((1.0 - similarity**rows) ** bands)


def bands_needed(tau: float, rows: int, miss_max: float) -> int:
    """The fewest bands b of `rows` rows with (1 − τ^r)^b < miss_max; each additional band costs memory on every
    page."""
    bands = 1
    while miss_probability(tau, bands, rows) >= miss_max:
        bands += 1
    return bands


def bands_for(tau: float, permutations: int = PERMUTATIONS, miss_max: float = MISS_PROBABILITY_MAX) -> tuple[int, int]:
    """(bands, rows): the most rows, then the fewest bands, with which a pair at τ is missed below `miss_max`.

    Below τ ≈ 0.07 not even 128 bands of one row suffice. Then the result is one band of no rows, which all pages share:
    (1 − τ^0)^1 = 0, no pair is missed, and every search compares with every page.
    """
    check_tau(tau)
    if permutations < 1:
        raise BadSetting(f"a MinHash of {permutations} permutations cannot be split into bands: use {PERMUTATIONS}")
    if not 0.0 < miss_max < 1.0:
        raise BadSetting(f"miss_max is {miss_max}: use a probability above 0 and below 1, for example 0.0001")
    for rows in range(permutations, 0, -1):
        if miss_probability(tau, permutations // rows, rows) < miss_max:
            return bands_needed(tau, rows, miss_max), rows
    return 1, 0


@inner
def band_key(minhash: NDArray[np.uint32], band: int, rows: int) -> np.uint64:
    """A 64-bit key of a band: equal where all its rows are equal.

    Two different bands have the same key with probability 2^-64, which adds a candidate but never loses one.
    """
    key = np.uint64(0x9E3779B97F4A7C15)
    for row in range(band * rows, (band + 1) * rows):
        key = mix64(key ^ np.uint64(minhash[row])) + np.uint64(0x9E3779B97F4A7C15)
    return mix64(key)


@threaded_kernel
def band_keys(minhashes: NDArray[np.uint32], bands: int, rows: int) -> NDArray[np.uint64]:
    """One key per page (row of `minhashes`) and band."""
    keys = np.empty((len(minhashes), bands), dtype=np.uint64)
    for page in range(len(minhashes)):
        for band in range(bands):
            keys[page, band] = band_key(minhashes[page], band, rows)
    return keys


@inner
def is_without_shingles(minhash: NDArray[np.uint32]) -> bool:
    """Whether this is the MinHash of the empty set."""
    row = 0
    while row < len(minhash) and minhash[row] == EMPTY_MINIMUM:
        row += 1
    return row == len(minhash)


@inner
def without_shingles(minhashes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Per page, whether this is the MinHash of the empty set."""
    empty = np.empty(len(minhashes), dtype=np.bool_)
    for page in range(len(minhashes)):
        empty[page] = is_without_shingles(minhashes[page])
    return empty
