"""The finaliser of SplitMix64, for compiled code."""

from __future__ import annotations

import numpy as np

from dustream.core.kernels.compile import kernel


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Mix the bits: every input bit affects every output bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
