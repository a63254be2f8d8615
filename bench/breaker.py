"""The circuit breaker: what counting sites costs, and how a hold, a release and a new winner of many go out.

python bench/breaker.py [--pages 20000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from result_files import Table, write_result

from dustream.core.pipeline import pipeline
from dustream.core.processor import Processor, Send, TaskState
from dustream.core.settings import Settings
from dustream.core.text.signature import sign
from dustream.core.topology import ProcessorSpec, Topology
from dustream.schemas.pages import Crawl, Decision
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.store.rocks import RocksStore

CHUNK = 500
COLUMNS = ["", "s", "messages", "to sites", "statuses", "largest step", "cluster updates", "largest update", "sites ms"]


class Measured:
    """A processor that counts what its steps say."""

    def __init__(self, inner: Processor, counts: Counter[str]) -> None:
        self._inner = inner
        self._counts = counts

    def open(self, state: TaskState) -> None:
        self._inner.open(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._inner.process(state, messages)
        counts = self._counts
        said = sum(send.topic == "duplicate.status" for send in sends)
        members = [len(send.message.members) for send in sends if send.topic == "cluster.updates"]
        counts["statuses"] += said
        counts["updates"] += len(members)
        counts["largest step"] = max(counts["largest step"], said)
        counts["largest update"] = max(counts["largest update"], *members, 0)
        counts["to sites"] += sum(send.topic == "sites" for send in sends)
        return sends


def measured(topology: Topology, counts: Counter[str]) -> Topology:
    def wrap(spec: ProcessorSpec) -> ProcessorSpec:
        make: Callable[[], Processor] = spec.make
        return replace(spec, make=lambda: Measured(make(), counts)) if spec.name == "pages" else spec

    return Topology(topology.topics, tuple(wrap(spec) for spec in topology.processors))


def text(number: int, copy: bool) -> str:
    return " ".join(f"w{number}x{n}" for n in range(2 * copy, 120 + 2 * copy))


def crawls(site: str, count: int, *, copy: bool, popularity: float | None = None) -> Iterator[Crawl]:
    for number in range(count):
        signature = sign(text(number, copy), "en")
        yield Crawl(f"http://{site}/{number}", 1 + number, "content", signature, popularity=popularity)


class Bench:
    """One pipeline, and a line for each thing done to it."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._counts: Counter[str] = Counter()
        self._engine = EmbeddedEngine(measured(pipeline(settings), self._counts), RocksStore(folder))
        self.rows: list[list[Any]] = []

    def feed(self, what: str, messages: Sequence[Any]) -> None:
        self._counts.clear()
        handled, seconds = sum(self._engine.messages.values()), dict(self._engine.seconds)
        started = time.process_time()
        chunks = (messages[at : at + CHUNK] for at in range(0, len(messages), CHUNK))
        self._engine.run(Feed([Send("pages", each.url, each) for each in chunk]) for chunk in chunks)
        took = time.process_time() - started
        counts = self._counts
        handled = sum(self._engine.messages.values()) - handled
        sites_ms = 1000 * (self._engine.seconds["sites"] - seconds["sites"])
        names = ("to sites", "statuses", "largest step", "updates", "largest update")
        row = [what, round(took, 2), handled, *(counts[name] for name in names), round(sites_ms)]
        print(*row, sep="\t", flush=True)
        self.rows.append(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    count = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Settings(), Path(folder))
        run(bench, count)
    if count == parser.get_default("pages"):
        write_result("breaker", [Table("the circuit breaker: processor seconds and messages", COLUMNS, bench.rows)])


def run(bench: Bench, count: int) -> None:
    print(*COLUMNS, sep="\t")
    bench.feed(f"{count:,} pages of a source", list(crawls("big.example", count, copy=False, popularity=1e6)))
    bench.feed(f"{count:,} near copies on another site: held", list(crawls("small.example", count, copy=True)))
    bench.feed("an operator releases the site", [Decision("http://small.example/", 1, "site", 0.0)])
    bench.feed("and takes it back", [Decision("http://small.example/", 2, "site", None)])
    same = [replace_url(crawl, f"http://same.example/{n}") for n, crawl in enumerate([one_page()] * count)]
    bench.feed(f"{count:,} exact copies on one site", same)
    best = Crawl("http://best.example/", 10**6, "content", one_page().signature, popularity=1e9)
    bench.feed("a better winner of them all comes: held", [best])
    bench.feed("and dies", [Crawl("http://best.example/", 10**6 + 1, "gone")])


def one_page() -> Crawl:
    return Crawl("", 1, "content", sign(text(10**9, False), "en"))


def replace_url(crawl: Crawl, url: str) -> Crawl:
    return Crawl(url, crawl.version, "content", crawl.signature)


if __name__ == "__main__":
    main()
