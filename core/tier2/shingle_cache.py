"""A bounded cache of shingle sets: a ring buffer that overwrites the oldest.

A set is contiguous: its sketch, which begins with its size, then its shingles. Positions increase without wrapping; a
set is gone once the head is more than one ring beyond its position, so no explicit eviction is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.arrays import copy_into
from dustream.core.kernels.compile import inner, kernel
from dustream.core.tier2.odd_sketch import SIZE, SKETCH_WORDS, is_out_of_reach, odd_sketch


class ShingleCache(NamedTuple):
    """The ring, and per text 1 + the position of its set (0: not cached)."""

    ring: NDArray[np.uint64]
    place: NDArray[np.int64]
    head: NDArray[np.int64]  # (1)


@inner
def is_in_ring(ring: NDArray[np.uint64], place: NDArray[np.int64], head: int, text: int) -> bool:
    """`is_cached` for loops: reading an array from a tuple costs two atomic operations."""
    return bool(place[text] > 0 and head - (place[text] - 1) <= len(ring))


@inner
def set_in_ring(ring: NDArray[np.uint64], place: NDArray[np.int64], text: int) -> NDArray[np.uint64]:
    """`cached_set` for loops."""
    start = (place[text] - 1) % len(ring)
    return ring[start + SKETCH_WORDS : start + SKETCH_WORDS + np.int64(ring[start + SIZE])]


@inner
def is_ruled_out(
    ring: NDArray[np.uint64],
    place: NDArray[np.int64],
    head: int,
    text: int,
    sketch: NDArray[np.uint64],
    numerator: int,
    denominator: int,
) -> bool:
    """Whether the text's set is cached and its sketch shows that the similarity is below the ratio."""
    if not is_in_ring(ring, place, head, text):
        return False
    return bool(is_out_of_reach(sketch, ring, (place[text] - 1) % len(ring), numerator, denominator))


@kernel
def is_cached(cache: ShingleCache, text: int) -> bool:
    """Whether the text's set is cached."""
    return bool(is_in_ring(cache.ring, cache.place, cache.head[0], text))


@kernel
def cached_set(cache: ShingleCache, text: int) -> NDArray[np.uint64]:
    """The text's set, if `is_cached`."""
    return set_in_ring(cache.ring, cache.place, text)


@inner
def remember(cache: ShingleCache, text: int, shingles: NDArray[np.uint64]) -> None:
    """Store a set at the head, unless it is larger than a quarter of the ring and would overwrite too many others."""
    cells = SKETCH_WORDS + len(shingles)
    if cells > len(cache.ring) // 4:
        return
    start = cache.head[0] % len(cache.ring)
    if start + cells > len(cache.ring):
        cache.head[0] += len(cache.ring) - start
        start = 0
    copy_into(cache.ring[start:], odd_sketch(shingles))
    copy_into(cache.ring[start + SKETCH_WORDS :], shingles)
    cache.place[text] = cache.head[0] + 1
    cache.head[0] += cells
