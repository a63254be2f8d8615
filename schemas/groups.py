"""The input log of `groups`, by group key (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.pages import Request


class Create(Struct, frozen=True, array_like=True, tag="create"):
    """A vertex needs a group of its own: this is the first request for it."""

    group: str
    vertex: str
    request: Request


class Deliver(Struct, frozen=True, array_like=True, tag="deliver"):
    """A request for a vertex that this group holds, as far as the sender knew when its counter was `used`."""

    group: str
    vertex: str
    used: int
    request: Request


class TokenRecord(Struct, frozen=True, array_like=True):
    """A token on its way."""

    vertex: str
    counter: int
    pass_from: float | None = None


class EdgeRecord(Struct, frozen=True, array_like=True):
    """An edge of a token on its way; the other end may be elsewhere."""

    vertex: str
    other: str
    similarity: float


class Transfer(Struct, frozen=True, array_like=True, tag="transfer"):
    """Tokens with their edges, in chunks. A token with many edges is in several chunks of one transfer.

    `fresh`: the group is new and nobody else knows its key. `via`: the edge that caused the move (the end that moves,
    the end that was here), and its similarity.
    """

    group: str
    source: str
    first: bool
    last: bool
    tokens: tuple[TokenRecord, ...]
    edges: tuple[EdgeRecord, ...]
    via: EdgeRecord | None
    rank: int
    fresh: bool


class ContinueGroup(Struct, frozen=True, array_like=True, tag="continue"):
    """To oneself: go on with the work that was cut."""

    group: str


GroupsMessage = Create | Deliver | Transfer | ContinueGroup
