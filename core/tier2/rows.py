"""The rows of the vertices present in a partition of tier 2."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.tier2 import Cover


class StarRow(Struct, frozen=True, array_like=True):
    """One market's view of a vertex (docs/protocol.md, stars)."""

    key: bytes
    winner: bool = False
    told: bool | None = None  # entry: the flag last sent to the partitions it probed; visitor: last heard from home
    local: Cover | None = None  # the best winner present that is better and matches
    said: Cover | None = None  # entry: the cover last told to its page; visitor: the local one last told to its home
    remote: dict[int, Cover] = {}  # entry: by partition, the winner that covers it there


class VertexRow(Struct, frozen=True, array_like=True):
    """Table `vertices`, by number. `home` is the partition of an entry itself, or where a visitor comes from."""

    vertex: str
    entry: bool
    home: int
    probes: tuple[int, ...]
    content_hash: bytes
    stars: tuple[StarRow, ...]


def with_stars(row: VertexRow, stars: tuple[StarRow, ...]) -> VertexRow:
    return VertexRow(row.vertex, row.entry, row.home, row.probes, row.content_hash, stars)


def row_key(number: int) -> str:
    return "%08x" % number  # noqa: UP031 (twice as fast as a format string)
