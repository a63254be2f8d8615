"""The rows of the vertices present in a partition of tier 2, and of who contains whom."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.pages import Verdict
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
    post: int = 0  # the serial under which an entry is posted to the index of containment; 0: it is not
    dropped: int = 0  # markets (bit by bit) in which the page is dropped because another one contains it


class CandidateRow(Struct, frozen=True, array_like=True):
    """Table `candidates`, by page and container: how many terms they share; then the share of the page that the
    container has, and how the container stands."""

    terms: int
    share: float | None = None
    code_share: float | None = None
    container: str = ""
    orders: tuple[bytes, ...] = ()
    kept: int = 0  # markets, bit by bit


class DependentRow(Struct, frozen=True, array_like=True):
    """Table `dependents`, by container and page: who hears how a container at home here stands."""


class ContainerRow(Struct, frozen=True, array_like=True):
    """Table `containers`, by the page's serial: the page, and who contains it by market, as `pages` was told."""

    page: str
    verdicts: tuple[Verdict | None, ...]


class SerialRow(Struct, frozen=True, array_like=True):
    """Table `serials`: the next serial."""

    serial: int


def with_stars(row: VertexRow, stars: tuple[StarRow, ...]) -> VertexRow:
    return VertexRow(row.vertex, row.entry, row.home, row.probes, row.content_hash, stars, row.post, row.dropped)


def won_markets(row: VertexRow) -> int:
    """The markets, bit by bit, in which a vertex is a winner."""
    won = 0
    for market, star in enumerate(row.stars):
        won |= star.winner << market
    return won


def row_key(number: int) -> str:
    return "%08x" % number  # noqa: UP031 (twice as fast as a format string)
