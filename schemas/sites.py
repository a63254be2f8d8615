"""The input log of `sites`, by site (internal, msgpack)."""

from __future__ import annotations

from msgspec import Struct


class Tally(Struct, frozen=True, array_like=True, tag="tally"):
    """What a step of `pages` changed on a site: how many pages it has, and per market how many of them have a winner on
    another site. Sums, so their order does not matter; links deliver each exactly once."""

    site: str
    pages: int
    lost: tuple[int, ...]


class SiteDecision(Struct, frozen=True, array_like=True, tag="decision"):
    """An operator's word: the site may lose what it loses, or the circuit breaker decides again."""

    site: str
    version: int
    released: bool


SitesMessage = Tally | SiteDecision
