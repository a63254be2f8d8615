"""Shingles: the set of hashed k-token windows of a text (Broder; Zhu section 4.2), and exact Jaccard on it.

A text of n tokens has k-1 dummy tokens appended and therefore n windows; equal ones count once. A shingle is 64 bits:
the top 12 are the bucket of its first token, the lower 52 a hash of the k tokens in order. So the length vector for
any sub-dictionary table follows from the set alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.text.tokens import BUCKET_BITS, BUCKETS, count_by_table, fmix64

SHINGLE_TOKENS = 5
DIMENSIONS = 3

_HASH_BITS = 64 - BUCKET_BITS
_HASH_MASK = np.uint64((1 << _HASH_BITS) - 1)
_MULTIPLIER = np.uint64(0x9E3779B185EBCA87)
DUMMY_TOKEN = np.uint64(0x27D4EB2F165667C5)
NO_SEED = np.uint64(0)

# Cells of the first cut in sorting: some values each, if all had one first token; 65,536 still fit the cache.
_CUT_BITS_MIN, _CUT_BITS_MAX = 8, 16
_CELL_VALUES_MAX = 8
_HALF_BITS = BUCKET_BITS // 2
_HALF_CELLS = 1 << _HALF_BITS
PLACES = (1 << _CUT_BITS_MAX) + 2 * _HALF_CELLS


def _hashed_buckets(dimensions: int) -> NDArray[np.uint8]:
    """Sub-dictionaries by plain hash, used where no table was learned from a sample."""
    mixed = np.arange(BUCKETS, dtype=np.uint64) * _MULTIPLIER
    table = ((mixed >> np.uint64(32)) % np.uint64(dimensions)).astype(np.uint8)
    table.setflags(write=False)
    return table


DEFAULT_TABLE = _hashed_buckets(DIMENSIONS)

# The counts of DEFAULT_TABLE packed into one number: where the count of each bucket begins in it.
_PACKED_BITS = 64 // DIMENSIONS
_PACKED_MAX = (1 << _PACKED_BITS) - 1
_PACKED_SHIFTS = DEFAULT_TABLE * np.uint8(_PACKED_BITS)


@inner
def window_hash(tokens: NDArray[np.uint64], start: int, size: int, seed: np.uint64) -> np.uint64:
    """The shingle of the `size` tokens from `start` on."""
    h = seed
    for j in range(size):
        h = ((h << np.uint64(29)) | (h >> np.uint64(35))) ^ tokens[start + j]
        h *= _MULTIPLIER
    bucket = (tokens[start] >> np.uint64(_HASH_BITS)) << np.uint64(_HASH_BITS)
    return bucket | (fmix64(h) & _HASH_MASK)  # type: ignore[no-any-return]


@kernel
def windows_into(tokens: NDArray[np.uint64], count: int, shingles: NDArray[np.uint64], seed: np.uint64) -> None:
    """The hashed windows of the first `count` tokens in text order, with repeats. Behind the tokens there is room for
    the dummies. Windows with different seeds are different shingles."""
    for i in range(count, count + SHINGLE_TOKENS - 1):
        tokens[i] = DUMMY_TOKEN
    for i in range(count):
        shingles[i] = window_hash(tokens, i, SHINGLE_TOKENS, seed)


@inner
def _count_cells(
    values: NDArray[np.uint64], count: int, bits: int, places: NDArray[np.uint32], first_half: int, second_half: int
) -> None:
    """Count the values of each cell of each cut in one pass: by the top `bits` of the hash, from 0 on in `places`,
    and by the two halves of the bucket, from there on."""
    shift, mask = np.uint64(_HASH_BITS - bits), np.uint64((1 << bits) - 1)
    low, high = np.uint64(first_half), np.uint64(second_half)
    for cell in range(second_half + _HALF_CELLS):
        places[cell] = 0
    for i in range(np.uint64(count)):
        value = values[i]
        places[(value >> shift) & mask] += np.uint32(1)
        places[low + ((value >> np.uint64(_HASH_BITS)) & np.uint64(_HALF_CELLS - 1))] += np.uint32(1)
        places[high + (value >> np.uint64(_HASH_BITS + _HALF_BITS))] += np.uint32(1)


@inner
def _scatter(
    source: NDArray[np.uint64], target: NDArray[np.uint64], count: int, shift: int, bits: int,
    places: NDArray[np.uint32], first: int,
) -> None:  # fmt: skip
    """Order the first `count` values by the `bits` bits above `shift`, into target, keeping the order of equals. From
    `first` on, `places` has how many values each cell gets."""
    low, mask, base = np.uint64(shift), np.uint64((1 << bits) - 1), np.uint64(first)
    total = np.uint32(0)
    for cell in range(first, first + (1 << bits)):
        found = places[cell]
        places[cell] = total
        total += found
    for i in range(np.uint64(count)):
        value = source[i]
        cell_of = base + ((value >> low) & mask)
        target[places[cell_of]] = value
        places[cell_of] += np.uint32(1)


@inner
def _insert(values: NDArray[np.uint64], count: np.uint64, value: np.uint64) -> np.uint64:
    """Put a value to its place among `count` ascending ones, near their end, unless it is there: how many there are."""
    at = count
    while at > np.uint64(0) and values[at - np.uint64(1)] > value:
        at -= np.uint64(1)
    if at > np.uint64(0) and values[at - np.uint64(1)] == value:
        return count
    for i in range(count - at):
        values[count - i] = values[count - i - np.uint64(1)]
    values[at] = value
    return count + np.uint64(1)


@kernel
def sort_distinct(
    shingles: NDArray[np.uint64], count: int, spare: NDArray[np.uint64], places: NDArray[np.uint32]
) -> int:
    """Make the first `count` values ascending and without repeats, in linear time: how many are left.

    Stable cuts by the top bits of the hash, which is uniform, and by the bucket, however uneven the first tokens are.
    One or two values share a bucket and a cell of the hash; insertion sorts them. The bucket is cut by half of its bits
    at a time, which takes 64 counters instead of 4,096, far more than a page has shingles.
    """
    bits = _CUT_BITS_MIN
    while bits < _CUT_BITS_MAX and (_CELL_VALUES_MAX << bits) < count:
        bits += 1
    first_half, second_half = 1 << bits, (1 << bits) + _HALF_CELLS
    _count_cells(shingles, count, bits, places, first_half, second_half)
    _scatter(shingles, spare, count, _HASH_BITS - bits, bits, places, 0)
    _scatter(spare, shingles, count, _HASH_BITS, _HALF_BITS, places, first_half)
    _scatter(shingles, spare, count, _HASH_BITS + _HALF_BITS, _HALF_BITS, places, second_half)
    kept, last = np.uint64(0), np.uint64(0)
    for i in range(np.uint64(count)):
        value = spare[i]
        if value > last or kept == np.uint64(0):
            shingles[kept] = last = value
            kept += np.uint64(1)
        elif value < last:
            kept = _insert(shingles, kept, value)
    return np.int64(kept)  # type: ignore[return-value]


@inner
def lengths_into(shingles: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """The length vector by DEFAULT_TABLE. The counts are packed into one integer: no addition waits for memory."""
    for i in range(DIMENSIONS):
        counts[i] = 0
    for start in range(0, shingles.size, _PACKED_MAX):
        packed = np.uint64(0)
        for i in range(np.uint64(start), np.uint64(min(shingles.size, start + _PACKED_MAX))):
            packed += np.uint64(1) << np.uint64(_PACKED_SHIFTS[shingles[i] >> np.uint64(_HASH_BITS)])
        for i in range(DIMENSIONS):
            counts[i] += np.int64(packed >> np.uint64(_PACKED_BITS * i) & np.uint64((1 << _PACKED_BITS) - 1))


def distinct_shingles(tokens: NDArray[np.uint64], seed: np.uint64 = NO_SEED) -> NDArray[np.uint64]:
    """The shingle set of a token stream (`tokens.token_hashes`), ascending."""
    count = tokens.size
    padded = np.empty(count + SHINGLE_TOKENS - 1, dtype=np.uint64)
    padded[:count] = tokens
    shingles, spare = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    windows_into(padded, count, shingles, seed)
    return shingles[: sort_distinct(shingles, count, spare, np.empty(PLACES, dtype=np.uint32))]


def length_vector(shingles: NDArray[np.uint64], table: NDArray[np.uint8] = DEFAULT_TABLE) -> NDArray[np.int64]:
    """The number of distinct shingles whose first token is in each sub-dictionary."""
    return count_by_table(shingles, table)


@kernel
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
