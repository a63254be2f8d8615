"""Shingles: the set of hashed k-token windows of a text (Broder; Zhu section 4.2), and exact Jaccard on it.

A text of n tokens has k-1 dummy tokens appended and therefore n windows; equal ones count once. A shingle is 64 bits:
the top 12 are the bucket of its first token, the lower 52 a hash of the k tokens in order. So the length vector for
any sub-dictionary table follows from the set alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.compiled import inner
from dustream.core.text.tokens import BUCKET_BITS, BUCKETS, count_by_table, fmix64

SHINGLE_TOKENS = 5
DIMENSIONS = 3

_HASH_BITS = 64 - BUCKET_BITS
_HASH_MASK = np.uint64((1 << _HASH_BITS) - 1)
_MULTIPLIER = np.uint64(0x9E3779B185EBCA87)
_DUMMY_TOKEN = np.uint64(0x27D4EB2F165667C5)

# Cells of the first cut in sorting; 65,536 still fit the cache.
_CUT_BITS_MAX = 16
PLACES = (1 << _CUT_BITS_MAX) + 1


def _hashed_buckets(dimensions: int) -> NDArray[np.uint8]:
    """Sub-dictionaries by plain hash: where no table has been learned from a sample."""
    mixed = np.arange(BUCKETS, dtype=np.uint64) * _MULTIPLIER
    table = ((mixed >> np.uint64(32)) % np.uint64(dimensions)).astype(np.uint8)
    table.setflags(write=False)
    return table


DEFAULT_TABLE = _hashed_buckets(DIMENSIONS)


@njit(cache=True)
def windows_into(tokens: NDArray[np.uint64], count: int, shingles: NDArray[np.uint64]) -> None:
    """The hashed windows of the first `count` tokens in text order, with repeats. Behind the tokens there is room for
    the dummies."""
    for i in range(count, count + SHINGLE_TOKENS - 1):
        tokens[i] = _DUMMY_TOKEN
    for i in range(count):
        h = np.uint64(0)
        for j in range(SHINGLE_TOKENS):
            h = ((h << np.uint64(29)) | (h >> np.uint64(35))) ^ tokens[i + j]
            h *= _MULTIPLIER
        bucket = (tokens[i] >> np.uint64(_HASH_BITS)) << np.uint64(_HASH_BITS)
        shingles[i] = bucket | (fmix64(h) & _HASH_MASK)


@inner
def _scatter(
    source: NDArray[np.uint64], target: NDArray[np.uint64], count: int, shift: int, bits: int,
    places: NDArray[np.uint32],
) -> None:  # fmt: skip
    """Order the first `count` values by the `bits` bits above `shift`, into target, keeping the order of equals."""
    low, mask = np.uint64(shift), np.uint64((1 << bits) - 1)
    for cell in range((1 << bits) + 1):
        places[cell] = 0
    for i in range(count):
        places[((source[i] >> low) & mask) + np.uint64(1)] += np.uint32(1)
    total = np.uint32(0)
    for cell in range(1 << bits):
        total += places[cell]
        places[cell] = total
    for i in range(count):
        cell_of = (source[i] >> low) & mask
        target[places[cell_of]] = source[i]
        places[cell_of] += np.uint32(1)


@inner
def _insertion_sort(values: NDArray[np.uint64], count: int) -> None:
    """By the lower 52 bits; quick because every value is already near its place."""
    for i in range(1, count):
        value = values[i]
        j = i - 1
        while j >= 0 and (values[j] & _HASH_MASK) > (value & _HASH_MASK):
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@njit(cache=True)
def sort_distinct(
    shingles: NDArray[np.uint64], count: int, spare: NDArray[np.uint64], places: NDArray[np.uint32]
) -> int:
    """Make the first `count` values ascending and without repeats, in linear time: how many are left.

    The lower 52 bits are uniform: one cut by their top bits leaves a few values per cell, which insertion puts in
    order. Stable cuts by the bucket, however uneven the first tokens are, then complete the order: by half of its
    bits each, for which 64 places are counted and not 4,096, many more than a page has shingles.
    """
    bits = 4
    while bits < _CUT_BITS_MAX and (1 << bits) < count:
        bits += 1
    _scatter(shingles, spare, count, _HASH_BITS - bits, bits, places)
    _insertion_sort(spare, count)
    half = BUCKET_BITS // 2
    _scatter(spare, shingles, count, _HASH_BITS, half, places)
    _scatter(shingles, spare, count, _HASH_BITS + half, BUCKET_BITS - half, places)
    kept, last = 0, np.uint64(0)
    for i in range(count):
        if kept == 0 or spare[i] != last:
            last = spare[i]
            shingles[kept] = last
            kept += 1
    return kept


def distinct_shingles(tokens: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The shingle set of a token stream (`tokens.token_hashes`), ascending."""
    count = tokens.size
    padded = np.empty(count + SHINGLE_TOKENS - 1, dtype=np.uint64)
    padded[:count] = tokens
    shingles, spare = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    windows_into(padded, count, shingles)
    return shingles[: sort_distinct(shingles, count, spare, np.empty(PLACES, dtype=np.uint32))]


def length_vector(shingles: NDArray[np.uint64], table: NDArray[np.uint8] = DEFAULT_TABLE) -> NDArray[np.int64]:
    """The number of distinct shingles whose first token is in each sub-dictionary."""
    return count_by_table(shingles, table)


@njit(cache=True)
def common_shingles(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> int:
    """|A ∩ B| of two ascending sets."""
    i = j = common = 0
    while i < a.size and j < b.size:
        left, right = a[i], b[j]
        common += left == right
        i += left <= right
        j += right <= left
    return common


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    """|A ∩ B| / |A ∪ B| of two ascending sets, exactly. Two empty sets are equal: 1."""
    common = int(common_shingles(a, b))
    union = a.size + b.size - common
    return common / union if union else 1.0
