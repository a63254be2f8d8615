"""The input log of `pages`, by URL (internal, msgpack)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dustream.schemas.rules import Rewrite, RuleVerdict
from dustream.schemas.signature import PageSignature

CanonicalClass = Literal["self", "none", "other"]
"""The class of a page's rel=canonical link (core/urls/canonical.py)."""


class Crawl(Struct, frozen=True, array_like=True, tag="crawl", gc=False):
    """A fetch, checked and signed. `version` is fetched_at in milliseconds.

    content: `signature` is the page. redirect: `target` is its target, `via` its kind (http, meta).
    revisit: the page has the content that `target` had then. gone: the page is dead (404, 410).
    seen: fetched again and unchanged (304, revisit of itself); only the version advances.
    `origin`: the position of the event in its input, from which the engine can read it again. `canonical`: of content
    only: `self`, `none`, or the page that it names. `digest`: of the payload, if the input has it. `truncated`: only
    the beginning of the page was read. `size`: of the page in bytes (decoded text: in UTF-8); 0: not known.
    """

    url: str
    version: int
    kind: Literal["content", "redirect", "revisit", "gone", "seen"]
    signature: PageSignature | None = None
    target: str | None = None
    via: str = "http"
    popularity: float | None = None
    origin: str = ""
    canonical: str = "none"
    digest: str = ""
    truncated: bool = False
    size: int = 0


class Consult(Struct, frozen=True, array_like=True, tag="consult"):
    """Asks the representative `url` whether the fetched page still matches it. The fetch is sent along."""

    url: str
    crawl: Crawl


# Requests to the group of a vertex, routed by the vertex's home in `pages`. Names of vertices: core/vertex.py.


class Edge(Struct, frozen=True, array_like=True, tag="edge"):
    """The vertex addressed matches `other` (similarity at least the threshold, or an operator decided so)."""

    other: str
    similarity: float


class Join(Struct, frozen=True, array_like=True, tag="join"):
    """The pending join of an edge: `other`, in `group` with `rank`, matches the vertex addressed. One of the two groups
    must move."""

    other: str
    rank: int
    group: str
    similarity: float


class Dead(Struct, frozen=True, array_like=True, tag="dead"):
    """`other` is dead: the half-edge to it is deleted."""

    other: str


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    """The vertex addressed is dead: its membership and edges are deleted."""


class Hold(Struct, frozen=True, array_like=True, tag="hold"):
    """An operator's decision on the group whose eldest member is addressed; `pass_from` as in Decision."""

    pass_from: float | None


class Enter(Struct, frozen=True, array_like=True, tag="enter"):
    """The membership of `other`, which has no group yet, enters the group of `via`, which it matches. The vertex
    addressed is `via`; or, after `hops` hops, the vertex whose group `via` is itself entering."""

    other: str
    via: str
    similarity: float
    pass_from: float | None
    hops: int = 0


Request = Edge | Join | Dead | Leave | Hold | Enter


class Standing(Struct, frozen=True, array_like=True, gc=False):
    """The state of a group as its members see it. `group` is the URL of its eldest member, the public id."""

    group: str
    alone: bool
    held: bool = False
    pass_from: float = 0.0  # an operator split the group: pages less similar to their winner are kept


class Verdict(Struct, frozen=True, array_like=True, gc=False):
    """A page's winner in one market, and its exact similarity to it. A winner's winner is itself. `contained`: the
    winner contains the page; the similarity is the share of the page's shingles that the winner has, and `code_share`
    the share of its feature code that the winner's has in one piece, if both have a code."""

    winner: str
    similarity: float = 1.0
    exact: bool = True
    contained: bool = False
    code_share: float | None = None
    decided: bool = False  # an operator decided that the two are the same


class Consulted(Struct, frozen=True, array_like=True, tag="consulted"):
    """The answer to Consult: the verdict on the fetch, None if it does not match or needed no verdict."""

    representative: str
    crawl: Crawl
    verdict: Verdict | None


class Resolution(Struct, frozen=True, array_like=True):
    """The end of a redirect path: the URLs on the path, the page itself first, and the state of the last one."""

    path: tuple[str, ...]
    end: Literal["content", "gone", "unknown"]
    standing: Standing | None = None
    verdicts: tuple[Verdict, ...] = ()


class Route(Struct, frozen=True, array_like=True, tag="route"):
    """A request for the group that holds the vertex's membership now."""

    vertex: str
    request: Request


class Bounce(Struct, frozen=True, array_like=True, tag="bounce"):
    """A request returned by a group that does not hold the vertex; it was sent at the membership's counter `used`."""

    vertex: str
    used: int
    request: Request


class Returned(Struct, frozen=True, array_like=True, tag="returned"):
    """The vertex's membership returns to its home: it could not enter the group. Edge: the vertex it matches is in
    another group; Dead: that vertex is dead."""

    vertex: str
    request: Request


class Sync(Struct, frozen=True, array_like=True, tag="sync"):
    """The owner of a membership and its group's standing. The Sync with the highest counter is current."""

    vertex: str
    counter: int
    owner: str
    standing: Standing
    size: int = 1  # of the group at that time, for alarms


class Placed(Struct, frozen=True, array_like=True, tag="placed"):
    """The result of storing the vertex in its tier-2 home: per market (by its index in the settings) the verdict if the
    vertex is not its own winner, and one edge to each component that it matches there."""

    vertex: str
    verdicts: tuple[tuple[int, Verdict], ...] = ()
    edges: tuple[Edge, ...] = ()


class Star(Struct, frozen=True, array_like=True, tag="star"):
    """A later verdict of the vertex's tier-2 home in one market (by its index in the settings)."""

    vertex: str
    market: int
    verdict: Verdict


class Contained(Struct, frozen=True, array_like=True, tag="contained"):
    """In one market (by its index in the settings): the best kept page that contains the vertex; None if none does."""

    vertex: str
    market: int
    verdict: Verdict | None


class Left(Struct, frozen=True, array_like=True, tag="left"):
    """A group has released the vertex."""

    vertex: str


class Follow(Struct, frozen=True, array_like=True, tag="follow"):
    """`follower` redirects to `url` since `epoch`."""

    url: str
    follower: str
    epoch: int


class Unfollow(Struct, frozen=True, array_like=True, tag="unfollow"):
    """`follower` no longer redirects to `url`."""

    url: str
    follower: str
    epoch: int


class Resolved(Struct, frozen=True, array_like=True, tag="resolved"):
    """The resolution of the target of `url`'s redirect of `epoch`; None if the path is cut (a loop, too many hops)."""

    url: str
    epoch: int
    resolution: Resolution | None


class Ask(Struct, frozen=True, array_like=True, tag="ask"):
    """`asker` revisited `url` at `version` and found the content that `url` had then, with payload `digest`."""

    url: str
    asker: str
    version: int
    digest: str = ""


class Unask(Struct, frozen=True, array_like=True, tag="unask"):
    """`asker` no longer has the content that its revisit at `version` found."""

    url: str
    asker: str
    version: int


class Answer(Struct, frozen=True, array_like=True, tag="answer"):
    """The content that `url` found when it revisited another page at `version`; None if it is not known. The answer
    with the highest number is current."""

    url: str
    version: int
    number: int
    signature: PageSignature | None = None


class AnswerOn(Struct, frozen=True, array_like=True, tag="answer_on"):
    """To the same task: continue answering the pages that asked for contents of `url`."""

    url: str


class Spread(Struct, frozen=True, array_like=True, tag="spread"):
    """To the same task: continue notifying `url`'s followers of its resolution."""

    url: str


class Unpark(Struct, frozen=True, array_like=True, tag="unpark"):
    """To the same task: continue with the requests parked for a vertex."""

    vertex: str


class Decision(Struct, frozen=True, array_like=True, tag="decision"):
    """An operator's decision on the group whose id is `url`, or on the site of `url`. The later decision counts; of two
    with one timestamp the more careful one, so their order of arrival does not matter.

    Duplicates at least `pass_from` similar to their winner pass whatever the circuit breaker decides, and the others
    are kept (0: all pass). None: the circuit breaker decides, as without a decision. For a site only 0 and None are
    used.
    """

    url: str
    version: int
    on: Literal["group", "site"]
    pass_from: float | None


class PageDecision(Struct, frozen=True, array_like=True, tag="page_decision"):
    """An operator's decision that the page is kept, whatever it matches; not `kept`: the decision is withdrawn. The
    later decision counts; of two with one timestamp, `kept`."""

    url: str
    version: int
    kept: bool


class PairDecision(Struct, frozen=True, array_like=True, tag="pair_decision"):
    """An operator's decision that the pages `url` and `other` are the same; not `same`: the decision is withdrawn. The
    later decision counts; of two with one timestamp, the withdrawal. The page that gets it first passes it on to the
    other."""

    url: str
    version: int
    other: str
    same: bool


class RuleDecision(Struct, frozen=True, array_like=True, tag="rule_decision"):
    """An operator's decision on a rule of the site of `url`; None: it is withdrawn."""

    url: str
    version: int
    rewrite: Rewrite
    verdict: RuleVerdict | None


AnyDecision = Decision | PageDecision | PairDecision | RuleDecision


class SiteHeld(Struct, frozen=True, array_like=True, tag="site_held"):
    """To every partition: the markets (bit by bit) in which the site's lost pages are held."""

    site: str
    markets: int


class ContinueSite(Struct, frozen=True, array_like=True, tag="continue_site"):
    """To the same task: continue updating the pages of a site that is held or released."""

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
    | PageDecision
    | PairDecision
    | RuleDecision
    | SiteHeld
    | ContinueSite
)
