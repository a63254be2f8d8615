"""How long pages are, and how many bytes are on pages that need not be kept. Tallies of tasks and workers add up."""

from __future__ import annotations

import math
from bisect import bisect_right

from msgspec import Struct, field

from dustream.core.pages.resolution import effective, verdicts_of
from dustream.core.pages.rows import PageRow
from dustream.core.pages.status import role_of

BARS_PER_FACTOR_E = 5
BOUNDS = sorted({math.ceil(math.expm1(step / BARS_PER_FACTOR_E)) for step in range(17 * BARS_PER_FACTOR_E)})
"""The least length of each bar, in shingles; the longest pages have some millions."""


class LengthBar(Struct, frozen=True):
    """Pages with at least `least` and fewer than `below` distinct shingles."""

    least: int
    below: int
    pages: int


class SizeTally(Struct):
    """Of pages with content. `bytes_dropped`: of those that are duplicates in the first market. A page whose size is
    not in the input counts as 0 bytes."""

    pages: int = 0
    bytes: int = 0
    bytes_dropped: int = 0
    lengths: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))

    def add(self, url: str, row: PageRow) -> None:
        standing = row.standing
        if row.kind != "content" or standing is None:
            return
        verdict = effective(url, standing, verdicts_of(url, row)[0])
        role = role_of(url, standing, verdict, bool(row.site_held & 1))
        self.count(row.length, row.size, is_dropped=role == "duplicate")

    def count(self, length: int, size: int, *, is_dropped: bool) -> None:
        self.pages += 1
        self.lengths[bisect_right(BOUNDS, length) - 1] += 1
        self.bytes += size
        if is_dropped:
            self.bytes_dropped += size

    def include(self, other: SizeTally) -> None:
        self.pages += other.pages
        self.bytes += other.bytes
        self.bytes_dropped += other.bytes_dropped
        self.lengths = [one + two for one, two in zip(self.lengths, other.lengths, strict=True)]

    def bars(self) -> list[LengthBar]:
        """Up to the longest page."""
        last = max((at for at, pages in enumerate(self.lengths) if pages), default=-1)
        return [LengthBar(BOUNDS[at], BOUNDS[at + 1], self.lengths[at]) for at in range(last + 1)]
