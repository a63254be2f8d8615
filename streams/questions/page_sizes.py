"""How long the pages of a state are, where the partition map cuts lengths, and how many bytes need not be stored."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dustream.core.tier2.partition_map import PartitionMap, length_cuts
from dustream.streams.engine.sizes import LengthBar, SizeTally
from dustream.streams.questions.state import ReadableState


class PageSizes(Struct, frozen=True, kw_only=True):
    """Of all pages with content. `bytes_dropped`: of those that are duplicates; 0 bytes: the input has no pages."""

    pages: int
    bars: list[LengthBar]
    cuts: list[int]
    bytes: int
    bytes_dropped: int


def sizes_of(tally: SizeTally, cuts: Sequence[int]) -> PageSizes:
    """With the lengths at which a partition map cuts, as far as there are pages."""
    bars = tally.bars()
    longest = bars[-1].below if bars else 0
    return PageSizes(
        pages=tally.pages,
        bars=bars,
        cuts=[cut for cut in cuts if cut < longest],
        bytes=tally.bytes,
        bytes_dropped=tally.bytes_dropped,
    )


def cuts_of(partition_map: PartitionMap) -> list[int]:
    """The lengths at which a partition map cuts."""
    return length_cuts(partition_map)


def tally_pages(state: ReadableState) -> SizeTally:
    """Reads the rows of all pages."""
    tally = SizeTally()
    for partition in range(state.settings.partitions):
        for url, row in state.table("pages", partition, "pages").scan():
            tally.add(url, row)
    return tally
