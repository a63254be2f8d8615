"""The rows of `groups`."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.groups import Create, Deliver, EdgeRecord, Transfer
from dustream.schemas.pages import Standing


class MoveJob(Struct, frozen=True, array_like=True, tag="move"):
    """Send all memberships stored at `place` to another group."""

    place: str
    destination: str
    via: EdgeRecord | None
    rank: int
    fresh: bool
    started: bool = False


class LandJob(Struct, frozen=True, array_like=True, tag="land"):
    """All chunks from `source` are here: admit them if an edge connects them to the residents, else move them on."""

    source: str
    via: EdgeRecord | None
    rank: int
    checked: str = ""  # arrivals up to this one have no edge to a resident
    joined: bool = False
    sync_all: bool = False  # the group's standing changed: all members are notified after the last arrival


class UnlinkJob(Struct, frozen=True, array_like=True, tag="unlink"):
    """A vertex has left: delete its edges and start a search at each neighbour in this group."""

    vertex: str
    seeds: int = 0
    after: str = ""  # edges up to this other end are deleted; a scan from the start would cross their tombstones


class SearchJob(Struct, frozen=True, array_like=True, tag="search"):
    """Find the pieces that the departed vertex connected, all but the largest."""

    searching: int  # searches neither finished nor merged into another
    turn: int = -1  # the search whose turn it was last
    largest: int = -1  # the largest finished search
    largest_size: int = 0


class SplitJob(Struct, frozen=True, array_like=True, tag="split"):
    """Move every piece to a fresh key, except that of the search `staying`."""

    staying: int
    after: str = ""  # vertices up to this one are processed


class ClearJob(Struct, frozen=True, array_like=True, tag="clear"):
    """Delete the rows that the searches left."""


class StandJob(Struct, frozen=True, array_like=True, tag="stand"):
    """Recompute the group's standing and notify all members if it changed."""


class SyncJob(Struct, frozen=True, array_like=True, tag="sync"):
    """Notify all members after `after` of their owner and the group's standing."""

    after: str = ""


Job = MoveJob | LandJob | UnlinkJob | SearchJob | SplitJob | ClearJob | StandJob | SyncJob


class GroupRow(Struct, frozen=True, array_like=True):
    """Table `groups`, by group key."""

    rank: int = 0
    size: int = 0
    eldest: str = ""
    standing: Standing | None = None
    arriving: int = 0  # transfers of which some chunks have arrived
    jobs: tuple[Job, ...] = ()  # unfinished work; messages are deferred until it is done
    deferred_first: int = 0
    deferred_next: int = 0

    @property
    def is_busy(self) -> bool:
        return bool(self.jobs) or self.deferred_first < self.deferred_next


class MembershipRow(Struct, frozen=True, array_like=True):
    """Table `memberships`, by place and vertex. The counter grows with each move and each change of standing."""

    counter: int
    pass_from: float | None = None  # an operator's decision; only that of the eldest counts


class EdgeRow(Struct, frozen=True, array_like=True):
    """Table `edges`, by place and two vertices, in both directions. One vertex of a half-edge is in another group."""

    similarity: float


class SearchRow(Struct, frozen=True, array_like=True):
    """Table `searches`, by group and number: one search for a piece of a group that may split (searches.py)."""

    # The piece, until it is merged into another search
    current: int  # the search whose queue is being processed
    tail: int  # the last of the chained queues
    eldest: str
    size: int = 0
    parent: int = -1  # the search that this one was merged into
    destination: str = ""  # the group key that the piece moves to
    moved: int = 0  # memberships moved so far
    # Its own queue
    queued: int = 0
    expanded: int = 0
    edge_after: str = ""  # edges of the current vertex up to this one are followed
    following: int = -1  # the search whose queue comes next


class ReachedRow(Struct, frozen=True, array_like=True):
    """Table `reached`, by group and vertex: the search that reached it first."""

    search: int


class FrontierRow(Struct, frozen=True, array_like=True):
    """Table `frontier`, by group, search and position in its queue."""

    vertex: str


class MarkRow(Struct, frozen=True, array_like=True):
    """Table `searching`, by group and number: an unfinished search."""


class ArrivalRow(Struct, frozen=True, array_like=True):
    """Table `arrivals`, by group and source: memberships of a transfer that have arrived, at a place of their own."""

    size: int


class DeferredRow(Struct, frozen=True, array_like=True):
    """Table `deferred`, by group and number: a message that waits until the group's jobs are done."""

    message: Create | Deliver | Transfer
