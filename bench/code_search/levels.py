"""Which fragments of a code are kept, so that no containment can be missed.

Two codes, m characters the shorter one: S ≥ δ in either direction means a common substring of at least ⌈δm⌉. *Level* λ
has a length T(λ); a code is *of* the highest level with T(λ) ≤ ⌈δm⌉, and is kept on that level and on all below. On a
level, its fragments of q characters at every g-th place are kept, q + g - 1 = T: whatever T characters in a row are
taken out of a code, one of these fragments lies whole within them. Who asks with all of its fragments of q characters
on the level of the shorter code meets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.text.repeatability import common_chars_min

CODE_CHARS_MIN = 8  # a page that says less is found in everything
CODE_CHARS_MAX = 1_000  # no code is longer than the text that it is taken from


@dataclass(frozen=True, slots=True)
class Levels:
    """For one δ: per level the step g and the length q of its fragments, and the level of each code length."""

    delta: float
    steps: NDArray[np.int64]
    fragment_chars: NDArray[np.int64]
    level_of_length: NDArray[np.int64]


def make_levels(delta: float) -> Levels:
    """Levels for a repeatability threshold; each T is twice the one before."""
    if not 0 < delta <= 1:
        raise BadSetting(f"repeatability threshold {delta} must be above 0 and at most 1; the paper uses 0.75")
    shortest, longest = (common_chars_min(chars, delta) for chars in (CODE_CHARS_MIN, CODE_CHARS_MAX))
    lengths = list(takewhile(lambda length: length <= longest, (shortest << level for level in range(64))))
    steps = [max(1, length // 3) for length in lengths]
    level_of_length = np.full(CODE_CHARS_MAX + 1, -1, dtype=np.int64)
    for chars in range(CODE_CHARS_MIN, CODE_CHARS_MAX + 1):
        level_of_length[chars] = sum(length <= common_chars_min(chars, delta) for length in lengths) - 1
    return Levels(
        delta,
        np.array(steps, dtype=np.int64),
        np.array([length - step + 1 for length, step in zip(lengths, steps, strict=True)], dtype=np.int64),
        level_of_length,
    )
