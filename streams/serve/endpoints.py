"""The endpoints of the lookup service as data: path, parameters, answer, function. The router and the OpenAPI
description are both made from this table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from dustream.core.urls.sites import site_of
from dustream.schemas.lookup import (
    DecideAnswer,
    GroupDetail,
    MinPosition,
    NormalizeAnswer,
    RulesAnswer,
    SiteAnswer,
    StatsAnswer,
    UrlAnswer,
    UrlsAnswer,
    UrlsRequest,
    UrlText,
)
from dustream.streams.questions.group_list import GroupRequest
from dustream.streams.serve.answers import GroupsAnswer, WhyAnswer
from dustream.streams.serve.lookups import Lookups
from dustream.streams.serve.source import Seen

MEMBERS_MAX = 10_000
GROUPS_MAX = 1_000

MarketName = Annotated[
    Annotated[str, Meta(max_length=200)] | None, Meta(description="a market of the run (default: the first)")
]
SiteText = Annotated[str, Meta(min_length=1, max_length=253, description="a registrable domain, as example.com")]


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of all endpoints."""

    min_position: MinPosition = 0


class UrlAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    u: Annotated[UrlText, Meta(description="the URL")]


class WhyAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    a: Annotated[UrlText, Meta(description="the URL")]
    b: Annotated[UrlText | None, Meta(description="compare with this URL")] = None
    market: MarketName = None
    text: Annotated[Literal["yes", "no"], Meta(description="whether to read the texts again and compare them")] = "yes"


class GroupAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[UrlText, Meta(description="the group's id: a URL, percent-encoded")]
    members: Annotated[int, Meta(description="pages listed at most", ge=1, le=MEMBERS_MAX)] = 1_000


class GroupsAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    top: Annotated[int, Meta(description="how many", ge=1, le=GROUPS_MAX)] = 20
    by: Literal["size", "changed"] = "size"
    held: Annotated[Literal["yes", "no"], Meta(description="only groups that are held")] = "no"
    site: Annotated[SiteText | None, Meta(description="only groups with a page of this site")] = None
    market: MarketName = None


class SiteAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    site: SiteText


class Endpoint(NamedTuple):
    """`answer` gets the lookups, how far the input is included, and the parameters. A slow one runs in a thread, an
    asynchronous one never does."""

    method: Literal["GET", "POST"]
    path: str
    summary: str
    asked: type[Any]
    answer_type: type[Any]
    answer: Callable[[Lookups, Seen, Any], Any]
    slow: bool = False
    not_found: bool = False


async def _url(lookups: Lookups, seen: Seen, asked: UrlAsked) -> UrlAnswer:
    return await lookups.url(seen, asked.u)


def _groups(lookups: Lookups, seen: Seen, asked: GroupsAsked) -> GroupsAnswer:
    site = None if asked.site is None else site_of(asked.site)
    request = GroupRequest(top=asked.top, by=asked.by, held=asked.held == "yes", site=site, market=asked.market)
    return lookups.groups(seen, request)


ENDPOINTS = (
    Endpoint("GET", "/v1/url", "What a URL is", UrlAsked, UrlAnswer, _url),
    Endpoint(
        "POST",
        "/v1/urls",
        "What many URLs are",
        UrlsRequest,
        UrlsAnswer,
        lambda on, seen, asked: on.urls(seen, asked.urls),
    ),
    Endpoint(
        "GET",
        "/v1/decide",
        "Whether a crawler needs to fetch a URL",
        UrlAsked,
        DecideAnswer,
        lambda on, seen, asked: on.decide(seen, asked.u),
    ),
    Endpoint(
        "GET",
        "/v1/why",
        "Why a URL is what it is, or how two URLs relate, with the difference of the texts",
        WhyAsked,
        WhyAnswer,
        lambda on, seen, asked: on.why(seen, asked.a, asked.b, asked.market, text=asked.text == "yes"),
        slow=True,
    ),
    Endpoint(
        "GET", "/v1/groups", "The largest groups, or those changed last", GroupsAsked, GroupsAnswer, _groups, True
    ),
    Endpoint(
        "GET",
        "/v1/groups/{id}",
        "A group and its members",
        GroupAsked,
        GroupDetail,
        lambda on, seen, asked: on.group(seen, asked.id, asked.members),
        slow=True,
        not_found=True,
    ),
    Endpoint(
        "GET",
        "/v1/sites/{site}",
        "A site's pages, those lost to other sites, and its rules by stage",
        SiteAsked,
        SiteAnswer,
        lambda on, seen, asked: on.site(seen, asked.site),
        slow=True,
        not_found=True,
    ),
    Endpoint(
        "GET",
        "/v1/rules/{site}",
        "The URL rules of a site",
        SiteAsked,
        RulesAnswer,
        lambda on, seen, asked: on.rules(seen, asked.site),
    ),
    Endpoint(
        "GET",
        "/v1/normalize",
        "The normal form of a URL, step by step",
        UrlAsked,
        NormalizeAnswer,
        lambda on, seen, asked: on.normalize(seen, asked.u),
    ),
    Endpoint("GET", "/v1/stats", "Totals", Asked, StatsAnswer, lambda on, seen, asked: on.stats(seen)),
)
