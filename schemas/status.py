"""`duplicate.status`: the verdict on each URL; the newest version per URL is current (public, JSON, compacted by
URL)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

DUPLICATE_STATUS_VERSION = 1

Role = Literal["unique", "winner", "duplicate", "redirect", "gone", "held"]
KEPT_ROLES: frozenset[Role] = frozenset({"unique", "winner", "held"})
Relation = Literal["exact", "near", "decided", "contained", "redirect", "revisit"]
Decided = Literal["not_duplicate"]
Problem = Literal["redirect_cut", "target_gone", "target_unknown", "content_unknown", "truncated"]

Winner = Annotated[str | None, Meta(description="the URL kept for this page (`held`: the one that would be)")]
Similarity = Annotated[
    float | None,
    Meta(
        description="exact Jaccard similarity to the winner; of a contained page: the exact share of its shingles that "
        "the winner has"
    ),
]
CodeShare = Annotated[
    float | None,
    Meta(description="of a contained page: the share of its feature code that the winner's has in one piece"),
]


def is_kept(role: Role) -> bool:
    """Whether a URL with this role is kept. A `held` page is kept: it would be dropped, but the circuit breaker holds
    its group or site and no operator has released it."""
    return role in KEPT_ROLES


class MarketStatus(Struct, frozen=True, kw_only=True):
    """The verdict in one of several markets."""

    role: Annotated[Role, Meta(description="as in the status, by this market's winner order")]
    winner: Winner = None
    relation: Annotated[Relation | None, Meta(description="how the page relates to its winner")] = None
    similarity: Similarity = None
    code_share: CodeShare = None


class DuplicateStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One URL's verdict. A status with a higher `version` replaces one with a lower."""

    url: Annotated[str, Meta(description="the page")]
    version: Annotated[tuple[int, int], Meta(description="fetched_at in ms, then a counter: compare in this order")]
    role: Annotated[Role, Meta(description="keep `unique`, `winner` and `held`; drop the others")]
    since: Annotated[int, Meta(description="fetched_at in ms of the fetch that brought the page's present state")]
    v: Annotated[int, Meta(description="schema version")] = DUPLICATE_STATUS_VERSION
    group: Annotated[str | None, Meta(description="group id: URL of its earliest member")] = None
    winner: Winner = None
    relation: Annotated[
        Relation | None,
        Meta(
            description="how the page relates to its winner; decided: an operator decided that the two are the same; "
            "revisit is no longer written"
        ),
    ] = None
    similarity: Similarity = None
    code_share: CodeShare = None
    target: Annotated[str | None, Meta(description="where a redirect ends")] = None
    canonical: Annotated[
        str | None, Meta(description="the other page of its site that the page names as canonical, if it is relied on")
    ] = None
    problem: Annotated[
        Problem | None,
        Meta(
            description="why a redirect leads to no page (cut: a loop, or too many hops); content_unknown: the page "
            "was fetched, but its content is not in the input, so it is kept; truncated: only the first 8 MiB of the "
            "page were compared"
        ),
    ] = None
    decided: Annotated[
        Decided | None,
        Meta(description="an operator's decision in force. not_duplicate: the page is kept, whatever it matches"),
    ] = None
    markets: Annotated[
        dict[str, MarketStatus] | None, Meta(description="verdicts by market, if there are several; the first is above")
    ] = None
