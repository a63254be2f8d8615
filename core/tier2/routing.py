"""The interface of partition maps: where a page is stored, and where else its near duplicates may be."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from dustream.core.tier2.points import PointBatch


class Routing(ABC):
    """A kind of map implements the routing of one page and of many; the rest is derived."""

    partitions: int
    tau: float

    @abstractmethod
    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """(home, probes) of one page; the probes are ascending, without the home."""

    @abstractmethod
    def routes(self, batch: PointBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The home of each page, and a table page × partition of its contacts, home included."""

    @abstractmethod
    def describe(self) -> str:
        """The map as text."""

    def home(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> int:
        """The partition that stores the page."""
        return self.route(shingles, tie, lang)[0]

    def probes(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, ...]:
        """The other partitions that may hold a near duplicate."""
        return self.route(shingles, tie, lang)[1]

    def homes(self, batch: PointBatch) -> NDArray[np.int64]:
        return self.routes(batch)[0]
