"""Random draws that are the same on every machine, in every release of Python and numpy.

numpy promises stable streams for its bit generators but not for the methods of `Generator` (NEP 19), and floating
point differs in the last bit between math libraries. So a draw is SplitMix64 (Steele, Lea, Flood 2014) of a key and a
counter, and everything made from it is integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
BUFFER_DRAWS = 512


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64, element by element."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def key_of(*labels: int | str) -> int:
    """A 64-bit key for a path of labels, such as (seed, "site", 17)."""
    path = "\x1f".join(f"{type(label).__name__}:{label}" for label in labels)
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little")


class Draws:
    """A stream of draws named by its labels: two streams with other labels are independent of each other."""

    def __init__(self, *labels: int | str) -> None:
        self._key = key_of(*labels)
        self._drawn = 0
        self._buffer: list[int] = []

    def array(self, size: int) -> NDArray[np.uint64]:
        """The next `size` draws of 64 bits."""
        counters = np.arange(self._drawn + 1, self._drawn + 1 + size, dtype=np.uint64)
        self._drawn += size
        return mix64(counters * np.uint64(GOLDEN_GAMMA) + np.uint64(self._key))

    def array_below(self, limit: int, size: int) -> NDArray[np.int64]:
        """`size` draws from 0 … limit − 1, for limits up to 2**31 (multiply and shift; the bias is below 2**-32)."""
        return (((self.array(size) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)

    def array_16_bit(self, size: int) -> NDArray[np.uint16]:
        """`size` draws of 16 bits, four from each 64: the index of a lookup table of 65,536 entries."""
        return self.array((size + 3) // 4).astype("<u8").view("<u2")[:size]

    def below(self, limit: int) -> int:
        """One draw from 0 … limit − 1."""
        if not self._buffer:
            self._buffer = self.array(BUFFER_DRAWS).tolist()
        return (self._buffer.pop() * limit) >> 64

    def between(self, low: int, high: int) -> int:
        """One draw from low … high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, per_mille: int) -> bool:
        return self.below(1000) < per_mille

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[Item, int]]) -> Item:
        """One of the items, each with its weight."""
        draw = self.below(sum(weight for _, weight in items))
        for item, weight in items:
            draw -= weight
            if draw < 0:
                return item
        raise ValueError("weights must be positive")


def lookup_table(items: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """65,536 entries in which each item appears in proportion to its weight; a 16-bit draw indexes it.

    Items too rare for one entry drop out; rounding leaves a few entries over, which the first items share.
    """
    counts = (weights << 16) // int(weights.sum())
    counts[: (1 << 16) - int(counts.sum())] += 1
    short = (1 << 16) - int(counts.sum())
    counts[0] += short
    return np.repeat(items, counts)
