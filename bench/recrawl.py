"""Pages that change: Zhu et al., Table 1, Figures 7 and 8, and what each kind of fetch costs.

    python bench/recrawl.py                everything, about an hour; writes bench/results/recrawl-*.json and docs/img
    python bench/recrawl.py --quick        small sizes, a few minutes; prints, writes plots only where --out says
    python bench/recrawl.py --only paths   one part (table-1, figure-7, figure-8, paths); the same

The truth is a centralised recomputation from scratch (recrawl_truth.py); the streams are those of recrawl_streams.py.
Times are processor time of one process; of the stages behind intake, on a RocksDB state.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from line_chart import line_chart
from recrawl_streams import Recrawl, first_fetches, flink, generated, url_of_page
from recrawl_truth import Answer, Collection, Errors, errors, match_count, recompute, said
from result_files import Table, write_result
from search import SimilarityIndex, synthetic_page, synthetic_shingles

from dustream.core.pipeline import PAGES, RULES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.forest import order_key
from dustream.core.tier2.partition_map import PartitionMap
from dustream.core.tier2.points import PointBatch, batch_of
from dustream.core.tier2.zhu_map import learn_zhu_map
from dustream.core.topology import Topology
from dustream.schemas.pages import Crawl
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import read_fetch_counts, read_statuses
from dustream.streams.store.rocks import RocksStore

DOCS = Path(__file__).resolve().parents[1] / "docs"
FEED_EVENTS = 128
PARTITIONS = (12, 24, 36)
SETTLED = ("settled_by_anchor", "settled_by_representative")
FAMILY_PAGES = 4
ZHU_RHO = 1.1
SAMPLE_PAGES = 20_000
GROWTH_THRESHOLD = 0.8
GROWTH_CHUNK = 10_000
START_MS = 1_600_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How much to run."""

    table_pages: int
    table_moments: int
    figure_7_pages: tuple[int, ...]
    figure_7_updates: int
    figure_8_generated_pages: int
    figure_8_moments: int
    distances: tuple[float, ...]
    path_pages: int
    path_events: int
    with_rules: bool = False


FULL = Sizes(
    table_pages=100_000,
    table_moments=4,
    figure_7_pages=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    figure_7_updates=1_000,
    figure_8_generated_pages=8_000,
    figure_8_moments=12,
    distances=(0.0, 0.005, 0.01, 0.02, 0.05, 0.1),
    path_pages=4_000,
    path_events=1_000,
)
QUICK = Sizes(2_000, 3, (1_000, 3_000, 10_000), 300, 2_000, 4, (0.0, 0.01, 0.05), 1_500, 300)


# ---- running a stream


class Run:
    """A stream into a fresh state."""

    def __init__(
        self, settings: Settings, store: RocksStore, with_rules: bool = False, cells: PartitionMap | None = None
    ) -> None:
        self._settings = settings
        self._store = store
        topology = pipeline(settings, cells)
        self.engine = EmbeddedEngine(topology if with_rules else without_rules(topology), store)
        self.seconds = 0.0

    def feed(self, crawls: Sequence[Crawl]) -> float:
        """Processor seconds until all has come to rest."""
        started = time.process_time()
        chunks = (crawls[at : at + FEED_EVENTS] for at in range(0, len(crawls), FEED_EVENTS))
        self.engine.run(Feed([Send(PAGES, crawl.url, crawl) for crawl in chunk]) for chunk in chunks)
        spent = time.process_time() - started
        self.seconds += spent
        return spent

    def answer(self) -> Answer:
        return said(read_statuses(self._store))

    @property
    def messages(self) -> dict[str, int]:
        return dict(self.engine.messages)

    @property
    def fetches(self) -> dict[str, int]:
        return read_fetch_counts(self._store, self._settings.partitions)


def without_rules(topology: Topology) -> Topology:
    """Verdicts alone: what learning adds, bench/rules.py measures, and `--with-rules`."""
    return Topology(topology.topics, tuple(spec for spec in topology.processors if spec.name != RULES))


@contextmanager
def running(settings: Settings, with_rules: bool = False, cells: PartitionMap | None = None) -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        store = RocksStore(Path(folder))
        try:
            yield Run(settings, store, with_rules, cells)
        finally:
            store.close()


class Moment(NamedTuple):
    """A point of a stream: how many events came before it, and what is true then."""

    events: int
    pages: int
    truth: Answer


def moments(crawls: Sequence[Crawl], count: int, tau: float) -> list[Moment]:
    collection, found, before = Collection(), [], 0
    for number in range(1, count + 1):
        events = len(crawls) * number // count
        collection.add(crawls[before:events])
        found.append(Moment(events, len(collection.pages), recompute(collection, tau)))
        before = events
    return found


@dataclass
class Measured:
    """One setting on one stream."""

    errors: list[Errors] = field(default_factory=list)
    fetches: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def all_moments(self) -> Errors:
        total = Errors()
        for each in self.errors:
            total = total.plus(each)
        return total

    @property
    def settled_percent(self) -> float:
        settled = sum(self.fetches.get(name, 0) for name in SETTLED)
        return 100.0 * settled / max(1, settled + self.fetches.get("changed", 0))


def measure(
    crawls: Sequence[Crawl], at: Sequence[Moment], settings: Settings, cells: PartitionMap | None = None
) -> Measured:
    result, before = Measured(), 0
    with running(settings, cells=cells) as run:
        for moment in at:
            run.feed(crawls[before : moment.events])
            result.errors.append(errors(run.answer(), moment.truth))
            before = moment.events
        result.fetches, result.messages, result.seconds = run.fetches, run.messages, run.seconds
    return result


# ---- the report


class Report:
    """Markdown on the terminal, tables for the result files, and pictures."""

    def __init__(self, docs: Path | None) -> None:
        self._docs = docs
        if docs is not None:
            (docs / "img").mkdir(parents=True, exist_ok=True)
        self.tables: list[Table] = []

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.tables.append(Table(title, list(head), [list(row) for row in rows]))
        self.say("| " + " | ".join(head) + " |")
        self.say("|" + "---|" * len(head))
        for row in rows:
            self.say("| " + " | ".join(row) + " |")
        self.say()

    def picture(self, name: str, svg: str) -> None:
        if self._docs is not None:
            (self._docs / "img" / f"{name}.svg").write_text(svg)
            self.say(f"![{name}](img/{name}.svg)\n")

    def take_tables(self) -> list[Table]:
        tables, self.tables = self.tables, []
        return tables


def percent(value: float) -> str:
    return f"{value:.3f} %" if value else "0"


def count_of(value: int) -> str:
    return f"{value:,}"


# ---- Table 1


def table_1(report: Report, sizes: Sizes) -> None:
    report.say("## Table 1: relative error in precision (REP) and recall (RER)\n")
    report.say(
        "Pairs of pages that share a group, and of a duplicate and its winner, against the recomputation from scratch\n"
        "at each moment, with 12, 24 and 36 partitions. *Ours*: the defaults. *Zhu's*: his map (3-D, 32 intervals,\n"
        f"Morton, ρ = {ZHU_RHO}, from the first {SAMPLE_PAGES:,} pages) and representatives. Zhu et al.: REP .8 to\n"
        "1.3 %, RER 1.5 to 1.74 %.\n"
    )
    table_1_of(report, "A generated recrawl", generated(sizes.table_pages), sizes)
    real = flink()
    if real is None:
        report.say("No real recrawl: DUSTREAM_DATA does not name the data.\n")
    else:
        table_1_of(report, "The recrawl of flink.apache.org, 2015 to 2024", real, sizes)


def table_1_of(report: Report, name: str, crawls: list[Crawl], sizes: Sizes) -> None:
    at = moments(crawls, sizes.table_moments, Settings().threshold)
    duplicates, pages = len(at[-1].truth.winners), len(at[-1].truth.groups)
    report.say(
        f"**{name}**: {len(crawls):,} events; at the end {pages:,} pages with content, {duplicates:,} duplicates; "
        f"{pairs_near(crawls)}.\n"
    )
    head = ["configuration", "partitions", "pairs", "error", *(count_of(moment.pages) for moment in at)]
    head += ["settled in tier 1", "CPU µs an event"]
    report.table(f"Table 1: {name}", head, [row for each in table_1_rows(crawls, at) for row in each])


def table_1_rows(crawls: list[Crawl], at: list[Moment]) -> Iterator[list[list[str]]]:
    """Of each configuration: both errors, of both kinds of pairs."""
    for name in ("ours", "Zhu's"):
        for partitions in PARTITIONS:
            settings, cells = Settings(partitions=partitions), None
            if name != "ours":
                settings = Settings(partitions=partitions, small_changes="representative")
                cells = learn_zhu_map(first_points(crawls), partitions, settings.threshold, rho=ZHU_RHO)
            measured = measure(crawls, at, settings, cells)
            costs = f"{measured.settled_percent:.1f} %", f"{measured.seconds / len(crawls) * 1e6:.0f}"
            rows = []
            for place, (pairs, error) in enumerate(product(("in a group", "with winner"), ("REP", "RER"))):
                values = [percent(each.percent[place]) for each in measured.errors]
                rows.append([name, f"{partitions}", pairs, error, *values, *costs])
            print(*rows, sep="\n", file=sys.stderr, flush=True)
            yield rows


def first_points(crawls: list[Crawl]) -> PointBatch:
    """The pages that a map is learned from."""
    signatures = [crawl.signature for crawl in crawls if crawl.signature is not None][:SAMPLE_PAGES]
    return batch_of([shingle_array(signature.shingles) for signature in signatures])


def pairs_near(crawls: list[Crawl]) -> str:
    """How many pairs lie just below and just above the threshold at the end."""
    collection = Collection()
    collection.add(crawls)
    below, at, above = (match_count(collection, tau) for tau in (0.88, 0.9, 0.92))
    return f"{below - at:,} pairs at .88 to .9 and {at - above:,} at .9 to .92, of {at:,} at .9 or more"


# ---- Figure 8


def figure_8(report: Report, sizes: Sizes) -> None:
    report.say("## Figure 8: updates settled in tier 1, and the error that costs\n")
    report.say(
        "Of the fetches that found another content than before, the share that never went to tier 2; errors added up\n"
        f"over {sizes.figure_8_moments} moments of the stream. Zhu et al. settle about 30 %.\n"
    )
    streams = {"generated": generated(sizes.figure_8_generated_pages)}
    real = flink()
    if real is not None:
        streams["flink"] = real
    settled = {name: figure_8_of(report, name, crawls, sizes) for name, crawls in streams.items()}
    distances = [f"{distance:g}" for distance in sizes.distances]
    chart = line_chart("Figure 8: updates settled in tier 1, %", "anchor distance", distances, settled)
    report.picture("recrawl-figure-8", chart)


def figure_8_of(report: Report, name: str, crawls: list[Crawl], sizes: Sizes) -> list[float]:
    """The share settled by each anchor distance."""
    at = moments(crawls, sizes.figure_8_moments, Settings().threshold)
    rows, shares = [], []
    for distance in sizes.distances:
        measured = measure(crawls, at, Settings(anchor_distance=distance))
        shares.append(measured.settled_percent)
        rows.append([f"anchor, {distance:g}", *figure_8_row(measured, len(crawls))])
    by_winner = measure(crawls, at, Settings(small_changes="representative"))
    rows.append(["representative (Zhu)", *figure_8_row(by_winner, len(crawls))])
    fetches = measure(crawls, at[-1:], Settings()).fetches
    report.say(
        f"**{name}**: {len(crawls):,} events: " + ", ".join(f"{n:,} {way}" for way, n in fetches.items()) + ".\n"
    )
    head = ["settled by", "share", "REP", "RER", "REP, winner", "RER, winner", "tier-2 messages", "CPU µs an event"]
    report.table(f"Figure 8: {name}", head, rows)
    return shares


def figure_8_row(measured: Measured, events: int) -> list[str]:
    return [
        f"{measured.settled_percent:.1f} %",
        *(percent(each) for each in measured.all_moments.percent),
        count_of(measured.messages["tier2"]),
        f"{measured.seconds / events * 1e6:.0f}",
    ]


# ---- Figure 7


def figure_7(report: Report, sizes: Sizes) -> None:
    report.say("## Figure 7: incremental against from scratch\n")
    report.say(
        f"The collection grows to {sizes.figure_7_pages[-1]:,} pages of 48 shingles, a quarter of them in families\n"
        f"of four near duplicates at τ = {GROWTH_THRESHOLD} (generated signatures, no HTML), in one partition.\n"
        "*Incremental*: processor time until the verdicts are right again after\n"
        f"{sizes.figure_7_updates:,} fetches, half changed pages, half new ones. *From scratch*: the least a\n"
        "batch job can do for that, one pass over all signatures in memory with one index: search and insert, no\n"
        "winners, nothing stored. *The pipeline from scratch*: all pages through the pipeline into an empty state.\n"
    )
    head = [
        "pages",
        "incremental s",
        "from scratch s",
        "times",
        "the pipeline from scratch s",
        "incremental µs a fetch",
    ]
    grown = list(grow(sizes))
    report.table("Figure 7", head, [each.row(sizes.figure_7_updates) for each in grown])
    ratios = [each.batch_s / each.updates_s for each in grown]
    names = [count_of(each.pages) for each in grown]
    chart = line_chart("Figure 7: from scratch over incremental", "pages", names, {"times": ratios})
    report.picture("recrawl-figure-7", chart)


class Grown(NamedTuple):
    """A collection of so many pages: processor seconds of the updates, of a batch job, of filling the pipeline."""

    pages: int
    updates_s: float
    batch_s: float
    pipeline_s: float

    def row(self, updates: int) -> list[str]:
        times = f"{self.updates_s:.2f}", f"{self.batch_s:.2f}", f"{self.batch_s / self.updates_s:.1f}"
        return [count_of(self.pages), *times, f"{self.pipeline_s:.1f}", f"{self.updates_s / updates * 1e6:.0f}"]


def grow(sizes: Sizes) -> Iterator[Grown]:
    batch, updates, at = FromScratch(), sizes.figure_7_updates, 0
    with running(Settings(threshold=GROWTH_THRESHOLD, partitions=1), sizes.with_rules) as run:
        run.feed(synthetic_updates(1 << 36, 64))  # compiles
        run.seconds = 0.0
        for pages in sizes.figure_7_pages:
            while at < pages - updates // 2:
                fetches = synthetic_fetches(at, min(at + GROWTH_CHUNK, pages - updates // 2))
                run.feed(fetches)
                batch.extend(at, fetches)
                at += len(fetches)
            spent = run.feed(synthetic_updates(pages, updates))
            batch.extend(at, synthetic_fetches(at, pages))
            at = pages
            grown = Grown(pages, spent, batch.seconds, run.seconds)
            print(*grown.row(updates), sep="  ", flush=True)
            yield grown


def family_of(page: int) -> tuple[int, int]:
    """A quarter of the pages come in families of four near duplicates, the others stand alone."""
    return (page, FAMILY_PAGES) if page // FAMILY_PAGES % 4 == 0 else ((1 << 34) + page, 1)


def synthetic_fetches(first: int, end: int) -> list[Crawl]:
    return [
        Crawl(url_of_page(page), START_MS + page, "content", synthetic_page(*family_of(page)))
        for page in range(first, end)
    ]


def synthetic_updates(pages: int, count: int) -> list[Crawl]:
    """The last new pages, and pages all over the collection that became something else, in turn."""
    new = synthetic_fetches(pages - count // 2, pages)
    step = max(1, (pages - count // 2) // (count - count // 2))
    changed = [
        Crawl(url_of_page(page), START_MS + pages, "content", synthetic_page((1 << 33) + pages + page, FAMILY_PAGES))
        for page in range(0, step * (count - count // 2), step)
    ]
    return [crawl for pair in zip(new, changed, strict=False) for crawl in pair] + changed[len(new) :]


class FromScratch:
    """Components by one index over all pages. It is the same work whether done at once or grown, so it is grown."""

    def __init__(self) -> None:
        self._index = SimilarityIndex(GROWTH_THRESHOLD, lambda page: synthetic_shingles(*family_of(page)))
        self.seconds = 0.0

    def extend(self, first: int, fetches: list[Crawl]) -> None:
        started = time.process_time()
        for page, fetch in enumerate(fetches, first):
            signature = fetch.signature
            assert signature is not None
            [query] = self._index.queries([signature])
            found = self._index.first_match_per_component(query, order_key(fetch.url))
            component = found[0].component if found else None
            self._index.insert(page, query, component)
        self.seconds += time.process_time() - started


# ---- the cost of each kind of fetch


def paths(report: Report, sizes: Sizes) -> None:
    report.say("## What a fetch costs\n")
    report.say(
        f"On a state of {sizes.path_pages:,} generated pages, {sizes.path_events:,} fetches of one kind; processor\n"
        "time behind intake with the commit, and the messages each brought about, the fetch itself counted. A small\n"
        "change is one of 1 % of the shingles; it is shown with anchors at a distance of .05, and by representative.\n"
    )
    rows = []
    for name, settings, kind in (
        ("new", Settings(), "new"),
        ("unchanged", Settings(), "unchanged"),
        ("small change, exact (the default)", Settings(), "small change"),
        ("small change, by anchor", Settings(anchor_distance=0.05), "small change"),
        ("small change, by representative", Settings(small_changes="representative"), "small change"),
        ("large change", Settings(), "rewrite"),
        ("redirect", Settings(), "redirect"),
        ("gone", Settings(), "gone"),
        ("back again", Settings(), "back"),
    ):
        rows.append([name, *path_cost(settings, kind, sizes)])
        print(rows[-1], flush=True)
    head = [
        "fetch",
        "µs",
        "of it pages",
        "tier 2",
        "groups",
        "commit",
        "messages",
        "to pages",
        "to tier 2",
        "to groups",
    ]
    report.table("What a fetch costs", head, rows)


def path_cost(settings: Settings, kind: str, sizes: Sizes) -> list[str]:
    recrawl, events = Recrawl(seed=5), sizes.path_events
    contents = list(first_fetches(sizes.path_pages + events, seed=23))
    filled = [recrawl.first(content) for content in contents[: sizes.path_pages]]
    with running(settings) as run:
        run.feed(filled)
        if kind == "back":
            run.feed([recrawl.again("gone", page) for page in range(events)])
        fetches = [fetch_of(recrawl, kind, page, contents[-1 - page]) for page in range(events)]
        stages, messages = dict(run.engine.seconds), run.messages
        spent = run.feed(fetches)
        shares = {name: run.engine.seconds[name] - before for name, before in stages.items()}
        sent = {name: (run.messages[name] - before) / events for name, before in messages.items()}
    scale = spent / sum(shares.values()) / events * 1e6  # stages are timed by the wall clock: only their shares count
    parts = [f"{shares[name] * scale:.0f}" for name in ("pages", "tier2", "groups", "commit")]
    return [
        f"{spent / events * 1e6:.0f}",
        *parts,
        f"{sum(sent.values()):.1f}",
        *(f"{sent[name]:.2f}" for name in ("pages", "tier2", "groups")),
    ]


def fetch_of(recrawl: Recrawl, kind: str, page: int, new_content: object) -> Crawl:
    if kind == "new":
        return recrawl.first(new_content)  # type: ignore[arg-type]
    if kind == "small change":
        return recrawl.again("small change", page, share=0.01)
    return recrawl.again("unchanged" if kind == "back" else kind, page)


# ---- all of it


PARTS: dict[str, Callable[[Report, Sizes], None]] = {
    "table-1": table_1,
    "figure-8": figure_8,
    "figure-7": figure_7,
    "paths": paths,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; docs are left alone")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where img/ goes (default: docs)")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part; docs are left alone")
    parser.add_argument(
        "--with-rules", action="store_true", help="figure 7 with the learning of URL rules, which it leaves out else"
    )
    options = parser.parse_args()
    if options.with_rules and options.only != "figure-7":
        parser.error("--with-rules is about figure 7: add --only figure-7")
    report = Report(options.out or (None if options.quick or options.only else DOCS))
    report.say("# Pages that change: Zhu et al., Table 1, Figures 7 and 8\n")
    report.say("Written by `python bench/recrawl.py`. τ = .9, 8 partitions unless said; no URL rules are learned.\n")
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(report, replace(QUICK if options.quick else FULL, with_rules=options.with_rules))
            if not options.quick:
                write_result(f"recrawl-{name}", report.take_tables(), f"python bench/recrawl.py --only {name}")


if __name__ == "__main__":
    main()
