"""The input log of `sites`, by site (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct


class Tally(Struct, frozen=True, array_like=True, tag="tally"):
    """The changes of one step of `pages` on a site: in its number of pages, and per market in how many have a winner on
    another site. These are sums, so their order does not matter; each is delivered exactly once."""

    site: str
    pages: int
    lost: tuple[int, ...]


class SiteDecision(Struct, frozen=True, array_like=True, tag="decision"):
    """An operator's decision: the site's losses are accepted, or the circuit breaker decides again."""

    site: str
    version: int
    released: bool


SitesMessage = Tally | SiteDecision
