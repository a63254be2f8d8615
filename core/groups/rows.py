"""The rows of `groups`."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.groups import Create, Deliver, EdgeRecord, Transfer
from dustream.schemas.pages import Standing


class MoveJob(Struct, frozen=True, array_like=True, tag="move"):
    """Send all tokens kept at `place` to another group."""

    place: str
    destination: str
    via: EdgeRecord | None
    rank: int
    fresh: bool
    started: bool = False


class LandJob(Struct, frozen=True, array_like=True, tag="land"):
    """All chunks from `source` are here: check whether they join the residents, then let them in or send them on."""

    source: str
    via: EdgeRecord | None
    rank: int
    checked: str = ""  # the last arrival that was found to join nobody
    joined: bool = False
    sync_all: bool = False  # the group's standing changed: everybody is told when all have landed


class UnlinkJob(Struct, frozen=True, array_like=True, tag="unlink"):
    """A vertex has left: take its edges away, and start a search at each neighbour that is here."""

    vertex: str
    seeds: int = 0
    after: str = ""  # edges up to this other end are gone; to begin at the first again would lead over deleted rows


class SearchJob(Struct, frozen=True, array_like=True, tag="search"):
    """Find the pieces that hung on a vertex that has left, all but the largest."""

    searching: int  # searches that are not finished and have met no larger one
    turn: int = -1  # the search whose turn it was last
    largest: int = -1  # of the finished ones
    largest_size: int = 0


class SplitJob(Struct, frozen=True, array_like=True, tag="split"):
    """Every piece but that of one search moves to a fresh key."""

    staying: int
    after: str = ""  # vertices up to this one are done


class ClearJob(Struct, frozen=True, array_like=True, tag="clear"):
    """Delete what the searches have left behind."""


class StandJob(Struct, frozen=True, array_like=True, tag="stand"):
    """Work out the group's standing again, and tell everybody if it changed."""


class SyncJob(Struct, frozen=True, array_like=True, tag="sync"):
    """Tell all members where they are and how the group stands, from the vertex after `after` on."""

    after: str = ""


Job = MoveJob | LandJob | UnlinkJob | SearchJob | SplitJob | ClearJob | StandJob | SyncJob


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


class SearchRow(Struct, frozen=True, array_like=True):
    """Table `searches`, by group and number: a search for what hung on a vertex that has left (searches.py)."""

    # the piece, as long as it has not joined another search
    current: int  # the search whose queue is worked off
    tail: int  # the last one of the chained queues
    eldest: str
    size: int = 0
    parent: int = -1  # the search that this one has joined
    destination: str = ""  # where the piece moves
    moved: int = 0  # tokens that are gone already
    # its own queue
    queued: int = 0
    expanded: int = 0
    edge_after: str = ""  # of the vertex at hand: the edges up to this one are done
    following: int = -1  # the search whose queue comes next


class ReachedRow(Struct, frozen=True, array_like=True):
    """Table `reached`, by group and vertex: the search that came there first."""

    search: int


class FrontierRow(Struct, frozen=True, array_like=True):
    """Table `frontier`, by group, search and place in its queue."""

    vertex: str


class MarkRow(Struct, frozen=True, array_like=True):
    """Table `searching`, by group and number: a search that takes turns."""


class ArrivalRow(Struct, frozen=True, array_like=True):
    """Table `arrivals`, by group and source: how many tokens of a transfer are here, kept at a place of their own."""

    size: int


class DeferredRow(Struct, frozen=True, array_like=True):
    """Table `deferred`, by group and number: a message that waits for work that is cut."""

    message: Create | Deliver | Transfer
