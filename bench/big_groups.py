"""Giant groups on the embedded engine: what joining, leaving, a winner's death and its return cost.

    python bench/big_groups.py [--members 300000] [--chain 100000] [--quick] [--only near,copies,hub,chain]

Four shapes, each in a process of its own (so that peak memory is its own), on RocksDB:
- near: near duplicates, each matches each (100 shingles in common, one of its own);
- copies: exact copies of one page;
- hub: pages that hang on one page and not on each other; it comes last, goes and returns. Their texts have nothing in
  common, the edges are given to the groups as tier 2 would send them: real pages around a hub are so similar to each
  other that tier 2 must compare all pairs;
- chain: each page matches its two neighbours only.

Pages come with shingle sets made directly: nothing here is spent on HTML. Times are processor time, RocksDB's threads
included; what the rules relearn meanwhile is shown apart. A *step* is what one message to one task causes; rows are
those it read, scanned or wrote, ms what the longest took. Steps of `tier2` and `groups` are watched one by one, the
other processors get their batches.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import result_files
from numpy.typing import NDArray

from dustream.core.pipeline import GROUPS, PAGES, RULES, TIER2, pipeline
from dustream.core.processor import Processor, Send, Table, TaskState
from dustream.core.settings import Settings
from dustream.core.text.minhash import minhash
from dustream.core.tier2.bands import MISS_PROBABILITY_MAX
from dustream.core.topology import ProcessorSpec, Topology
from dustream.core.vertex import url_of, vertex_name
from dustream.schemas.groups import Transfer
from dustream.schemas.pages import Crawl, Edge, Route
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature
from dustream.schemas.tier2 import StarUpdates
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import read_statuses
from dustream.streams.store.rocks import RocksStore

THRESHOLD = 0.9
FIRST_VERSION = 1_000
FEED_PAGES = 128
COMMIT_PAGES = 2_048
SLICES = 6
POPULAR = 1000.0
STEPPED = (TIER2, GROUPS)
CARRIERS = (Transfer, StarUpdates)  # the messages that hold a list


# ---------------------------------------------------------------- pages


def signature(elements: Sequence[int]) -> PageSignature:
    shingles = np.sort(spread(np.array(elements, dtype=np.uint64)))
    data = shingles.astype("<u8").tobytes()
    content_hash = hashlib.blake2b(data, digest_size=16).digest()
    return PageSignature(SIGNATURE_VERSION, content_hash, data, minhash(shingles).tobytes(), (), len(shingles), "en")


def spread(elements: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Elements stand for hashed shingles (the finaliser of splitmix64)."""
    mixed = (elements + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(31))


class Shape(NamedTuple):
    """The pages of a giant group, by number."""

    name: str
    members: int

    def url(self, number: int) -> str:
        return f"http://{self.name}.example/{number:06d}"

    def elements(self, number: int) -> Sequence[int]:
        if self.name == "copies":
            return range(100)
        if self.name == "chain":  # Jaccard 190/210 to the neighbours, 180/220 to the next but one
            return range(10 * number, 10 * number + 200)
        if self.name == "hub":
            return range(20 * number, 20 * number + 20)
        return [*range(100), 1_000 + number]

    @property
    def winner(self) -> int:
        """Of near duplicates and copies; nobody is everybody's winner in the others."""
        return self.members // 3

    def page(self, number: int, version: int) -> Send:
        popularity = POPULAR if number == self.winner else None
        page = Crawl(self.url(number), version, "content", signature(self.elements(number)), popularity=popularity)
        return Send(PAGES, page.url, page)

    def gone(self, number: int, version: int) -> Send:
        return Send(PAGES, self.url(number), Crawl(self.url(number), version, "gone"))

    def edges(self, version: int) -> list[Send]:
        """Between the hub, the last page, in this version of it and all others."""
        hub = vertex_name(FIRST_VERSION + self.members - 1, self.url(self.members - 1), version)
        others = (vertex_name(FIRST_VERSION + n, self.url(n), FIRST_VERSION + n) for n in range(self.members - 1))
        return [Send(PAGES, url_of(hub), Route(hub, Edge(other, THRESHOLD))) for other in others]

    def operations(self) -> list[tuple[str, int]]:
        """What is done to the group once it is there, and to which page: it goes, then it returns."""
        if self.name == "chain":
            return [("the first page", 0), ("the last", self.members - 1), ("the middle one", self.members // 2)]
        if self.name == "hub":
            return [("a leaf", self.members // 2), ("the hub", self.members - 1)]
        return [("a middle page", self.members // 2), ("the winner", self.winner)]


# ---------------------------------------------------------------- watching


class CountedTable:
    """A table, and how many rows went through it."""

    def __init__(self, table: Table[Any], watch: Watch) -> None:
        self._table = table
        self._watch = watch

    def get(self, key: str) -> Any:
        self._watch.rows += 1
        return self._table.get(key)

    def put(self, key: str, row: Any) -> None:
        self._watch.rows += 1
        self._table.put(key, row)

    def delete(self, key: str) -> None:
        self._watch.rows += 1
        self._table.delete(key)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Any]]:
        for item in self._table.scan(prefix, after):
            self._watch.rows += 1
            yield item


class CountedState:
    """A task's tables, counted."""

    def __init__(self, state: TaskState, watch: Watch) -> None:
        self._state = state
        self._watch = watch

    @property
    def partition(self) -> int:
        return self._state.partition

    def table(self, name: str) -> CountedTable:
        return CountedTable(self._state.table(name), self._watch)


@dataclasses.dataclass
class Watch:
    """The largest step and the largest message since the last `reset`, over all tasks."""

    rows: int = 0
    step_rows: int = 0
    step: str = ""
    step_sends: int = 0
    step_s: float = 0.0
    message_bytes: int = 0
    rules_s: float = 0.0

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]

    def note(self, task: str, message: Any, sends: list[Send], seconds: float) -> None:
        self.step_s = max(self.step_s, seconds)
        if self.rows > self.step_rows:
            self.step_rows, self.step = self.rows, f"{task} {type(message).__name__}"
        self.rows = 0
        self.step_sends = max(self.step_sends, len(sends))
        for send in sends:
            if type(send.message) in CARRIERS:
                self.message_bytes = max(self.message_bytes, len(msgspec.msgpack.encode(send.message)))


class Watched:
    """A processor, one message at a time."""

    def __init__(self, name: str, processor: Processor, watch: Watch) -> None:
        self._name = name
        self._processor = processor
        self._watch = watch

    def open(self, state: TaskState) -> None:
        self._processor.open(CountedState(state, self._watch))

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        out = []
        for message in messages:
            started = time.process_time()
            sends = self._processor.process(state, [message])
            self._watch.note(self._name, message, sends, time.process_time() - started)
            out += sends
        return out


class TimedRules:
    """The rules processor: what it takes is no part of a group's cost."""

    def __init__(self, processor: Processor, watch: Watch) -> None:
        self._processor = processor
        self._watch = watch

    def open(self, state: TaskState) -> None:
        self._processor.open(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        started = time.process_time()
        try:
            return self._processor.process(state, messages)
        finally:
            self._watch.rules_s += time.process_time() - started


def watched(topology: Topology, watch: Watch) -> Topology:
    def make(spec: ProcessorSpec) -> Processor:
        if spec.name == RULES:
            return TimedRules(spec.make(), watch)
        return Watched(spec.name, spec.make(), watch) if spec.name in STEPPED else spec.make()

    specs = tuple(dataclasses.replace(spec, make=lambda spec=spec: make(spec)) for spec in topology.processors)
    return dataclasses.replace(topology, processors=specs)


# ---------------------------------------------------------------- one shape


class Line(NamedTuple):
    """What one operation cost."""

    operation: str
    pages: int
    cpu_us_a_page: float
    rules_us_a_page: float
    messages_a_page: float
    step_rows: int
    step: str
    step_ms: int
    step_sends: int
    message_bytes: int
    peak_mb: int


class Giant:
    """One group on the engine."""

    def __init__(self, shape: Shape, folder: Path, partitions: int) -> None:
        self.shape = shape
        self.watch = Watch()
        self.store = RocksStore(folder)
        settings = Settings(threshold=THRESHOLD, partitions=partitions, group_size_max=10_000_000)
        self.engine = EmbeddedEngine(watched(pipeline(settings), self.watch), self.store)

    def build(self, numbers: range) -> tuple[float, int]:
        """Processor time and messages."""
        seconds, before = 0.0, sum(self.engine.messages.values())
        for start in range(numbers.start, numbers.stop, COMMIT_PAGES):
            pages = [
                self.shape.page(n, FIRST_VERSION + n) for n in range(start, min(numbers.stop, start + COMMIT_PAGES))
            ]
            feeds = [pages[at : at + FEED_PAGES] for at in range(0, len(pages), FEED_PAGES)]
            seconds += self.feed(feeds)
        return seconds, sum(self.engine.messages.values()) - before

    def feed(self, feeds: list[list[Send]]) -> float:
        started = time.process_time()
        self.engine.run(Feed(sends) for sends in feeds)
        return time.process_time() - started

    def line(self, operation: str, pages: int, seconds: float, messages: int) -> Line:
        w = self.watch
        us_a_page, rules_us = ((seconds - w.rules_s) / pages * 1e6, w.rules_s / pages * 1e6)
        line = Line(
            operation, pages, round(us_a_page, 1), round(rules_us, 1), round(messages / pages, 1), w.step_rows, w.step,
            round(w.step_s * 1e3), w.step_sends, w.message_bytes, peak_mb(),
        )  # fmt: skip
        w.reset()
        return line

    def change(self, operation: str, sends: list[Send]) -> Line:
        before = sum(self.engine.messages.values())
        seconds = self.feed([sends])
        return self.line(operation, 1, seconds, sum(self.engine.messages.values()) - before)


def peak_mb() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def lines(shape: Shape, folder: Path, partitions: int) -> Iterator[Line]:
    warm_up(shape, folder / "warm", partitions)
    giant = Giant(shape, folder / "state", partitions)
    bounds = [shape.members * at // SLICES for at in range(SLICES + 1)]
    for start, stop in pairwise(bounds):
        yield giant.line(f"join {start:,}-{stop:,}", stop - start, *giant.build(range(start, stop)))
    if shape.name == "hub":
        yield giant.change("edges to the hub", shape.edges(FIRST_VERSION + shape.members - 1))
    for version, (who, number) in enumerate(shape.operations(), 10**6):
        yield giant.change(f"{who} goes", [shape.gone(number, 2 * version)])
        edges = shape.edges(2 * version + 1) if who == "the hub" else []
        yield giant.change(f"{who} returns", [shape.page(number, 2 * version + 1), *edges])
    check(giant)


def warm_up(shape: Shape, folder: Path, partitions: int) -> None:
    """Compiled code is loaded before anything is measured."""
    giant = Giant(shape, folder, partitions)
    giant.build(range(200))
    giant.change("", [shape.gone(100, 10**7)])
    giant.store.close()


def check(giant: Giant) -> None:
    """All pages are in one group again (a leaf of the hub that went has no edge any more), and have their winner.

    A chain may be broken where the search missed a link: at this similarity it may miss one in 10,000.
    """
    shape = giant.shape
    groups, roles = Counter[str | None](), Counter[str]()
    for status in read_statuses(giant.store):
        groups[status.group] += 1
        roles[status.role] += 1
    if shape.name == "chain":
        assert len(groups) <= 1 + shape.members * MISS_PROBABILITY_MAX, groups.most_common(3)
    else:
        assert groups.most_common(1) == [(shape.url(0), shape.members - (shape.name == "hub"))], groups.most_common(3)
    assert roles.keys() <= {"winner", "duplicate", "unique"} and sum(roles.values()) == shape.members, roles
    assert shape.name in ("chain", "hub") or roles["winner"] == 1, roles


# ---------------------------------------------------------------- the table


HEAD = (
    "operation", "pages", "µs a page", "rules", "messages", "rows", "in a step of", "ms", "sends", "bytes", "peak MB",
)  # fmt: skip


def run_one(shape: Shape, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(shape, Path(folder), partitions):
            print(json.dumps(list(line)), flush=True)


def run_in_process(name: str, pages: int, partitions: int) -> result_files.Table:
    """Each shape in a process of its own: its peak of memory is its own, too."""
    sizes = ["--members", str(pages), "--chain", str(pages), "--partitions", str(partitions)]
    command = [sys.executable, __file__, "--one", name, *sizes]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    rows = []
    for line in process.stdout:
        rows.append(json.loads(line))
        print(f"{name}: {rows[-1]}", flush=True)
    if process.wait():
        raise SystemExit(f"{name} failed")
    return result_files.Table(f"{name}, {pages:,} pages", list(HEAD), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=300_000, help="pages of near, copies and hub")
    parser.add_argument("--chain", type=int, default=100_000, help="pages of the chain")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--only", default="near,copies,hub,chain", help="shapes, with commas between them")
    parser.add_argument("--quick", action="store_true", help="3,000 pages each, no result file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        run_one(Shape(args.one, args.members), args.partitions)
        return
    tables = []
    for name in args.only.split(","):
        pages = 3_000 if args.quick else args.chain if name == "chain" else args.members
        tables.append(run_in_process(name, pages, args.partitions))
        print(f"\n{tables[-1].title}\n\n{tables[-1].markdown()}\n", flush=True)
    if not args.quick:
        result_files.write_result("big_groups", tables)


if __name__ == "__main__":
    main()
