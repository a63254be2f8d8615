"""The rows of `pages`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from dustream.core.vertex import content_name, vertex_name
from dustream.schemas.pages import Decision, Request, Resolution, Standing, Verdict

UNKNOWN_VERSION = -(1 << 62)  # of a URL that was never fetched


class PageRow(Struct, frozen=True, array_like=True, gc=False):
    """Table `pages`, by URL. Its status and what its followers resolve to are functions of this row.

    `version` is the last fetch. `found_at` is the last one that stated what the page is: a confirmation does not, and
    may come before the fetch it confirms. `unknown`: no content was fetched, or the content a revisit found is not
    known."""

    version: int
    first_seen_ms: int
    kind: Literal["unknown", "content", "redirect", "gone"] = "unknown"
    epoch: int = 0
    status_counter: int = 0
    follower_count: int = 0
    spread_after: str | None = None
    popularity: float | None = None
    canonical: str = "none"
    popularity_at: int = UNKNOWN_VERSION
    found_at: int = UNKNOWN_VERSION
    # content
    content_hash: bytes = b""
    home: int = 0
    owner: str | None = None  # the group that has the membership; None: no edge yet, so no group
    membership_counter: int = 0
    parked_count: int = 0
    standing: Standing | None = None
    verdicts: tuple[Verdict, ...] = ()
    group_size: int = 1  # as of the last Sync
    lost: int = 0  # markets (bit by bit) in which the winner is on another site
    site_held: int = 0  # those of them in which the site is held
    # own content: the first fetch that brought it, and the payload digests of the first and the last one
    first_at: int = 0
    first_digest: str = ""
    last_digest: str = ""
    anchored: bool = False  # the last content differs from the one in tier 2, which represents it
    # content or unknown: the page revisited by the fetch of `found_at`, answers received, contents stored in one epoch
    revisit: str = ""
    answers: int = 0
    turn: int = 0
    # pages that revisited this one; the last one answered while answering is under way
    asker_count: int = 0
    answers_after: str | None = None
    # redirect
    target: str = ""
    via: str = ""
    upstream: Resolution | None = None
    # every kind: the position of the fetch of `epoch` in its input
    origin: str = ""
    # fetches sent to a representative and not returned yet: which representative, and how many fetches
    consulted: str = ""
    consulted_count: int = 0
    # parked requests with a lower number are being routed, in steps
    unparking: int = 0
    # containment: by market, the page that contains this one; () if none does
    contained: tuple[Verdict | None, ...] = ()
    # no group yet: the membership is on its way into the group of this vertex
    entering: str = ""
    # a status is due but not published: tier 2 has not compared the new content yet, or the page is entering a group
    unsaid: bool = False
    # content: only the beginning of the page was read
    truncated: bool = False
    # content: bytes of the last one (0: not known), distinct shingles of the one in tier 2
    size: int = 0
    length: int = 0
    # every kind: an operator decided that the page is not a duplicate
    kept: bool = False
    # every kind: the pages that an operator decided to be the same as this one, ascending
    same: tuple[str, ...] = ()


def vertex_of(url: str, page: PageRow) -> str:
    """The name of a content page's vertex."""
    return vertex_name(page.first_seen_ms, url, page.epoch, page.turn)


def is_live(page: PageRow, vertex: str) -> bool:
    """Whether the vertex is the page's present content."""
    return page.kind == "content" and vertex[vertex.rindex(" ") + 1 :] == content_name(page.epoch, page.turn)


def same_vertex(before: PageRow, now: PageRow) -> bool:
    return before.epoch == now.epoch and before.turn == now.turn


def since_of(page: PageRow) -> int:
    """The time of the fetch that brought the page's present state."""
    if page.revisit:
        return page.found_at
    return page.first_seen_ms if page.kind == "unknown" else page.epoch


def bare(page: PageRow) -> PageRow:
    """The page without its state: the fields kept whatever it becomes."""
    return PageRow(
        page.version,
        page.first_seen_ms,
        status_counter=page.status_counter,
        follower_count=page.follower_count,
        spread_after=page.spread_after,
        popularity=page.popularity,
        popularity_at=page.popularity_at,
        found_at=page.found_at,
        asker_count=page.asker_count,
        answers_after=page.answers_after,
        consulted=page.consulted,
        consulted_count=page.consulted_count,
        kept=page.kept,
        same=page.same,
    )


class FollowerRow(Struct, frozen=True, array_like=True):
    """Table `followers`, by target and URL: a redirect and its epoch."""

    epoch: int


class DyingRow(Struct, frozen=True, array_like=True):
    """Table `dying`, by vertex: a dead vertex that its group has not released yet. `owner` is "" while the membership
    is on its way into a group not known yet."""

    owner: str
    membership_counter: int
    waiting: bool = False


class ParkedRow(Struct, frozen=True, array_like=True):
    """Table `parked`, by vertex and number: a request that waits until the membership's new owner is known."""

    request: Request


class AnchorRow(Struct, frozen=True, array_like=True):
    """Table `anchors`, by URL: the shingles that the next version is compared with. Those of the version in tier 2, or,
    under the rule of representatives, those of the last version."""

    shingles: bytes


class DecisionRow(Struct, frozen=True, array_like=True):
    """Table `decisions`, by URL: an operator's latest decision on the group with that id, whether or not it exists."""

    version: int
    pass_from: float | None


class PageDecisionRow(Struct, frozen=True, array_like=True):
    """Table `page_decisions`, by URL: an operator's latest decision on that page, whether or not it was fetched."""

    version: int
    kept: bool


class PairDecisionRow(Struct, frozen=True, array_like=True):
    """Table `pair_decisions`, by two URLs: an operator's latest decision on the two pages. There is a row for each of
    the two orders, in the partition of the first URL."""

    version: int
    same: bool


def weight(decision: Decision | DecisionRow) -> tuple[int, float]:
    """The order of decisions on a group: the later one counts; of two with one timestamp, the more careful one."""
    return decision.version, math.inf if decision.pass_from is None else decision.pass_from


class CountRow(Struct, frozen=True, array_like=True):
    """Table `counts`, by name: how many events had which outcome."""

    count: int


class HomeRow(Struct, frozen=True, array_like=True):
    """Table `homes`, by tier-2 partition: how many pages have their home there, and how many changed pages were
    remapped to it from another partition."""

    pages: int
    remapped: int


def home_key(home: int) -> str:
    return f"{home:05d}"


def imbalance(pages: Sequence[int]) -> float:
    """Pages of the fullest partition over the mean (Zhu et al., section 6.1); 1 if there are none."""
    return max(pages) * len(pages) / sum(pages) if any(pages) else 1.0
