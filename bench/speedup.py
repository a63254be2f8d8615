"""Zhu et al., Figure 6, measured: processor seconds of each tier-2 task, for 1 to 64 partitions and for each map.

    python bench/speedup.py [--pages N]

Pages go through the pipeline (embedded engine, in memory, no rules), and each call of a tier-2 task is timed by the
processor time of its thread. *Speedup*: seconds of the only task at one partition (the median of three runs) over those
of the busiest task: what a cluster with a machine for each task gains. *Total over busiest*: the same within one run,
which leaves out the extra work of probes. Real pages where DUSTREAM_DATA names them, else generated ones. Maps are
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
from dustream.core.pipeline import PAGES, RULES, TIER2, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import PartitionMap, default_map
from dustream.core.tier2.points import PointBatch, batch_of, tie_of
from dustream.core.topology import Topology
from dustream.schemas.pages import Crawl
from dustream.streams.embedded.engine import EmbeddedEngine, Feed
from dustream.streams.store.memory import MemoryStore

PARTITION_COUNTS = (2, 4, 8, 16, 32, 64)
FEED_PAGES = 512


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


def timed_topology(settings: Settings, cells: PartitionMap, seconds: Counter[int]) -> Topology:
    plain = pipeline(settings, cells)
    processors = tuple(
        replace(spec, make=lambda spec=spec: Timed(spec.make(), seconds)) if spec.name == TIER2 else spec
        for spec in plain.processors
        if spec.name != RULES
    )
    return Topology(plain.topics, processors)


def seconds_by_task(crawls: list[Crawl], partitions: int, cells: PartitionMap) -> list[float]:
    seconds: Counter[int] = Counter()
    settings = Settings(partitions=partitions, containment="off", site_share_max=1)
    engine = EmbeddedEngine(timed_topology(settings, cells, seconds), MemoryStore())
    chunks = (crawls[at : at + FEED_PAGES] for at in range(0, len(crawls), FEED_PAGES))
    engine.run(Feed([Send(PAGES, crawl.url, crawl) for crawl in chunk]) for chunk in chunks)
    return [seconds[partition] for partition in range(partitions)]


def points_of(crawls: list[Crawl]) -> PointBatch:
    sets = [np.frombuffer(crawl.signature.shingles, "<u8") for crawl in crawls if crawl.signature is not None]
    return batch_of(sets, [tie_of(crawl.url) for crawl in crawls])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000, help="about so many (default 20,000)")
    args = parser.parse_args()
    what, events = sample_pages(args.pages)
    crawls = [crawl for crawl in take_in(events, Settings(containment="off").text_source).crawls if crawl.signature]
    points = points_of(crawls)
    seconds_by_task(crawls[:2_000], 2, default_map(2, TAU))  # compiles
    head = ["map", *map(str, PARTITION_COUNTS)]
    kinds: list[Kind | None] = [*KINDS, None]
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
