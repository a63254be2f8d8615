"""The input log of `tier2`, by explicit partition (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.signature import PageSignature


class StoreVertex(Struct, frozen=True, array_like=True, tag="store"):
    """A vertex comes to its home partition. `keys`: its place in the winner order of each market. `probes`: the other
    partitions that may hold a match."""

    vertex: str
    signature: PageSignature
    keys: tuple[bytes, ...]
    probes: tuple[int, ...]


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """A vertex stored at partition `home` asks who matches it here. `winner`: is it a winner at home, per market."""

    vertex: str
    home: int
    signature: PageSignature
    keys: tuple[bytes, ...]
    winner: tuple[bool, ...]


class Remove(Struct, frozen=True, array_like=True, tag="remove"):
    """A vertex leaves its home partition. `keep`: its content stays known under the vertex's name."""

    vertex: str
    keep: bool = False


class Keep(Struct, frozen=True, array_like=True, tag="keep"):
    """A former content of a URL, to be known under this name."""

    name: str
    signature: PageSignature


class Forget(Struct, frozen=True, array_like=True, tag="forget"):
    """A former content that nobody will ask for any more."""

    name: str


class Recall(Struct, frozen=True, array_like=True, tag="recall"):
    """This content, of a vertex or a former one, is what `asker` found at `version`: the answer of this number."""

    name: str
    asker: str
    version: int
    number: int


class Unprobe(Struct, frozen=True, array_like=True, tag="unprobe"):
    """A vertex that probed here has left its home."""

    vertex: str


class Rekey(Struct, frozen=True, array_like=True, tag="rekey"):
    """A vertex has another place in the winner order (its popularity changed). To its home, which passes it on."""

    vertex: str
    keys: tuple[bytes, ...]
    winner: tuple[bool, ...] | None = None


class Cover(Struct, frozen=True, array_like=True):
    """A winner that matches a worse vertex: its key in the winner order, which names it, and how similar they are."""

    key: bytes
    similarity: float
    exact: bool


class Win(Struct, frozen=True, array_like=True, tag="win"):
    """Home says whether a visitor is a winner."""

    vertex: str
    market: int
    winner: bool


class Covered(Struct, frozen=True, array_like=True, tag="covered"):
    """A partition says which winner covers an entry there."""

    vertex: str
    market: int
    cover: Cover | None


class StarUpdates(Struct, frozen=True, array_like=True, tag="news"):
    """What one step of partition `source` has to say about stars, in winner order; settled at once by the receiver."""

    source: int
    items: tuple[Win | Covered, ...]


class ContinueTier2(Struct, frozen=True, array_like=True, tag="continue"):
    """To oneself: go on with the work that was cut."""

    partition: int


class Propose(Struct, frozen=True, array_like=True, tag="propose"):
    """Pairs of a page at home here and a container, by their ids, that share so many more terms than before, or fewer.
    Columns of little-endian int64."""

    pages: bytes
    containers: bytes
    changes: bytes


class Weigh(Struct, frozen=True, array_like=True, tag="weigh"):
    """Which share of page `page` (its id) do these containers (serials here) have? The page's shingles and feature
    code."""

    page: int
    containers: tuple[int, ...]
    shingles: bytes
    code: str


class Weight(Struct, frozen=True, array_like=True):
    """The share of a page that a container (its id) has. If it is enough: that of the page's feature code, if both have
    one; which vertex the container is, and how it stands: its places in the orders, the markets in which it is kept."""

    container: int
    share: float
    code_share: float | None = None
    vertex: str = ""
    orders: tuple[bytes, ...] = ()
    kept: int = 0


class Weighed(Struct, frozen=True, array_like=True, tag="weighed"):
    """The answer about `page` (its serial here)."""

    page: int
    weights: tuple[Weight, ...]


class Stands(Struct, frozen=True, array_like=True, tag="stands"):
    """A container that these pages (serials here) depend on stands otherwise than before."""

    pages: tuple[int, ...]
    container: int
    orders: tuple[bytes, ...]
    kept: int


class Release(Struct, frozen=True, array_like=True, tag="release"):
    """A page (its id) depends on a container (its serial here) no more."""

    container: int
    page: int


class ContainmentDropped(Struct, frozen=True, array_like=True, tag="containment_dropped"):
    """From `pages`: the markets, bit by bit, in which a vertex is dropped because it is contained in another."""

    vertex: str
    markets: int


Tier2Message = (
    StoreVertex
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
