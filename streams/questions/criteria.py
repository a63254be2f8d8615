"""Which criterion of a market's winner order ranks one page above another, and by which values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b

from msgspec import Struct

from dustream.core.winners import Market, PageFacts, WinnerOrder, canonical_class
from dustream.streams.questions.pages import KnownPage


class CriterionDecision(Struct, frozen=True):
    """The first criterion in which two pages differ, and its value for each, as text."""

    criterion: str
    better: str
    better_value: str
    worse: str
    worse_value: str


def decision(market: Market, one: KnownPage, other: KnownPage) -> CriterionDecision:
    """Which of two pages is first in a market, and why."""
    order = WinnerOrder(market)
    keys = [order.key(page.facts, page.vertex) for page in (one, other)]
    better, worse = (one, other) if keys[0] < keys[1] else (other, one)
    name = order.decided_by(*keys)
    shown = _SHOWN[name]
    return CriterionDecision(name, better.url, shown(better.facts, market), worse.url, shown(worse.facts, market))


def time_shown(version_ms: int) -> str:
    """The time of a fetch as text; 0 stands for an unknown time."""
    if version_ms <= 0:
        return "at an unknown time"
    return datetime.fromtimestamp(version_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _popularity(page: PageFacts, market: Market) -> str:
    return "no popularity" if page.popularity is None else f"popularity {page.popularity:g}"


def _place(value: str, preferred: tuple[str, ...]) -> str:
    return f"{value} (preference {preferred.index(value) + 1})" if value in preferred else f"{value} (not preferred)"


_CANONICAL_SHOWN = {
    "self": "names itself as canonical",
    "none": "names no canonical page to rely on",
    "other": "names another page of its site as canonical",
}

_SHOWN: dict[str, Callable[[PageFacts, Market], str]] = {
    "popularity": _popularity,
    "canonical": lambda page, market: _CANONICAL_SHOWN[canonical_class(page.canonical)],
    "static": lambda page, market: "a query" if page.parts.query else "no query",
    "url_length": lambda page, market: f"{len(page.url)} characters",
    "depth": lambda page, market: f"depth {page.parts.path.rstrip('/').count('/')}",
    "https": lambda page, market: page.parts.scheme,
    "preferred_host": lambda page, market: _place(page.host, market.preferred_hosts),
    "preferred_tld": lambda page, market: _place(page.host.rpartition(".")[2], market.preferred_tlds),
    "first_seen": lambda page, market: f"first seen {time_shown(page.first_seen_ms)}",
    "url_hash": lambda page, market: f"URL hash {blake2b(page.url.encode(), digest_size=8).hexdigest()}",
    "name": lambda page, market: f"first seen {time_shown(page.first_seen_ms)}",
}
