"""The rows of `groups`."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.groups import Create, Deliver, EdgeRecord, Transfer
from dustream.schemas.pages import Standing


class MoveJob(Struct, frozen=True, array_like=True, tag="move"):
    """Send all tokens kept at `place` (or, of a piece, those marked for the destination) to another group."""

    place: str
    destination: str
    via: EdgeRecord | None
    rank: int
    fresh: bool
    piece: bool = False
    started: bool = False


class LandJob(Struct, frozen=True, array_like=True, tag="land"):
    """All chunks from `source` are here: check whether they join the residents, then let them in or send them on."""

    source: str
    via: EdgeRecord | None
    rank: int
    checked: str = ""  # the last arrival that was found to join nobody
    joined: bool = False
    sync_all: bool = False  # the group's standing changed: everybody is told when all have landed


class StandJob(Struct, frozen=True, array_like=True, tag="stand"):
    """Work out the group's standing again, and tell everybody if it changed."""


class SyncJob(Struct, frozen=True, array_like=True, tag="sync"):
    """Tell all members where they are and how the group stands, from the vertex after `after` on."""

    after: str = ""


Job = MoveJob | LandJob | StandJob | SyncJob


class GroupRow(Struct, frozen=True, array_like=True):
    """Table `groups`, by group key."""

    rank: int = 0
    size: int = 0
    eldest: str = ""
    standing: Standing | None = None
    arriving: int = 0  # transfers of which some chunks are here
    jobs: tuple[Job, ...] = ()  # work that is cut; what comes meanwhile is deferred
    deferred_first: int = 0
    deferred_next: int = 0

    @property
    def is_busy(self) -> bool:
        return bool(self.jobs) or self.deferred_first < self.deferred_next


class TokenRow(Struct, frozen=True, array_like=True):
    """Table `tokens`, by place and vertex. The counter grows with each move and each change of standing."""

    counter: int
    pass_from: float | None = None  # an operator's word, of the eldest it counts


class EdgeRow(Struct, frozen=True, array_like=True):
    """Table `edges`, by place and two vertices, in both directions. If one of the two is no token here, a half-edge."""

    similarity: float


class MarkRow(Struct, frozen=True, array_like=True):
    """Table `departures`, by group, destination and vertex: tokens of a piece that moves."""


class ArrivalRow(Struct, frozen=True, array_like=True):
    """Table `arrivals`, by group and source: how many tokens of a transfer are here, kept at a place of their own."""

    size: int


class DeferredRow(Struct, frozen=True, array_like=True):
    """Table `deferred`, by group and number: a message that waits for work that is cut."""

    message: Create | Deliver | Transfer
