"""`crawl.pages`: the input, one event per fetch, published by a crawler (public, JSON)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dustream.schemas.rules import Rewrite

CRAWL_EVENT_VERSION = 1

DecisionName = Literal[
    "release_group",
    "split_group",
    "hold_group",
    "release_site",
    "hold_site",
    "not_duplicate",
    "undo_page",
    "same",
    "undo_same",
    "accept_rule",
    "reject_rule",
    "pin_rule",
    "undo_rule",
]


class CrawlEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One fetch of one URL. Content comes as `html` (decoded), `body` (bytes as fetched) or `text` (extracted).

    An event with a `decision` is not a fetch but an operator's decision: on a group or site held by the circuit
    breaker, on a page, or on a rule.
    """

    url: Annotated[str, Meta(description="absolute http or https URL that was fetched")]
    v: Annotated[int, Meta(description="schema version")] = CRAWL_EVENT_VERSION
    fetched_at: Annotated[
        str | int | float | None,
        Meta(description="RFC 3339 time, 14-digit CDX time, or seconds since 1970; orders the versions of a URL"),
    ] = None
    status: Annotated[int, Meta(description="HTTP status")] = 200
    html: Annotated[str | None, Meta(description="the page, decoded")] = None
    body: Annotated[bytes | None, Meta(description="the page as fetched (base64 in JSON); its charset is detected")] = (
        None
    )
    text: Annotated[str | None, Meta(description="plain text, used as it is")] = None
    digest: Annotated[str | None, Meta(description="payload digest, where no body is known (CDX)")] = None
    redirect_to: Annotated[str | None, Meta(description="target of a redirect, absolute or relative to url")] = None
    revisit_of: Annotated[str | None, Meta(description="URL whose content this fetch found again, unchanged")] = None
    content_type: Annotated[str | None, Meta(description="Content-Type as the server sent it")] = None
    lang: Annotated[str | None, Meta(description="language, if the crawler knows it (BCP 47)")] = None
    popularity: Annotated[float | None, Meta(description="link or click popularity; larger is better")] = None
    truncated: Annotated[bool, Meta(description="the content is only the beginning of the page")] = False
    decision: Annotated[
        DecisionName | None,
        Meta(
            description="an operator's decision: on the group with id url or the site of url (release, split, hold), "
            "on the page url (not_duplicate: it is kept whatever it matches), on the pages url and same_as (same: they "
            "match, whatever their texts), or on a rule of the site of url (accept, reject, pin); hold and undo "
            "withdraw one. The latest on each counts"
        ),
    ] = None
    pass_from: Annotated[
        float | None, Meta(description="of split_group: similarity to the winner below which pages are kept")
    ] = None
    same_as: Annotated[str | None, Meta(description="of same and undo_same: the URL of the other page")] = None
    rule: Annotated[Rewrite | None, Meta(description="of a decision on a rule: its rewrite, as in url.rules")] = None
