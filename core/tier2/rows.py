"""The rows of the vertices present in a partition of tier 2, and of containment."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.pages import Verdict
from dustream.schemas.tier2 import Cover


class StarRow(Struct, frozen=True, array_like=True):
    """One market's view of a vertex (docs/explanation/protocol.md, stars)."""

    key: bytes
    winner: bool = False
    flag_sent: bool | None = None
    """Of an entry: the winner flag last sent to the partitions it probed. Of a visitor: the one last received."""
    local: Cover | None = None  # the best winner present that is better and matches
    cover_sent: Cover | None = None
    """Of an entry: the cover last sent to its page. Of a visitor: the local cover last sent to its home."""
    remote: dict[int, Cover] = {}  # entry: by partition, the winner that covers it there


class VertexRow(Struct, frozen=True, array_like=True):
    """Table `vertices`, by number. `home` is this partition for an entry, or the partition that a visitor comes
    from."""

    vertex: str
    entry: bool
    home: int
    probes: tuple[int, ...]
    content_hash: bytes
    stars: tuple[StarRow, ...]
    post: int = 0  # the serial under which an entry is posted to the containment index; 0: not posted
    dropped: int = 0  # markets (bit by bit) in which the page is dropped because another page contains it
    same: tuple[str, ...] = ()  # the pages that an operator decided to be the same as this one


class CandidateRow(Struct, frozen=True, array_like=True):
    """Table `candidates`, by page and container: the number of terms they share; once weighed, the share of the page
    that the container has, and the container's standing."""

    terms: int
    share: float | None = None
    code_share: float | None = None
    container: str = ""
    orders: tuple[bytes, ...] = ()
    kept: int = 0  # markets, bit by bit


class DependentRow(Struct, frozen=True, array_like=True):
    """Table `dependents`, by container and page: the pages to notify when the container's standing changes."""


class ContainerRow(Struct, frozen=True, array_like=True):
    """Table `containers`, by the page's serial: the page, and its container by market, as last sent to `pages`."""

    page: str
    verdicts: tuple[Verdict | None, ...]


class SerialRow(Struct, frozen=True, array_like=True):
    """Table `serials`: the next serial."""

    serial: int


def with_stars(row: VertexRow, stars: tuple[StarRow, ...]) -> VertexRow:
    known = row.vertex, row.entry, row.home, row.probes, row.content_hash
    return VertexRow(*known, stars, row.post, row.dropped, row.same)


def won_markets(row: VertexRow) -> int:
    """The markets, bit by bit, in which a vertex is a winner."""
    won = 0
    for market, star in enumerate(row.stars):
        won |= star.winner << market
    return won


def row_key(number: int) -> str:
    return "%08x" % number  # noqa: UP031 (twice as fast as a format string)
