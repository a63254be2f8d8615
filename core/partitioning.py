"""The part of a partition map that `pages` needs: where a page is stored in tier 2, and which partitions it probes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

TIE_BITS = 32


class PartitionMap(Protocol):
    """Assigns pages to partitions. Of two pages that match, each probes the home of the other, so they meet.

    `tie` (a hash of the URL) may split pages with equal coordinates."""

    @property
    def partitions(self) -> int: ...

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """The home, and the other partitions that may hold a match, in ascending order."""


def tie_of(key: str) -> int:
    """32 bits of the URL's hash, equal for every version of the page: splits pages with equal coordinates."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=TIE_BITS // 8).digest(), "little")
