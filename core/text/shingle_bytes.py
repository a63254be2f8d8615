"""Shingles as signatures, rows and messages store them: 64 bits each, little-endian, ascending.

Nothing here is compiled, so that reading them does not load a compiler.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHINGLE_BYTES = 8


def shingle_array(stored: bytes) -> NDArray[np.uint64]:
    """The shingles, without a copy."""
    return np.frombuffer(stored, dtype="<u8")


def shingle_count(stored: bytes) -> int:
    return len(stored) // SHINGLE_BYTES
