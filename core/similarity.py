"""Exact Jaccard similarity of shingle sets, and the threshold as a ratio of integers.

A match is |A ∩ B| ≥ τ · |A ∪ B|. In floating point, a pair at exactly τ could fall on either side (the double 0.8 is a
little more than 4/5). So τ is converted to the fraction it stands for, and both sides are integers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.kernels.compile import kernel

# τ is the nearest fraction with a denominator up to this: exact for nine decimals and for all small fractions (2/3).
# Its product with 2^32 shingles still fits 64 bits.
TAU_DENOMINATOR_MAX = 10**9


def check_tau(tau: float) -> None:
    """τ is a Jaccard similarity above 0: at τ = 0 every pair of pages would match."""
    if not 0.0 < tau <= 1.0:
        raise BadSetting(f"the similarity threshold τ is {tau}: choose one above 0 and at most 1, for example 0.8")


def threshold_ratio(tau: float) -> tuple[int, int]:
    """τ as (numerator, denominator): 0.8 is 4/5. At least 1/10^9, so that pages with nothing in common never match."""
    check_tau(tau)
    ratio = max(Fraction(tau).limit_denominator(TAU_DENOMINATOR_MAX), Fraction(1, TAU_DENOMINATOR_MAX))
    return ratio.numerator, ratio.denominator


def matches_threshold(intersection: int, union: int, tau: float) -> bool:
    """|A ∩ B| / |A ∪ B| ≥ τ, decided in integers; two empty sets have no similarity."""
    numerator, denominator = threshold_ratio(tau)
    return union > 0 and intersection * denominator >= numerator * union


@kernel
def intersection_needed(size_a: int, size_b: int, numerator: int, denominator: int) -> int:
    """The least i with i / (|A| + |B| − i) ≥ numerator / denominator; beyond min(|A|, |B|) there is no match."""
    total = numerator * (size_a + size_b)
    return (total + numerator + denominator - 1) // (numerator + denominator)


@kernel
def intersection_size(a: NDArray[np.uint64], b: NDArray[np.uint64], needed: int) -> int:
    """|A ∩ B| of two ascending arrays, or -1 as soon as it is certainly below `needed` (0: always the exact size)."""
    i, j, common = 0, 0, 0
    spare_a, spare_b = len(a) - needed, len(b) - needed
    while i < len(a) and j < len(b):
        # No branches on the data: which of two hashes is smaller cannot be predicted.
        x, y = a[i], b[j]
        common += x == y
        i += x <= y
        j += y <= x
        if i - common > spare_a or j - common > spare_b:
            return -1
    return common


@kernel
def similarity_at_least(a: NDArray[np.uint64], b: NDArray[np.uint64], numerator: int, denominator: int) -> float:
    """The Jaccard similarity if it is at least the ratio, else -1.0."""
    needed = intersection_needed(len(a), len(b), numerator, denominator)
    if needed > min(len(a), len(b)) or len(a) == 0 or len(b) == 0:
        return -1.0
    common = intersection_size(a, b, needed)
    return -1.0 if common < needed else common / (len(a) + len(b) - common)


@kernel
def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    """|A ∩ B| / |A ∪ B| of two ascending arrays without duplicates; 0.0 if both are empty."""
    if len(a) == 0 or len(b) == 0:
        return 0.0
    common = intersection_size(a, b, 0)
    return common / (len(a) + len(b) - common)
