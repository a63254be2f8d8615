"""What an update costs the rules of a site, by the size of the sites: they are learned again from all that is known.

97 sites in one partition, a quarter of their pages in families of four: by chance, so that there is nothing to learn,
or as session ids make them, so that there is. Then rounds of 1,000 updates, half of them changed pages, half new ones,
each until all has come to rest. Only the rules processor runs, on RocksDB; times are processor time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from result_files import Table

from dustream.core.pipeline import UPDATES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.generate.planted_sites import Draw
from dustream.streams.store.rocks import RocksStore

SITES = 97
FAMILY = 4
UPDATES_A_ROUND = 1_000
ROUNDS = 3
CHUNK = 10_000

Place = Callable[[int], str]


def by_chance(page: int) -> str:
    """Members of a family have nothing in common."""
    return f"page/{Draw(page).below(10**9)}"


def by_session(page: int) -> str:
    """Pages of a family have the family's number; pages that stand alone their own."""
    return f"page?id=1{page}" if _is_alone(page) else f"page?id={page // FAMILY}&session={Draw(page).hex(8)}"


def _is_alone(page: int) -> bool:
    return page // FAMILY // SITES % 4 != 0


def updates_part(sizes: tuple[int, ...]) -> list[Table]:
    rows: list[list[object]] = []
    for name, place in {"families by chance": by_chance, "families by session": by_session}.items():
        _round_times(place, 2_000)  # compiles
        for urls in sizes:
            filled, seconds, rules = _round_times(place, urls)
            each = 1e6 * seconds / UPDATES_A_ROUND
            rows.append([name, urls, seconds, round(each), filled, round(1e6 * filled / urls), rules])
            print(" ", *rows[-1], flush=True)
    columns = ["", "URLs", "s", "µs an update", "from nothing, s", "µs a URL", "rule sets"]
    title = f"{UPDATES_A_ROUND:,} updates over {SITES} sites, until everything is at rest, the fastest of {ROUNDS}"
    return [Table(title, columns, rows)]


def _round_times(place: Place, urls: int) -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory() as folder:
        store = RocksStore(Path(folder))
        engine = EmbeddedEngine(pipeline(Settings(partitions=1)), store)
        filled = _spent(engine, (_member(place, page, 0) for page in range(urls)))
        rounds = [_spent(engine, _round(place, urls, number)) for number in range(1, ROUNDS + 1)]
        sets = sum(1 for _ in store.scan(b"view/url.rules/"))
        store.close()
    return filled, min(rounds), sets


def _round(place: Place, urls: int, number: int) -> list[tuple[str, ClusterMember]]:
    half = UPDATES_A_ROUND // 2
    changed = [_member(place, page, number) for page in range(number, urls, max(1, urls // half))]
    new = range(urls + half * (number - 1), urls + half * number)
    return [*changed[:half], *(_member(place, page, 0) for page in new)]


def _member(place: Place, page: int, version: int) -> tuple[str, ClusterMember]:
    """Families are of one site; a page that has changed is like no other."""
    family = page // FAMILY
    site = f"site{family % SITES}.example"
    winner = f"{page} {version}" if version or _is_alone(page) else f"family {family}"
    url = f"https://{site}/{place(page)}"
    return site, ClusterMember(url, (version, 0), winner, "duplicate", winner=winner, since=version)


def _spent(engine: EmbeddedEngine, members: Iterable[tuple[str, ClusterMember]]) -> float:
    """Until all has come to rest; the time of making the updates is not counted."""
    left = iter(members)
    feeds = []
    while some := list(islice(left, CHUNK)):
        by_site: dict[str, list[ClusterMember]] = {}
        for site, member in some:
            by_site.setdefault(site, []).append(member)
        updates = [ClusterUpdate(site=site, members=tuple(own)) for site, own in by_site.items()]
        feeds.append(Feed([Send(UPDATES, update.site, update) for update in updates]))
    start = time.process_time()
    engine.run(feeds)
    return time.process_time() - start
