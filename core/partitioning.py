"""Where pages are stored in tier 2, and whom they ask: what `pages` needs of a partition map."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

TIE_BITS = 32


class PartitionMap(Protocol):
    """Where pages are stored and whom they must ask. A pair that matches meets: each probes the other's home.

    `tie` (a hash of the URL) may split pages that stand at one point."""

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """The home, and the other partitions that may hold a match, ascending."""


def tie_of(key: str) -> int:
    """What splits pages that stand at one point: 32 bits of the URL's hash, the same for every version of the page."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=TIE_BITS // 8).digest(), "little")
