"""`duplicate.status`: what each URL is, the newest version per URL wins (public, JSON, compacted by URL)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

DUPLICATE_STATUS_VERSION = 1

Role = Literal["unique", "winner", "duplicate", "redirect", "gone", "held"]
Relation = Literal["exact", "near", "contained", "redirect", "revisit"]
Problem = Literal["redirect_cut", "target_gone", "target_unknown", "truncated"]


class MarketStatus(Struct, frozen=True, kw_only=True):
    """The verdict in one of several markets."""

    role: Annotated[Role, Meta(description="as in the status, by this market's winner order")]
    winner: Annotated[str | None, Meta(description="the URL to keep instead")] = None
    relation: Annotated[Relation | None, Meta(description="how the page relates to its winner")] = None
    similarity: Annotated[
        float | None,
        Meta(description="exact Jaccard similarity to the winner; of a contained page: the share the winner has of it"),
    ] = None


class DuplicateStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One URL's verdict. A status with a higher `version` replaces one with a lower."""

    url: Annotated[str, Meta(description="the page")]
    version: Annotated[tuple[int, int], Meta(description="fetched_at in ms, then a counter: compare in this order")]
    role: Annotated[Role, Meta(description="keep unique and winner; the others are spoken for")]
    since: Annotated[int, Meta(description="fetched_at in ms of the fetch that brought what the page is now")]
    v: Annotated[int, Meta(description="schema version")] = DUPLICATE_STATUS_VERSION
    group: Annotated[str | None, Meta(description="group id: URL of its earliest member")] = None
    winner: Annotated[str | None, Meta(description="the URL to keep instead")] = None
    relation: Annotated[Relation | None, Meta(description="how the page relates to its winner")] = None
    similarity: Annotated[
        float | None,
        Meta(description="exact Jaccard similarity to the winner; of a contained page: the share the winner has of it"),
    ] = None
    target: Annotated[str | None, Meta(description="where a redirect ends")] = None
    problem: Annotated[
        Problem | None,
        Meta(
            description="why a redirect leads to no page (cut: a loop, or too many hops); truncated: a page of which "
            "only the first 8 MiB were compared"
        ),
    ] = None
    markets: Annotated[
        dict[str, MarketStatus] | None, Meta(description="verdicts by market, if there are several; the first is above")
    ] = None
