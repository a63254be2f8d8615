"""A bounded cache of shingle sets: a ring that forgets what came first.

A set lies in one piece: its length, then its shingles. Places are counted on and on; what lies at a place is gone once
the head has passed it by a whole ring, so nothing is ever evicted by hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

SHINGLE_BYTES = 8


class ShingleCache(NamedTuple):
    """The ring, and per text 1 + the place of its set (0: not cached)."""

    ring: NDArray[np.uint64]
    place: NDArray[np.int64]
    head: NDArray[np.int64]  # (1)


@njit(cache=True)
def is_cached(cache: ShingleCache, text: int) -> bool:
    """Is the text's set still there?"""
    place = cache.place[text] - 1
    return bool(place >= 0 and cache.head[0] - place <= len(cache.ring))


@njit(cache=True)
def cached_set(cache: ShingleCache, text: int) -> NDArray[np.uint64]:
    """The text's set, if `is_cached`."""
    start = (cache.place[text] - 1) % len(cache.ring)
    return cache.ring[start + 1 : start + 1 + np.int64(cache.ring[start])]


@njit(cache=True)
def remember(cache: ShingleCache, text: int, shingles: NDArray[np.uint64]) -> None:
    """Put a set at the head; one of more than a quarter of the ring would push out too many others and is left out."""
    cells = len(shingles) + 1
    if cells > len(cache.ring) // 4:
        return
    start = cache.head[0] % len(cache.ring)
    if start + cells > len(cache.ring):
        cache.head[0] += len(cache.ring) - start
        start = 0
    cache.ring[start] = np.uint64(len(shingles))
    cache.ring[start + 1 : start + cells] = shingles
    cache.place[text] = cache.head[0] + 1
    cache.head[0] += cells
