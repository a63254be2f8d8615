"""Odd sketches: an exact bound on the intersection of two shingle sets, without reading the sets.

Shingles are hashed into bins, and only the parity of each bin's count is kept (Mitzenmacher, Pagh and Pham 2014, who
estimate similarities by it). Common shingles fall into the same bins and cancel out, so a bin with different parities
has at least one shingle that only one of the sets has: |A Δ B| ≥ ones(sketch A ⊕ sketch B). A pair whose bound exceeds
the difference allowed in a match is not a match; any other pair must be compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.similarity import intersection_needed

# A sketch is one cache line: the size of the set, then the parities.
SKETCH_WORDS = 8
SIZE = 0
BINS = 64 * (SKETCH_WORDS - 1)

Words = NDArray[np.uint64]


@kernel
def odd_sketch(shingles: Words) -> Words:
    """The sketch of a set. The lowest 32 bits select the bin; they are uniform. If they were not, the bound would be
    weaker but still correct."""
    sketch = np.zeros(SKETCH_WORDS, dtype=np.uint64)
    sketch[SIZE] = np.uint64(len(shingles))
    for shingle in shingles:
        place = ((shingle & np.uint64(0xFFFF_FFFF)) * np.uint64(BINS)) >> np.uint64(32)
        sketch[np.uint64(1) + (place >> np.uint64(6))] ^= np.uint64(1) << (place & np.uint64(63))
    return sketch


@kernel
def ones(word: np.uint64) -> np.uint64:
    """The number of bits set (Warren 2002, 5-1; compilers translate it to one instruction)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel
def is_out_of_reach(sketch: Words, others: Words, at: int, numerator: int, denominator: int) -> bool:
    """Whether the similarity to the set whose sketch starts at `at` is certainly below the ratio: by sizes, then
    bins."""
    size, other_size = int(np.int64(sketch[SIZE])), int(np.int64(others[at + SIZE]))
    needed = intersection_needed(size, other_size, numerator, denominator)
    if needed > min(size, other_size):
        return True
    differing = np.uint64(0)
    for word in range(SIZE + 1, SKETCH_WORDS):
        differing += ones(sketch[word] ^ others[at + word])
    return bool(int(np.int64(differing)) > size + other_size - 2 * needed)
