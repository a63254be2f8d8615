"""Which pages win: orders of the winner criteria side by side, on real collections.

    python bench/winners.py

Each collection goes once through `--once`, with one market for each order. Counted are the groups in which pages tell
which of them is the canonical one, and how often the winner is such a page; and, of manuals in versions, how many pages
of the newest version are dropped for a page of an older one. Figures go to bench/results/winners.json.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pages import REAL_FILES, data_folder, real_pages
from result_files import Table, write_result

from dustream.core.intake import take_in
from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import PAGES
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.urls.sites import site_of
from dustream.core.winners import Market
from dustream.schemas.pages import Crawl
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.feed import Feed
from dustream.streams.once.engine import OnceEngine

PLACES = ("https", "static", "depth", "url_length", "url_hash")
ORDERS = {
    "without": ("preferred_host", "popularity", *PLACES),
    "canonical": ("preferred_host", "canonical", "popularity", *PLACES),
    "after https": ("preferred_host", "popularity", "https", "canonical", *PLACES[1:]),
    "after depth": ("preferred_host", "popularity", *PLACES[:3], "canonical", *PLACES[3:]),
}
# The version in the URL of a manual's page; `stable`, `latest` and `dev` are versions, too.
VERSION = re.compile(r"/(?:networkx-)?(\d+(?:\.\d+)*|stable|latest|dev|current)/")
NEWEST = {"A_networkx_doc": "stable", "A_kafka_site": "39", "A_dolphinscheduler_zh_en": "latest"}


class Kept(NamedTuple):
    """One order on one collection."""

    groups: int
    self_named: int
    self_wins: int
    other_wins: int
    newest: int
    newest_dropped: int
    to_other_sites: int


def version_of(url: str) -> str | None:
    found = VERSION.search(url)
    return found[1] if found else None


def read(name: str) -> list[Crawl]:
    events = list(real_pages(name))
    return take_in(events, Settings(containment="off").text_source).crawls


def statuses(crawls: list[Crawl]) -> Iterator[DuplicateStatus]:
    markets = tuple(Market(name=name, criteria=criteria) for name, criteria in ORDERS.items())
    engine = OnceEngine(Settings(containment="off", site_share_max=1, markets=markets), MemorySpool)
    engine.run([Feed([Send(PAGES, crawl.url, crawl) for crawl in crawls])])
    return engine.statuses()


def kept_by(order: str, name: str, statuses_found: list[DuplicateStatus], canonical: dict[str, str]) -> Kept:
    groups: dict[str, list[DuplicateStatus]] = {}
    for status in statuses_found:
        if status.group is not None and status.role in ("winner", "duplicate"):
            groups.setdefault(status.group, []).append(status)
    named = [members for members in groups.values() if any(canonical[each.url] == "self" for each in members)]
    winners = Counter(canonical[url] for url in _winners(order, statuses_found))
    newest = [each for members in groups.values() for each in members if version_of(each.url) == NEWEST.get(name, "-")]
    return Kept(
        groups=len(groups),
        self_named=len(named),
        self_wins=sum(any(canonical[url] == "self" for url in _winners(order, members)) for members in named),
        other_wins=winners["other"],
        newest=len(newest),
        newest_dropped=sum(_is_dropped_for_older(order, each) for each in newest),
        to_other_sites=sum(_loses_to_other_site(order, each) for each in statuses_found),
    )


def _winners(order: str, statuses_found: list[DuplicateStatus]) -> list[str]:
    return [each.url for each in statuses_found if each.markets is not None and each.markets[order].role == "winner"]


def _is_dropped_for_older(order: str, status: DuplicateStatus) -> bool:
    verdict = (status.markets or {})[order]
    return verdict.role == "duplicate" and version_of(verdict.winner or "") != version_of(status.url)


def _loses_to_other_site(order: str, status: DuplicateStatus) -> bool:
    verdict = (status.markets or {}).get(order)
    lost = verdict is not None and verdict.role == "duplicate"
    return lost and site_of(verdict.winner or "") != site_of(status.url)  # type: ignore[union-attr]


def main() -> int:
    if data_folder() is None:
        print("no real pages: name their folder in DUSTREAM_DATA")
        return 0
    classes = Table("what rel=canonical says of the pages", ["collection", "pages", "self", "none", "other"], [])
    orders = Table(
        "orders of the winner criteria",
        ["collection", "order", "groups", "with a page that names itself", "such a page wins", "winners that name "
         "another page", "pages of the newest version in groups", "dropped for another version", "lost to other sites"],
        [],
    )  # fmt: skip
    for name in REAL_FILES:
        crawls = read(name)
        canonical: dict[str, str] = {crawl.url: crawl.canonical for crawl in crawls}
        counts = Counter(canonical.values())
        classes.rows.append([name, len(canonical), counts["self"], counts["none"], counts["other"]])
        statuses_found = list(statuses(crawls))
        orders.rows.extend([[name, order, *kept_by(order, name, statuses_found, canonical)] for order in ORDERS])
        print(f"{name} done", file=sys.stderr, flush=True)
    for table in (classes, orders):
        print(f"\n{table.title}\n{table.markdown()}")
    write_result("winners", [classes, orders])
    return 0


if __name__ == "__main__":
    sys.exit(main())
