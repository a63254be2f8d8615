"""The winner order: which of several matching pages is kept.

A market names its criteria, most important first. Each is encoded as a field of fixed width, smaller is better; the
fields in order and then the vertex's name are the *key*. Comparing two keys as bytes compares the pages, and no two
keys are equal.

Put coarse classes first, and a hash of the URL before anything that varies along a chain of similar pages (first seen
to the millisecond, the URL's text). Then a change in the match graph alters one or two verdicts on average instead of
starting a cascade (Censor-Hillel, Haramaty, Karnin 2016). To prefer the oldest page, use first seen in coarse steps.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from typing import Protocol
from urllib.parse import SplitResult

from msgspec import Struct

from dustream.core.errors import BadSetting
from dustream.core.urls.parts import url_parts
from dustream.schemas.pages import CanonicalClass

MARKETS_MAX = 16
PREFERENCES_MAX = 10_000
DAY_MS = 86_400_000
URL_LENGTH_STEP = 8  # coarse: page=9 and page=10 are usually in one class
NOT_PREFERRED = 0xFFFF
CANONICAL_PLACES: dict[CanonicalClass, int] = {"self": 0, "none": 1, "other": 2}
# A page that names another page of its site as canonical loses to any page that matches it, however popular it is. Only
# the user's preferred hosts come before that (docs/howto/choose-winners.md).
DEFAULT_CRITERIA = ("preferred_host", "canonical", "popularity", "https", "static", "depth", "url_length", "url_hash")
USED_BY = {"preferred_hosts": "preferred_host", "preferred_tlds": "preferred_tld", "first_seen_step_days": "first_seen"}
"""The criterion that uses each setting of a market."""


class Market(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named winner order. Lists of preferences are best first; hosts and TLDs not listed come last."""

    name: str = "default"
    criteria: tuple[str, ...] = DEFAULT_CRITERIA
    preferred_hosts: tuple[str, ...] = ()
    preferred_tlds: tuple[str, ...] = ()
    first_seen_step_days: int = 365


class RankedPage(Protocol):
    """The fields of a page that the order uses beside its URL."""

    @property
    def first_seen_ms(self) -> int: ...
    @property
    def popularity(self) -> float | None: ...
    @property
    def canonical(self) -> str: ...


class PageFacts(Struct, frozen=True, gc=False):
    """The input of the criteria."""

    url: str
    first_seen_ms: int
    popularity: float | None
    canonical: str
    parts: SplitResult

    @classmethod
    def of(cls, url: str, page: RankedPage) -> PageFacts:
        return cls(url, page.first_seen_ms, page.popularity, page.canonical, url_parts(url))

    @property
    def host(self) -> str:
        return self.parts.hostname or ""


def _popularity(page: PageFacts, market: Market) -> int:
    """Powers of two, so that small changes of popularity do not change the class."""
    value = page.popularity
    if value is None or not value > 0:
        return 255
    return 127 - max(-127, min(127, math.frexp(min(value, 1e38))[1]))


def _canonical(page: PageFacts, market: Market) -> int:
    return CANONICAL_PLACES[canonical_class(page.canonical)]


def canonical_class(canonical: str) -> CanonicalClass:
    """Of `self`, `none`, or the page that is named."""
    return "self" if canonical == "self" else "none" if canonical == "none" else "other"


def _static(page: PageFacts, market: Market) -> int:
    return 1 if page.parts.query else 0


def _url_length(page: PageFacts, market: Market) -> int:
    length = len(page.url) // URL_LENGTH_STEP
    return length if length < 0xFFFF else 0xFFFF


def _depth(page: PageFacts, market: Market) -> int:
    depth = page.parts.path.rstrip("/").count("/")
    return depth if depth < 255 else 255


def _https(page: PageFacts, market: Market) -> int:
    return 0 if page.parts.scheme == "https" else 1


def _place(value: str, preferred: tuple[str, ...]) -> int:
    return preferred.index(value) if value in preferred else NOT_PREFERRED


def _preferred_host(page: PageFacts, market: Market) -> int:
    return _place(page.host, market.preferred_hosts) if market.preferred_hosts else NOT_PREFERRED


def _preferred_tld(page: PageFacts, market: Market) -> int:
    return _place(page.host.rpartition(".")[2], market.preferred_tlds) if market.preferred_tlds else NOT_PREFERRED


def _first_seen(page: PageFacts, market: Market) -> int:
    return min(max(page.first_seen_ms, 0) // (market.first_seen_step_days * DAY_MS), 0xFFFFFFFF)


def _url_hash(page: PageFacts, market: Market) -> int:
    return int.from_bytes(hashlib.blake2b(page.url.encode(), digest_size=8).digest(), "big")


Value = Callable[[PageFacts, Market], int]

CRITERIA: dict[str, tuple[int, Value]] = {
    "canonical": (1, _canonical),
    "popularity": (1, _popularity),
    "static": (1, _static),
    "url_length": (2, _url_length),
    "depth": (1, _depth),
    "https": (1, _https),
    "preferred_host": (2, _preferred_host),
    "preferred_tld": (2, _preferred_tld),
    "first_seen": (4, _first_seen),
    "url_hash": (8, _url_hash),
}
"""For each criterion: its width in bytes, and the function for the page's value; smaller is better."""
FIELD_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class WinnerOrder:
    """The order of one market."""

    def __init__(self, market: Market) -> None:
        _check(market)
        self.market = market
        self._fields = [(name, *CRITERIA[name]) for name in market.criteria]
        self._values = [value for _, _, value in self._fields]
        self._packed = struct.Struct(">" + "".join(FIELD_FORMATS[width] for _, width, _ in self._fields))
        self.width = self._packed.size

    def key(self, page: PageFacts, vertex: str) -> bytes:
        """The page's key: the smaller key is the better page."""
        market = self.market
        return self._packed.pack(*[value(page, market) for value in self._values]) + vertex.encode()

    def vertex(self, key: bytes) -> str:
        """The vertex of a key."""
        return key[self.width :].decode()

    def decided_by(self, one: bytes, other: bytes) -> str:
        """The first criterion in which two keys differ; 'name' if only (first seen, URL, epoch) does."""
        start = 0
        for name, width, _ in self._fields:
            if one[start : start + width] != other[start : start + width]:
                return name
            start += width
        return "name"


class Markets:
    """All orders, as in the settings; the first is the main one."""

    def __init__(self, markets: tuple[Market, ...] = (Market(),)) -> None:
        if not 1 <= len(markets) <= MARKETS_MAX:
            raise BadSetting(f"there must be 1 to {MARKETS_MAX} markets, not {len(markets)}")
        if len({market.name for market in markets}) < len(markets):
            raise BadSetting("two markets have the same name: give each its own")
        self.orders = tuple(WinnerOrder(market) for market in markets)
        self.names = tuple(market.name for market in markets)

    def keys(self, url: str, page: RankedPage, vertex: str) -> tuple[bytes, ...]:
        facts = PageFacts.of(url, page)
        if len(self.orders) == 1:
            return (self.orders[0].key(facts, vertex),)
        return tuple([order.key(facts, vertex) for order in self.orders])


def _check(market: Market) -> None:
    unknown = [name for name in market.criteria if name not in CRITERIA]
    if unknown:
        raise BadSetting(f"market {market.name}: unknown criteria {', '.join(unknown)}. Known: {', '.join(CRITERIA)}")
    if len(set(market.criteria)) < len(market.criteria):
        raise BadSetting(f"market {market.name}: a criterion is listed twice")
    if max(len(market.preferred_hosts), len(market.preferred_tlds)) > PREFERENCES_MAX:
        raise BadSetting(f"market {market.name}: at most {PREFERENCES_MAX} preferred hosts or TLDs")
    if market.first_seen_step_days < 1:
        raise BadSetting(f"market {market.name}: first_seen_step_days must be at least 1")
    for setting, criterion in USED_BY.items():
        if getattr(market, setting) != getattr(_DEFAULTS, setting) and criterion not in market.criteria:
            raise BadSetting(
                f"market {market.name}: {setting} has no effect, because {criterion} is not among the criteria: "
                f'add it, as in criteria = ["{criterion}", …], or leave {setting} out'
            )


_DEFAULTS = Market()
