"""Repeatability of pages by their feature codes (Guo et al., sections III.B and III.D). Directed: a short page can
repeat a long one without being repeated by it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel


def code_points(code: str) -> NDArray[np.uint32]:
    """The characters of a code as integers, for compiled code."""
    return np.frombuffer(code.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def repeatability(of_page: str, over_page: str) -> float:
    """S_ij, formula (1): the share of P_j (`of_page`, its code) that P_i (`over_page`) has, in one piece.

    An empty code has nothing that could be repeated: 0.
    """
    if not of_page:
        return 0.0
    return int(longest_common_substring(code_points(over_page), code_points(of_page))) / len(of_page)


def common_chars_min(chars: int, delta: float) -> int:
    """The shortest common substring that makes a code of this many characters repeat another: S ≥ δ. It uses
    the same division as S, so that rounding cannot make a difference."""
    shortest = max(math.ceil(delta * chars) - 1, 0)
    while shortest / chars < delta:
        shortest += 1
    return shortest


def information_loss_max(delta: float, dropped_chars: Iterable[int]) -> float:
    """Section III.D: what is lost at most by dropping pages of these lengths, each of which repeats a kept page at
    S ≥ δ: a share 1 - δ of all that was dropped."""
    return (1 - delta) * sum(dropped_chars)


@kernel
def longest_common_substring(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> int:
    """Length of the longest run of characters that both have."""
    if a.size < b.size:
        a, b = b, a
    runs = np.zeros(b.size + 1, dtype=np.int32)
    longest = 0
    for i in range(a.size):
        char = a[i]
        for j in range(b.size, 0, -1):
            if b[j - 1] == char:
                run = runs[j - 1] + 1
                runs[j] = run
                if run > longest:
                    longest = run
            else:
                runs[j] = 0
    return longest
