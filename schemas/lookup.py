"""The answers of the lookup service (`dustream serve`): JSON over HTTP, described by /v1/openapi.json."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dustream.schemas.rules import UrlRule
from dustream.schemas.status import Decided, Problem, Relation, Role, Similarity, Winner

URLS_PER_REQUEST_MAX = 10_000
URL_CHARS_MAX = 8_192

Position = Annotated[
    int | list[int],
    Meta(description="records of the input that the answer includes; of a worker, the next offset by input partition"),
]
Settled = Annotated[bool, Meta(description="whether everything that follows from those records is included, too")]
MinPosition = Annotated[
    Annotated[int, Meta(ge=0, lt=10**15)]
    | Annotated[str, Meta(pattern=r"^([0-9]{1,15}|[0-9]{1,6}:[0-9]{1,15}(,[0-9]{1,6}:[0-9]{1,15})*)$")],
    Meta(
        description="answer 412 if fewer records, and all that follows, are included; of a worker, PARTITION:OFFSET of "
        "input records, separated by commas"
    ),
]
UrlText = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]
FetchReason = Literal["new", "kept", "gone", "unresolved", "duplicate", "redirect", "rule"]


class UrlStatus(Struct, frozen=True, kw_only=True):
    """The status of one URL, in short."""

    url: Annotated[str, Meta(description="the URL in the spelling that identifies the page")]
    role: Annotated[
        Role | Literal["unknown", "invalid"], Meta(description="`invalid`: not an absolute http or https URL")
    ]
    words: Annotated[str, Meta(description="the same as a sentence without its subject")]
    group: Annotated[str | None, Meta(description="group id: URL of its earliest member")] = None
    winner: Winner = None
    relation: Annotated[Relation | None, Meta(description="how the page relates to its winner")] = None
    similarity: Similarity = None
    target: Annotated[str | None, Meta(description="where a redirect ends")] = None
    problem: Problem | None = None
    decided: Annotated[Decided | None, Meta(description="an operator's decision in force on the page")] = None
    since: Annotated[int | None, Meta(description="milliseconds: the fetch that brought the present content")] = None


class UrlAnswer(UrlStatus, frozen=True, kw_only=True):
    """GET /v1/url."""

    position: Position
    settled: Settled


class UrlsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/urls."""

    urls: Annotated[list[UrlText], Meta(max_length=URLS_PER_REQUEST_MAX)]
    min_position: MinPosition = 0


class UrlsAnswer(Struct, frozen=True, kw_only=True):
    """One status per URL asked for, in the order of the request."""

    position: Position
    settled: Settled
    statuses: list[UrlStatus]


class DecideAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/decide: whether a crawler needs to fetch a URL."""

    position: Position
    settled: Settled
    url: str
    action: Literal["fetch", "skip"]
    reason: Annotated[
        FetchReason,
        Meta(
            description="fetch: `new`, `kept` (known, and to be kept), `gone` (may have come back), `unresolved` (a "
            "redirect that leads to no page). skip: `duplicate`, `redirect`, `rule` (an active rule leads to a known "
            "page)"
        ),
    ]
    words: str
    same_as: Annotated[str | None, Meta(description="of skip: the URL that is kept for this content")] = None
    rule: Annotated[str | None, Meta(description="of reason `rule`: the id of the last rule applied")] = None
    normalized: Annotated[str, Meta(description="the normal form: a key to compare new URLs by")]


class GroupDetail(Struct, frozen=True, kw_only=True):
    """GET /v1/groups/{id}. Members are pages with content, then redirects to them."""

    position: Position
    settled: Settled
    group: str
    size: Annotated[int, Meta(description="pages with content")]
    held: bool
    weakest_link: Annotated[float | None, Meta(description="the lowest similarity of a match within the group")]
    members: list[UrlStatus]
    left_out: Annotated[int, Meta(description="pages with content that are not listed")]


class SiteAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/sites/{site}."""

    position: Position
    settled: Settled
    site: str
    pages: Annotated[int, Meta(description="pages with content")]
    lost: Annotated[int, Meta(description="those whose winner, in the first market, is on another site")]
    held: bool
    released: Annotated[bool, Meta(description="an operator released it")]
    rules: Annotated[dict[str, int], Meta(description="URL rules by stage")]


class RulesAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/rules/{site}."""

    position: Position
    settled: Settled
    site: str
    rules: tuple[UrlRule, ...]


class NormalizeStep(Struct, frozen=True):
    """A step that changed a URL: a standard step by name, or a rule by its text and id."""

    by: str
    url: str
    rule: str | None = None


class NormalizeAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/normalize."""

    position: Position
    settled: Settled
    url: str
    normalized: str
    site: str
    known: Annotated[bool, Meta(description="whether the normal form has a status")]
    steps: list[NormalizeStep]


class InputStatus(Struct, frozen=True):
    """How far an input was read."""

    source: str
    position: Annotated[int, Meta(description="one past the last record read")]
    done: bool


class StatsAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/stats. The counts are those of `counted_at`, which may be behind `position` while a run adds pages."""

    position: Position
    settled: Settled
    counted_at: Position
    pages: Annotated[int, Meta(description="URLs with a status")]
    kept: int
    roles: dict[str, int]
    relations: Annotated[dict[str, int], Meta(description="duplicates by their relation to the winner")]
    groups: Annotated[int, Meta(description="groups of more than one URL")]
    largest_group: int
    rules: Annotated[dict[str, int], Meta(description="URL rules by stage")]
    rejected: Annotated[int, Meta(description="records that could not be used")]
    inputs: list[InputStatus]


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """An error, as RFC 9457 has it."""

    title: str
    status: int
    detail: Annotated[str, Meta(description="what is wrong and what to do")]
