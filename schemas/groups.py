"""The input log of `groups`, by group key (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.pages import Request


class Create(Struct, frozen=True, array_like=True, tag="create"):
    """Creates a group for a vertex; `request` is the first request for it."""

    group: str
    vertex: str
    request: Request


class Deliver(Struct, frozen=True, array_like=True, tag="deliver"):
    """A request for a vertex that the group held when the sender knew its membership's counter as `used`."""

    group: str
    vertex: str
    used: int
    request: Request


class MembershipRecord(Struct, frozen=True, array_like=True):
    """A membership in a transfer."""

    vertex: str
    counter: int
    pass_from: float | None = None


class EdgeRecord(Struct, frozen=True, array_like=True):
    """An edge of a transferred membership; the other end may be in another group."""

    vertex: str
    other: str
    similarity: float


class Transfer(Struct, frozen=True, array_like=True, tag="transfer"):
    """Memberships with their edges, in chunks. A membership with many edges is in several chunks of one transfer.

    `fresh`: the group is new and no other group knows its key. `via`: the edge that caused the move (the end that
    moves, the end in the receiving group), and its similarity.
    """

    group: str
    source: str
    first: bool
    last: bool
    memberships: tuple[MembershipRecord, ...]
    edges: tuple[EdgeRecord, ...]
    via: EdgeRecord | None
    rank: int
    fresh: bool


class ContinueGroup(Struct, frozen=True, array_like=True, tag="continue"):
    """To the same task: continue the unfinished work of the group."""

    group: str


GroupsMessage = Create | Deliver | Transfer | ContinueGroup
