"""Zhu et al., Figure 6, measured: processor seconds of each tier-2 task, for 1 to 64 partitions and for each map.

    python bench/speedup.py [--pages N] [--real]

Pages are stored in tier 2 (embedded engine, in memory, nothing behind it, no search for containers), and each call of a
tier-2 task is timed by the processor time of its thread. *Speedup*: seconds of the only task at one partition over
those of the busiest task: what a cluster with a machine for each task gains. *Total over busiest*: the same within one
run, which leaves out the extra work of probes. Processor time grows with the load of the machine, so one partition is
measured before and after each map, and the mean counts. The pages are those that a generated recrawl as in Table 1 ends
with, many of them near the threshold; with --real, those of the collections that DUSTREAM_DATA names. Maps are learned
from the same pages. Figures go to bench/results/speedup.json, with --real to speedup-real.json.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from pages import sample_pages
from partitions import KINDS, TAU, Kind
from recrawl_streams import generated
from result_files import Table, write_result

from dustream.core.intake import take_in
from dustream.core.pages.rows import PageRow
from dustream.core.partitioning import tie_of
from dustream.core.pipeline import PAGES, TIER2, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.partition_map import PartitionMap, default_map
from dustream.core.tier2.points import PointBatch, batch_of
from dustream.core.topology import Topology
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Crawl
from dustream.schemas.tier2 import StoreVertex
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.store.memory import MemoryStore

PARTITION_COUNTS = (2, 4, 8, 16, 32, 64)
FEED_PAGES = 512
COMPILE_PAGES = 2_000
MARKETS = Markets()
SETTINGS = Settings(containment="off")


class Collection(NamedTuple):
    """Signed pages: what `pages` sends to tier 2, but for the probes, and where the pages stand for a map."""

    name: str
    stores: list[StoreVertex]
    points: PointBatch

    @classmethod
    def of(cls, name: str, crawls: list[Crawl]) -> Collection:
        signatures = [crawl.signature for crawl in crawls if crawl.signature is not None]
        points = batch_of([shingle_array(each.shingles) for each in signatures], [tie_of(each.url) for each in crawls])
        return cls(name, [*map(store_of, crawls)], points)

    def sends(self, cells: PartitionMap) -> list[Send]:
        homes, contacted = cells.routes(self.points)
        contacted[np.arange(len(homes)), homes] = False
        return [
            Send(TIER2, home, structs.replace(store, probes=tuple(np.flatnonzero(others).tolist())))
            for home, others, store in zip(homes.tolist(), contacted, self.stores, strict=True)
        ]


def store_of(crawl: Crawl) -> StoreVertex:
    assert crawl.signature is not None
    vertex = vertex_name(crawl.version, crawl.url, crawl.version)
    keys = MARKETS.keys(crawl.url, PageRow(crawl.version, crawl.version, canonical=crawl.canonical), vertex)
    return StoreVertex(vertex, crawl.signature, keys, probes=())


def generated_pages(count: int) -> Collection:
    last = {crawl.url: crawl for crawl in generated(count)}
    crawls = [crawl for crawl in last.values() if crawl.signature is not None]
    return Collection.of(f"{len(crawls):,} generated pages", crawls)


def pages_of_collections(count: int) -> Collection:
    what, events = sample_pages(count)
    crawls = take_in(events, SETTINGS.text_source).crawls
    last = {crawl.url: crawl for crawl in crawls if crawl.signature is not None}
    return Collection.of(what, list(last.values()))


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


def seconds_by_task(pages: Collection, cells: PartitionMap) -> list[float]:
    seconds: Counter[int] = Counter()
    settings = structs.replace(SETTINGS, partitions=cells.partitions)
    engine = EmbeddedEngine(tier2_alone(settings, cells, seconds), MemoryStore())
    sends = pages.sends(cells)
    gc.collect()
    gc.disable()  # else it is timed in whichever task it falls
    engine.run(Feed(sends[at : at + FEED_PAGES]) for at in range(0, len(sends), FEED_PAGES))
    gc.enable()
    return [seconds[partition] for partition in range(cells.partitions)]


def measured(pages: Collection, kind: Kind | None) -> list[list[float]]:
    """Seconds of each task, for each number of partitions; without a kind, under the map learned from nothing."""
    maps = (default_map(p, TAU) if kind is None else kind.build(pages.points, p) for p in PARTITION_COUNTS)
    return [seconds_by_task(pages, cells) for cells in maps]


def figure_6(pages: Collection) -> list[Table]:
    head = ["map", "seconds at one partition", *map(str, PARTITION_COUNTS)]
    names = ("Figure 6: speedup", "total over busiest", "total seconds of all tasks")
    tables = [Table(f"{name}; {pages.name}", head, []) for name in names]
    kinds: list[Kind | None] = [*KINDS, None]
    before = sum(seconds_by_task(pages, default_map(1, TAU)))
    for kind in kinds:
        found = measured(pages, kind)
        after = sum(seconds_by_task(pages, default_map(1, TAU)))
        one, before = (before + after) / 2, after
        rows = [
            [one / max(each) for each in found],
            [sum(each) / max(each) for each in found],
            [sum(each) for each in found],
        ]
        for table, row in zip(tables, rows, strict=True):
            name = "default, from nothing" if kind is None else kind.name
            table.rows.append([name, *(round(each, 2) for each in (one, *row))])
            print(table.rows[-1], file=sys.stderr, flush=True)
    return tables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000, help="about so many (default 100,000)")
    parser.add_argument("--real", action="store_true", help="pages of real collections instead of generated ones")
    args = parser.parse_args()
    seconds_by_task(generated_pages(COMPILE_PAGES), default_map(2, TAU))  # compiles
    pages = pages_of_collections(args.pages) if args.real else generated_pages(args.pages)
    gc.freeze()
    tables = figure_6(pages)
    for table in tables:
        print(f"\n{table.title}\n\n{table.markdown()}")
    write_result("speedup-real" if args.real else "speedup", tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
