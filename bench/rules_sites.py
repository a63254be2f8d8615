"""Generated sites as Lei's Table 1 has them: many URLs, 63 % of them duplicates, and rules that are partly wrong.

A site has sections, each with a kind of duplicate URL of its own. In a section of `wrong_percent` that share of the
duplicate URLs shows another page than the URL they look like: a rule for the section has false positives, more than
one threshold allows and fewer than another. Deterministic: a site is its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from dustream.core.rules.learn import SiteUrl
from dustream.streams.generate.planted_sites import KINDS, Draw

SECTIONS = 12
WRONG_PERCENTS = (0, 0, 0, 1, 2, 3, 4, 6, 8, 15, 30, 60)
COPIES_MAX = 12
LARGE_CLUSTER_EVERY = 5_000
LARGE_CLUSTER_URLS = 1_500


class SiteSize(NamedTuple):
    number: int
    urls: int


def site_urls(size: SiteSize) -> Iterator[SiteUrl]:
    """The URLs of a site, page by page."""
    draw = Draw(1_000 + size.number)
    seen: set[str] = set()
    for page in count(1):
        for entry in _page(draw, size.number, page):
            if entry.url not in seen:
                seen.add(entry.url)
                yield entry
        if len(seen) >= size.urls:
            return


def _page(draw: Draw, number: int, page: int) -> Iterator[SiteUrl]:
    section = page % SECTIONS
    kind = KINDS[(number * 5 + section * 7) % len(KINDS)]
    wrong_percent = WRONG_PERCENTS[(section + number) % len(WRONG_PERCENTS)]
    start = f"http://site{number}.com/s{section}{kind.name[0]}/"
    path = kind.path(page)
    yield SiteUrl(start + path, str(page))
    copies = LARGE_CLUSTER_URLS if page % LARGE_CLUSTER_EVERY == 0 else draw.below(COPIES_MAX)
    for copy in range(copies):
        for variant in kind.variants(draw, path):
            is_other = draw.chance(wrong_percent)
            yield SiteUrl(start + variant, f"{page} {copy}" if is_other else str(page))
