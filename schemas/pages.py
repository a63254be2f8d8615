"""The input log of `pages`, by URL (internal, msgpack)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dustream.schemas.signature import PageSignature

Canonical = Literal["self", "none", "other"]
"""What a page's rel=canonical link says about the page (core/urls/canonical.py)."""


class Crawl(Struct, frozen=True, array_like=True, tag="crawl", gc=False):
    """A fetch, checked and signed. `version` is fetched_at in milliseconds.

    content: `signature` is the page. redirect: `target` is where it leads, `via` how (http, meta).
    revisit: the page has the content that `target` had then. gone: the page is dead (404, 410).
    seen: fetched again and unchanged (304, revisit of itself); only the version moves.
    `origin`: where the event stands in its input (written and read by the engine), so that it can be read again.
    `canonical`: of content only. `digest`: of the payload, where the input names it. `truncated`: only the beginning of
    the page was read.
    """

    url: str
    version: int
    kind: Literal["content", "redirect", "revisit", "gone", "seen"]
    signature: PageSignature | None = None
    target: str | None = None
    via: str = "http"
    popularity: float | None = None
    origin: str = ""
    canonical: Canonical = "none"
    digest: str = ""
    truncated: bool = False


class Consult(Struct, frozen=True, array_like=True, tag="consult"):
    """Is the page fetched still like its representative `url`? The fetch travels with the question."""

    url: str
    crawl: Crawl


# What travels between groups by way of a vertex's home in `pages`. `vertex` names of all messages:
# core/vertex.py.


class Edge(Struct, frozen=True, array_like=True, tag="edge"):
    """The vertex addressed matches `other` (similarity at least the threshold)."""

    other: str
    similarity: float


class Join(Struct, frozen=True, array_like=True, tag="join"):
    """The pending join of an edge: `other`, in `group` of `rank`, matches the vertex addressed; one of the two groups
    must move."""

    other: str
    rank: int
    group: str
    similarity: float


class Dead(Struct, frozen=True, array_like=True, tag="dead"):
    """`other` is no more: the half-edge to it goes."""

    other: str


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    """The vertex addressed is no more: its token and edges go."""


class Hold(Struct, frozen=True, array_like=True, tag="hold"):
    """An operator's word on the group whose eldest member is addressed, as in Decision."""

    pass_from: float | None


class Enter(Struct, frozen=True, array_like=True, tag="enter"):
    """The token of `other`, which has no group yet, and the edge that brings it: it matches `via`. The vertex addressed
    is `via`; or, `hops` further, the one to whose group `via` is itself on its way."""

    other: str
    via: str
    similarity: float
    pass_from: float | None
    hops: int = 0


Request = Edge | Join | Dead | Leave | Hold | Enter


class Standing(Struct, frozen=True, array_like=True, gc=False):
    """What a group tells its members about itself. `group` is the URL of its eldest member, the visible id."""

    group: str
    alone: bool
    held: bool = False
    pass_from: float = 0.0  # an operator split the group: who is less similar to its winner is kept


class Verdict(Struct, frozen=True, array_like=True, gc=False):
    """A page's winner in one market, and its exact similarity to it. A winner's winner is itself. `contained`: the
    winner has the page within it: the similarity is the share of the page's shingles that it has, and `code_share` that
    of its feature code in one piece, if both have one."""

    winner: str
    similarity: float = 1.0
    exact: bool = True
    contained: bool = False
    code_share: float | None = None


class Consulted(Struct, frozen=True, array_like=True, tag="consulted"):
    """The answer: the verdict on the fetch, None if it does not match or needed no answer."""

    representative: str
    crawl: Crawl
    verdict: Verdict | None


class Resolution(Struct, frozen=True, array_like=True):
    """Where a URL leads: the URLs on the way, itself first, and what is known of the last one."""

    path: tuple[str, ...]
    end: Literal["content", "gone", "unknown"]
    standing: Standing | None = None
    verdicts: tuple[Verdict, ...] = ()


class Route(Struct, frozen=True, array_like=True, tag="route"):
    """A request for whichever group holds the vertex's token now."""

    vertex: str
    request: Request


class Bounce(Struct, frozen=True, array_like=True, tag="bounce"):
    """The group asked with the token's counter at `used` does not hold the vertex."""

    vertex: str
    used: int
    request: Request


class Returned(Struct, frozen=True, array_like=True, tag="returned"):
    """The vertex's token comes home: whom it matches was not where it went. Edge: that one is elsewhere; Dead: it is no
    more."""

    vertex: str
    request: Request


class Sync(Struct, frozen=True, array_like=True, tag="sync"):
    """Where a token is, and its group's standing. Of two, the one with the higher counter is true."""

    vertex: str
    counter: int
    owner: str
    standing: Standing
    size: int = 1  # of the group when this was said, for alarms


class Placed(Struct, frozen=True, array_like=True, tag="placed"):
    """What the vertex's tier-2 home found when it stored it: per market (by its place in the settings) the verdict if
    it is not its own winner, and one edge to each component it matches there."""

    vertex: str
    verdicts: tuple[tuple[int, Verdict], ...] = ()
    edges: tuple[Edge, ...] = ()


class Star(Struct, frozen=True, array_like=True, tag="star"):
    """A later verdict of the vertex's tier-2 home in one market (by its place in the settings)."""

    vertex: str
    market: int
    verdict: Verdict


class Contained(Struct, frozen=True, array_like=True, tag="contained"):
    """In one market (by its place in the settings): the best page that contains the vertex and is kept; None: none."""

    vertex: str
    market: int
    verdict: Verdict | None


class Left(Struct, frozen=True, array_like=True, tag="left"):
    """A group has let go of the vertex."""

    vertex: str


class Follow(Struct, frozen=True, array_like=True, tag="follow"):
    """`follower` redirects to `url` since `epoch`."""

    url: str
    follower: str
    epoch: int


class Unfollow(Struct, frozen=True, array_like=True, tag="unfollow"):
    """`follower` redirects elsewhere now."""

    url: str
    follower: str
    epoch: int


class Resolved(Struct, frozen=True, array_like=True, tag="resolved"):
    """What the target of `url`'s redirect of `epoch` resolves to; None if the way is cut (a loop, or too many hops)."""

    url: str
    epoch: int
    resolution: Resolution | None


class Ask(Struct, frozen=True, array_like=True, tag="ask"):
    """`asker` revisited `url` at `version` and found the content that `url` had then; `digest` names its payload."""

    url: str
    asker: str
    version: int
    digest: str = ""


class Unask(Struct, frozen=True, array_like=True, tag="unask"):
    """`asker` is something else now than what its revisit at `version` found."""

    url: str
    asker: str
    version: int


class Answer(Struct, frozen=True, array_like=True, tag="answer"):
    """The content that `url` found when it revisited another page at `version`; None: it is not known. Of two answers
    the one with the higher number is true."""

    url: str
    version: int
    number: int
    signature: PageSignature | None = None


class AnswerOn(Struct, frozen=True, array_like=True, tag="answer_on"):
    """To oneself: go on answering those who asked for contents of `url`."""

    url: str


class Spread(Struct, frozen=True, array_like=True, tag="spread"):
    """To oneself: go on telling `url`'s followers what it resolves to."""

    url: str


class Unpark(Struct, frozen=True, array_like=True, tag="unpark"):
    """To oneself: go on with the requests that were parked for a vertex."""

    vertex: str


class Decision(Struct, frozen=True, array_like=True, tag="decision"):
    """An operator's word on the group whose id is `url`, or on the site of `url`. Of two the later one counts; of two
    of one time the more careful one, so that it does not matter which came first.

    Duplicates at least `pass_from` similar to their winner pass whatever the circuit breaker says, and the others are
    kept (0: all pass). None: the circuit breaker decides, as if nothing had been said. A site only knows 0 and None.
    """

    url: str
    version: int
    on: Literal["group", "site"]
    pass_from: float | None


class SiteHeld(Struct, frozen=True, array_like=True, tag="site_held"):
    """To every partition: the markets (bit by bit) in which the site's pages with winners elsewhere are held."""

    site: str
    markets: int


class ContinueSite(Struct, frozen=True, array_like=True, tag="continue_site"):
    """To oneself: go on telling the pages of a site whether they are held."""

    site: str


PagesMessage = (
    Crawl
    | Consult
    | Consulted
    | Route
    | Bounce
    | Returned
    | Sync
    | Placed
    | Star
    | Contained
    | Left
    | Follow
    | Unfollow
    | Resolved
    | Ask
    | Unask
    | Answer
    | AnswerOn
    | Spread
    | Unpark
    | Decision
    | SiteHeld
    | ContinueSite
)
