"""The input log of `tier2`, by explicit partition (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.signature import PageSignature


class StoreVertex(Struct, frozen=True, array_like=True, tag="store"):
    """Stores a vertex in its home partition. `keys`: its winner key in each market. `probes`: the other partitions that
    may hold a match. `same`: the pages that an operator decided to be the same as this one."""

    vertex: str
    signature: PageSignature
    keys: tuple[bytes, ...]
    probes: tuple[int, ...]
    same: tuple[str, ...] = ()


class Renew(Struct, frozen=True, array_like=True, tag="renew"):
    """Replaces a vertex by another one with the same content: Remove and StoreVertex in one. `probes` None: those of
    the vertex replaced."""

    vertex: str
    replaced: str
    keep: bool  # the content stays known under the name of the vertex replaced
    keys: tuple[bytes, ...]
    probes: tuple[int, ...] | None
    same: tuple[str, ...]


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """Searches the partition for matches of a vertex stored at `home`. `winner`: whether it wins at home, per
    market."""

    vertex: str
    home: int
    signature: PageSignature
    keys: tuple[bytes, ...]
    winner: tuple[bool, ...]
    same: tuple[str, ...] = ()


class Remove(Struct, frozen=True, array_like=True, tag="remove"):
    """Removes a vertex from its home partition. `keep`: its content stays known under the vertex's name."""

    vertex: str
    keep: bool = False


class Keep(Struct, frozen=True, array_like=True, tag="keep"):
    """Stores a former content of a URL under this name."""

    name: str
    signature: PageSignature


class Forget(Struct, frozen=True, array_like=True, tag="forget"):
    """Deletes a former content."""

    name: str


class Recall(Struct, frozen=True, array_like=True, tag="recall"):
    """Asks to send this content, of a vertex or a former one, to `asker` as its answer of this number."""

    name: str
    asker: str
    version: int
    number: int


class Unprobe(Struct, frozen=True, array_like=True, tag="unprobe"):
    """Removes a vertex that probed here and has left its home."""

    vertex: str


class Rekey(Struct, frozen=True, array_like=True, tag="rekey"):
    """New winner keys of a vertex (its popularity or canonical link changed). Sent to its home, which forwards them."""

    vertex: str
    keys: tuple[bytes, ...]
    winner: tuple[bool, ...] | None = None


class Cover(Struct, frozen=True, array_like=True):
    """A winner that matches a worse vertex: its winner key, which includes its name, and their similarity."""

    key: bytes
    similarity: float
    exact: bool
    decided: bool = False  # an operator decided that the two are the same


class Win(Struct, frozen=True, array_like=True, tag="win"):
    """From its home: whether a visitor is a winner."""

    vertex: str
    market: int
    winner: bool


class Covered(Struct, frozen=True, array_like=True, tag="covered"):
    """From a partition: which winner covers an entry there."""

    vertex: str
    market: int
    cover: Cover | None


class StarUpdates(Struct, frozen=True, array_like=True, tag="news"):
    """The changes of stars in one step of partition `source`, in winner order; the receiver settles them at once."""

    source: int
    items: tuple[Win | Covered, ...]


class ContinueTier2(Struct, frozen=True, array_like=True, tag="continue"):
    """To the same task: continue unfinished work."""

    partition: int


class Propose(Struct, frozen=True, array_like=True, tag="propose"):
    """Pairs of a page stored here and a container, by their ids, with the change in the number of terms they share.
    Columns of little-endian int64."""

    pages: bytes
    containers: bytes
    changes: bytes


class Weigh(Struct, frozen=True, array_like=True, tag="weigh"):
    """Asks which share of page `page` (its id) these containers (serials here) have. With the page's shingles and
    feature code."""

    page: int
    containers: tuple[int, ...]
    shingles: bytes
    code: str


class Weight(Struct, frozen=True, array_like=True):
    """The share of a page that a container (its id) has, 0 if it is too small. If it is large enough, also the share of
    the page's feature code, if both have one; the container's vertex; its keys in the orders; and the markets in which
    it is kept."""

    container: int
    share: float
    code_share: float | None = None
    vertex: str = ""
    orders: tuple[bytes, ...] = ()
    kept: int = 0


class Weighed(Struct, frozen=True, array_like=True, tag="weighed"):
    """The answer to Weigh about `page` (its serial here)."""

    page: int
    weights: tuple[Weight, ...]


class Stands(Struct, frozen=True, array_like=True, tag="stands"):
    """The order keys or kept markets of a container changed, on which these pages (serials here) depend."""

    pages: tuple[int, ...]
    container: int
    orders: tuple[bytes, ...]
    kept: int


class Release(Struct, frozen=True, array_like=True, tag="release"):
    """A page (its id) no longer depends on a container (its serial here)."""

    container: int
    page: int


class ContainmentDropped(Struct, frozen=True, array_like=True, tag="containment_dropped"):
    """From `pages`: the markets, bit by bit, in which a vertex is dropped because it is contained in another."""

    vertex: str
    markets: int


Tier2Message = (
    StoreVertex
    | Renew
    | Probe
    | Remove
    | Keep
    | Forget
    | Recall
    | Unprobe
    | Rekey
    | StarUpdates
    | ContinueTier2
    | Propose
    | Weigh
    | Weighed
    | Stands
    | Release
    | ContainmentDropped
)
