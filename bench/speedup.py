"""Zhu et al., Figure 6, measured: processor seconds of each tier-2 task, for 1 to 64 partitions and for each map.

    python bench/speedup.py [--pages N]

Pages are stored in tier 2 (embedded engine, in memory, nothing behind it), and each call of a tier-2 task is timed by
the processor time of its thread. *Speedup*: seconds of the only task at one partition (the median of three runs) over
those of the busiest task: what a cluster with a machine for each task gains. *Total over busiest*: the same within one
run, which leaves out the extra work of probes. Real pages where DUSTREAM_DATA names them, else generated ones. Maps are
learned from the same pages. Figures go to bench/results/speedup.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from pages import sample_pages
from partitions import KINDS, TAU, Kind
from result_files import Table, write_result

from dustream.core.intake import take_in
from dustream.core.pages.rows import PageRow
from dustream.core.partitioning import tie_of
from dustream.core.pipeline import PAGES, TIER2, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import PartitionMap, default_map
from dustream.core.tier2.points import PointBatch, batch_of
from dustream.core.topology import Topology
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Crawl
from dustream.schemas.tier2 import Store
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.store.memory import MemoryStore

PARTITION_COUNTS = (2, 4, 8, 16, 32, 64)
FEED_PAGES = 512
LEFT_OUT = ("Zhu 2-D, 32 intervals, Morton", "Zhu 3-D, 16 intervals, Morton")  # between their neighbours
MARKETS = Markets()


class Timed:
    """A processor whose calls are timed, by partition."""

    def __init__(self, processor: Any, seconds: Counter[int]) -> None:
        self._processor = processor
        self._seconds = seconds

    def process(self, state: Any, messages: Sequence[Any]) -> list[Send]:
        started = time.thread_time()
        try:
            return list(self._processor.process(state, messages))
        finally:
            self._seconds[state.partition] += time.thread_time() - started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)


class Deaf:
    """Stands where `pages` is, and does nothing with what tier 2 finds."""

    def open(self, state: Any) -> None: ...
    def process(self, state: Any, messages: Sequence[Any]) -> list[Send]:
        return []


def tier2_alone(settings: Settings, cells: PartitionMap, seconds: Counter[int]) -> Topology:
    plain = pipeline(settings, cells)
    specs = {spec.name: spec for spec in plain.processors}
    tier2 = specs[TIER2]
    timed = replace(tier2, make=lambda: Timed(tier2.make(), seconds))
    return Topology(plain.topics, (replace(specs[PAGES], make=Deaf), timed))


def seconds_by_task(crawls: list[Crawl], partitions: int, cells: PartitionMap) -> list[float]:
    seconds: Counter[int] = Counter()
    settings = Settings(partitions=partitions)
    engine = EmbeddedEngine(tier2_alone(settings, cells, seconds), MemoryStore())
    stores = [Send(TIER2, *store_of(crawl, cells)) for crawl in crawls]
    engine.run(Feed(stores[at : at + FEED_PAGES]) for at in range(0, len(stores), FEED_PAGES))
    return [seconds[partition] for partition in range(partitions)]


def store_of(crawl: Crawl, cells: PartitionMap) -> tuple[int, Store]:
    """What `pages` sends to a page's home."""
    signature = crawl.signature
    assert signature is not None
    vertex = vertex_name(crawl.version, crawl.url, crawl.version)
    home, probes = cells.route(np.frombuffer(signature.shingles, "<u8"), tie_of(crawl.url), signature.lang)
    keys = MARKETS.keys(crawl.url, PageRow(crawl.version, crawl.version, canonical=crawl.canonical), vertex)
    return home, Store(vertex, signature, keys, probes)


def points_of(crawls: list[Crawl]) -> PointBatch:
    sets = [np.frombuffer(crawl.signature.shingles, "<u8") for crawl in crawls if crawl.signature is not None]
    return batch_of(sets, [tie_of(crawl.url) for crawl in crawls])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=8_000, help="about so many (default 8,000)")
    args = parser.parse_args()
    what, events = sample_pages(args.pages)
    crawls = [crawl for crawl in take_in(events, Settings(containment="off").text_source).crawls if crawl.signature]
    points = points_of(crawls)
    seconds_by_task(crawls[:2_000], 2, default_map(2, TAU))  # compiles
    head = ["map", *map(str, PARTITION_COUNTS)]
    kinds: list[Kind | None] = [*(kind for kind in KINDS if kind.name not in LEFT_OUT), None]
    one = median(sum(seconds_by_task(crawls, 1, default_map(1, TAU))) for _ in range(3))
    tables = {
        name: Table(f"{name}; {what}; {one:.2f} s at one partition", head, [])
        for name in ("Figure 6: speedup", "total over busiest", "total seconds of all tasks")
    }
    for kind in kinds:
        name = "default, from nothing" if kind is None else kind.name
        found = {p: measured(crawls, points, p, kind) for p in PARTITION_COUNTS}
        rows = [
            [round(one / max(each), 2) for each in found.values()],
            [round(sum(each) / max(each), 2) for each in found.values()],
            [round(sum(each), 2) for each in found.values()],
        ]
        for table, row in zip(tables.values(), rows, strict=True):
            table.rows.append([name, *row])
        print(name, *rows, file=sys.stderr, flush=True)
    for table in tables.values():
        print(f"\n{table.title}\n\n{table.markdown()}")
    write_result("speedup", list(tables.values()))
    return 0


def measured(crawls: list[Crawl], points: PointBatch, partitions: int, kind: Kind | None) -> list[float]:
    """Seconds of each task."""
    cells = default_map(partitions, TAU) if kind is None else kind.build(points, partitions)
    return seconds_by_task(crawls, partitions, cells)


if __name__ == "__main__":
    sys.exit(main())
