"""The rows of `pages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from dustream.core.vertex import vertex_name
from dustream.schemas.pages import Canonical, Request, Resolution, Standing, Verdict

UNKNOWN_VERSION = -(1 << 62)  # of a URL that others redirect to and nobody fetched


class PageRow(Struct, frozen=True, array_like=True, gc=False):
    """Table `pages`, by URL. What followers are told and what the public sees follow from it.

    `version` is the last fetch, `found_at` the last one that told what the page is: a confirmation tells nothing, and
    may come before what it confirms. `unknown`: no fetch brought a content, or it is not known what a revisit found."""

    version: int
    first_seen_ms: int
    kind: Literal["unknown", "content", "redirect", "gone"] = "unknown"
    epoch: int = 0
    status_counter: int = 0
    follower_count: int = 0
    spread_after: str | None = None
    popularity: float | None = None
    canonical: Canonical = "none"
    popularity_at: int = UNKNOWN_VERSION
    found_at: int = UNKNOWN_VERSION
    # content
    content_hash: bytes = b""
    home: int = 0
    owner: str | None = None  # None: no edge yet, so no group had to be made
    token_counter: int = 0
    parked_count: int = 0
    standing: Standing | None = None
    verdicts: tuple[Verdict, ...] = ()
    group_size: int = 1  # when the group's standing was last told
    lost: int = 0  # markets (bit by bit) in which the winner is on another site
    site_held: int = 0  # those of them in which the site is held
    # content of its own: the first fetch that brought it, and the payload digests of the first and the last one
    first_at: int = 0
    first_digest: str = ""
    last_digest: str = ""
    anchored: bool = False  # the last content is another one than the one tier 2 knows, which stands for it
    # content or unknown: the page that the fetch of `found_at` revisited, answers heard, contents that came of it
    revisit: str = ""
    answers: int = 0
    turn: int = 0
    # pages that revisited this one; the last of them answered, while not all are
    asker_count: int = 0
    answers_after: str | None = None
    # redirect
    target: str = ""
    via: str = ""
    upstream: Resolution | None = None
    # of every kind: where the fetch of `epoch` stands in its input
    origin: str = ""
    # fetches on their way to a representative and back: whom they ask, and how many
    consulted: str = ""
    consulted_count: int = 0
    # of the token's requests that are parked, those with a lower number go out, step by step
    unparking: int = 0
    # containment: by market, who contains the page; () if nobody does
    contained: tuple[Verdict | None, ...] = ()
    # no group yet, and the token is on its way into the group of this vertex
    entering: str = ""
    # the content is new and tier 2 has not compared it yet, or something changed while the page was entering a group:
    # it is said together with what is to come
    unsaid: bool = False
    # of content: only the beginning of the page was read
    truncated: bool = False


def vertex_of(url: str, page: PageRow) -> str:
    """The name of a content page's vertex."""
    return vertex_name(page.first_seen_ms, url, page.epoch, page.turn)


def since_of(page: PageRow) -> int:
    """The fetch that brought what the page is."""
    if page.revisit:
        return page.found_at
    return page.first_seen_ms if page.kind == "unknown" else page.epoch


def bare(page: PageRow) -> PageRow:
    """The page without what it was: what it keeps whatever it becomes."""
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
    )


class FollowerRow(Struct, frozen=True, array_like=True):
    """Table `followers`, by target and URL: a redirect, and the epoch of it."""

    epoch: int


class DyingRow(Struct, frozen=True, array_like=True):
    """Table `dying`, by vertex: a vertex that is no more, but whose group has not let go of it yet; or whose token is
    on its way into a group that is not known yet ("")."""

    owner: str
    token_counter: int
    waiting: bool = False


class ParkedRow(Struct, frozen=True, array_like=True):
    """Table `parked`, by vertex and number: a request that overtook the news of where the token went."""

    request: Request


class AnchorRow(Struct, frozen=True, array_like=True):
    """Table `anchors`, by URL: what the next version is compared with, if there is anything to compare. The shingles of
    the version tier 2 knows; if representatives decide, those of the last version."""

    shingles: bytes


class DecisionRow(Struct, frozen=True, array_like=True):
    """Table `decisions`, by URL: an operator's last word on the group with that id, whether or not there is one."""

    version: int
    pass_from: float | None


class CountRow(Struct, frozen=True, array_like=True):
    """Table `counts`, by name: how many events went which way."""

    count: int


class HomeRow(Struct, frozen=True, array_like=True):
    """Table `homes`, by tier-2 partition: the pages whose home it is, and how often a page that changed was remapped to
    it from another partition."""

    pages: int
    remapped: int


def home_key(home: int) -> str:
    return f"{home:05d}"


def imbalance(pages: Sequence[int]) -> float:
    """Pages of the fullest partition over the mean (Zhu et al., section 6.1); 1 if there are none."""
    return max(pages) * len(pages) / sum(pages) if any(pages) else 1.0
