"""DustBuster (Bar-Yossef, Keidar, Schonfeld): substring rules α → β from a list of URLs, without any page.

    detect      all substrings up to a length with their envelopes (prefix, suffix); substrings with one envelope form a
                bucket; likely-similar pairs in small buckets are instances of a rule; a rule has large support
    eliminate   of two rules with nearly equal support where one refines the other, the broader is redundant
    validate    on known URLs (or fetched ones): few outcomes may differ in content; a rule is tried shrinking first
    canonize    apply all rules again and again, a bounded number of times (see normalize.py)

Two URLs are likely similar if their sketches (group, digest) are equal; with a log only, if their size intervals
overlap. A rule's scope is the common directory of the URLs that support it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dustream.core.rules.dust_detect import detect_likely_rules, detected_rules, mates, wanted_mates
from dustream.core.rules.dust_eliminate import alive_rules, eliminate_redundancies
from dustream.core.rules.dust_list import (
    URLS_MAX,
    DustRule,
    DustSettings,
    Fetch,
    LoggedUrl,
    RulePair,
    UrlList,
    is_listed,
    url_list,
)
from dustream.core.rules.dust_parts import as_parts
from dustream.core.rules.dust_validate import is_deployable, validate

__all__ = [
    "URLS_MAX",
    "DustFindings",
    "DustRule",
    "DustSettings",
    "Fetch",
    "LoggedUrl",
    "RulePair",
    "UrlList",
    "detect_likely_rules",
    "dust_rules",
    "eliminate_redundancies",
    "is_deployable",
    "is_listed",
    "mates",
    "rules_of_list",
    "url_list",
    "wanted_mates",
]


@dataclass(frozen=True)
class DustFindings:
    """What each phase left. `truncated`: more kinds of rules were met than are counted."""

    detected: int
    remaining: int
    rules: list[DustRule]
    truncated: bool


def dust_rules(
    entries: Iterable[LoggedUrl], settings: DustSettings | None = None, fetch: Fetch | None = None
) -> DustFindings:
    """All phases, from a log."""
    return rules_of_list(url_list(entries), settings, fetch)


def rules_of_list(listed: UrlList, settings: DustSettings | None = None, fetch: Fetch | None = None) -> DustFindings:
    """All phases."""
    settings = settings or DustSettings()
    if not listed.by_sketch:
        settings = settings._replace(bucket_max=settings.sized_bucket_max)
    detected, truncated = detected_rules(listed, settings)
    if not len(detected):
        return DustFindings(0, 0, [], truncated)
    alive = alive_rules(listed.text.data, listed.text.sums, detected, settings.mrd, settings.mad, settings.mw)
    remaining = as_parts(listed.text.data, detected[alive])
    return DustFindings(len(detected), len(remaining), validate(remaining, listed, settings, fetch), truncated)
