"""HTML to status on one core, beside what people use today, on the same pages in the same run, in processor time.

Ours twice: `run --once`, which like the others keeps nothing, up to the statuses (the URL rules it learns from them are
told apart), and `run`, which keeps a state on disk that pages can come to, change in and leave, exactly once, with its
rules. The stages of `run` are by the clock.

python bench/pipeline.py [--pages 1500] [--rounds 3]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crawl_peers import BANDS, PERMUTATIONS, THRESHOLD, shingles_of
from pages import data_folder, sample_pages
from result_files import Table, write_result

from dustream.core.intake import take_in
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.extractors import TextSource
from dustream.core.text.shingle_bytes import shingle_array
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.signature import PageSignature
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import read_statuses
from dustream.streams.once.engine import OnceEngine
from dustream.streams.once.spool import FileSpool
from dustream.streams.store.rocks import RocksStore

ONCE, KEPT = "dustream run --once", "dustream run"
COLUMNS = ["", "µs a page", "times --once", "times run", "pair precision", "recall"]
TAKE_IN = "take in (parse, sign)"
CHUNK = 128

Groups = dict[str, str]
"""URL to the name of its group."""


class Result(NamedTuple):
    seconds: float
    groups: Groups
    exact_groups: Groups
    stages: dict[str, float]


# ---------------------------------------------------------------- ours


class Signed:
    """Pages as they are fed, and the shingle sets that were compared."""

    def __init__(self, stages: dict[str, float]) -> None:
        self._stages = stages
        self._signatures: dict[str, PageSignature] = {}

    def feeds(self, pages: list[CrawlEvent]) -> Iterator[Feed]:
        for at in range(0, len(pages), CHUNK):
            begun = time.process_time()
            crawls = take_in(pages[at : at + CHUNK], TextSource()).crawls
            self._stages[TAKE_IN] += time.process_time() - begun
            self._signatures.update({crawl.url: crawl.signature for crawl in crawls if crawl.signature})
            yield Feed([Send(PAGES, crawl.url, crawl) for crawl in crawls])

    def sets(self) -> dict[str, frozenset | set]:
        return {url: frozenset(shingle_array(each.shingles).tolist()) for url, each in self._signatures.items()}


def run_dustream(pages: list[CrawlEvent]) -> Result:
    stages: dict[str, float] = {TAKE_IN: 0.0}
    with tempfile.TemporaryDirectory() as folder:
        store = RocksStore(Path(folder))
        started = time.process_time()
        engine = EmbeddedEngine(pipeline(Settings(threshold=THRESHOLD)), store)
        feed = Signed(stages)
        engine.run(feed.feeds(pages))
        groups = {status.url: status.group or status.url for status in read_statuses(store)}
        seconds = time.process_time() - started
        store.close()
    sets = feed.sets()
    return Result(seconds, {url: groups[url] for url in sets}, exact_groups(sets), stages | engine.seconds)


def run_once(pages: list[CrawlEvent]) -> Result:
    """To the statuses. The rules come after them: nobody else learns any, so they are told apart."""
    stages: dict[str, float] = {TAKE_IN: 0.0}
    begun: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        on_stage = lambda stage: begun.__setitem__(stage, time.process_time())  # noqa: E731
        engine = OnceEngine(Settings(threshold=THRESHOLD), lambda: FileSpool(Path(folder)), on_stage=on_stage)
        feed = Signed(stages)
        engine.run(feed.feeds(pages))
        ended = time.process_time()
        groups = {status.url: status.group or status.url for status in engine.statuses()}
        seconds = begun["rules"] - started + time.process_time() - ended
        engine.close()
    stages |= {"fold": begun["match"] - started - stages[TAKE_IN], "match": begun["containment"] - begun["match"]}
    stages |= {"sites, statuses": begun["rules"] - begun["containment"], "and then rules": ended - begun["rules"]}
    sets = feed.sets()
    return Result(seconds, {url: groups[url] for url in sets}, exact_groups(sets), stages)


# ---------------------------------------------------------------- what people use


def run_rensa(pages: list[CrawlEvent]) -> Result:
    from rensa import RMinHash, RMinHashLSH
    from resiliparse.extract.html2text import extract_plain_text

    stages = {"main text": 0.0, "shingles": 0.0, "MinHash": 0.0, "LSH": 0.0}
    started = clock = time.process_time()
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
    hashes, union, sets = [], UnionFind(), {}
    for number, page in enumerate(pages):
        text = extract_plain_text(page.html or "", main_content=True)
        clock = _lap(stages, "main text", clock)
        shingles = shingles_of(text)
        clock = _lap(stages, "shingles", clock)
        minhash = RMinHash(num_perm=PERMUTATIONS, seed=42)
        minhash.update(list(shingles))
        clock = _lap(stages, "MinHash", clock)
        if shingles:
            for other in index.query(minhash):
                if minhash.jaccard(hashes[other]) >= THRESHOLD:
                    union.join(page.url, pages[other].url)
            index.insert(number, minhash)
        hashes.append(minhash)
        sets[page.url] = shingles
        clock = _lap(stages, "LSH", clock)
    seconds = time.process_time() - started
    return Result(seconds, {url: union.find(url) for url in sets}, exact_groups(sets), stages)


def run_datasketch(pages: list[CrawlEvent]) -> Result:
    from bs4 import BeautifulSoup
    from datasketch import MinHash, MinHashLSH

    warnings.simplefilter("ignore")
    stages = {"BeautifulSoup": 0.0, "shingles": 0.0, "MinHash": 0.0, "LSH": 0.0}
    started = clock = time.process_time()
    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
    hashes, union, sets = {}, UnionFind(), {}
    for page in pages:
        text = BeautifulSoup(page.html or "", "html.parser").get_text(" ")
        clock = _lap(stages, "BeautifulSoup", clock)
        shingles = shingles_of(text)
        clock = _lap(stages, "shingles", clock)
        minhash = MinHash(num_perm=PERMUTATIONS)
        minhash.update_batch([shingle.encode() for shingle in shingles])
        clock = _lap(stages, "MinHash", clock)
        if shingles and page.url not in hashes:
            for other in index.query(minhash):
                if minhash.jaccard(hashes[other]) >= THRESHOLD:
                    union.join(page.url, other)
            index.insert(page.url, minhash)
            hashes[page.url] = minhash
        sets[page.url] = shingles
        clock = _lap(stages, "LSH", clock)
    seconds = time.process_time() - started
    return Result(seconds, {url: union.find(url) for url in sets}, exact_groups(sets), stages)


def _lap(stages: dict[str, float], stage: str, since: float) -> float:
    now = time.process_time()
    stages[stage] += now - since
    return now


# ---------------------------------------------------------------- the truth, and how near each comes to it


class UnionFind:
    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        parent = self._parent.setdefault(name, name)
        while parent != self._parent[parent]:
            self._parent[name] = parent = self._parent[parent]
        return parent

    def join(self, one: str, other: str) -> None:
        self._parent[self.find(one)] = self.find(other)


def exact_groups(sets: dict[str, frozenset | set]) -> Groups:
    """Groups by exact Jaccard of the very sets a method compared: sizes first, then intersections of what shares a
    shingle among the rarest (prefix filter), so that nothing is missed."""
    frequency = Counter(shingle for shingles in sets.values() for shingle in shingles)
    union = UnionFind()
    by_prefix: dict[object, list[str]] = {}
    for url in sorted(sets, key=lambda url: (len(sets[url]), url)):
        shingles = sets[url]
        union.find(url)
        if not shingles:
            continue
        ordered = sorted(shingles, key=lambda shingle: (frequency[shingle], str(shingle)))
        prefix = ordered[: len(ordered) - int(-(-len(ordered) * THRESHOLD // 1)) + 1]
        seen = set()
        for shingle in prefix:
            for other in by_prefix.get(shingle, ()):
                if other not in seen and len(sets[other]) >= THRESHOLD * len(shingles):
                    seen.add(other)
                    common = len(shingles & sets[other])
                    if common >= THRESHOLD * (len(shingles) + len(sets[other]) - common):
                        union.join(url, other)
            by_prefix.setdefault(shingle, []).append(url)
    return {url: union.find(url) for url in sets}


def pair_counts(found: Groups, true: Groups) -> tuple[int, int, int]:
    """Pairs of pages that share a group: in both, in `found`, in `true`."""
    cells = Counter((found[url], true[url]) for url in true)
    both = sum(n * (n - 1) // 2 for n in cells.values())
    claimed = sum(n * (n - 1) // 2 for n in Counter(found[url] for url in true).values())
    real = sum(n * (n - 1) // 2 for n in Counter(true.values()).values())
    return both, claimed, real


def pair_scores(found: Groups, true: Groups) -> tuple[float, float]:
    """Precision and recall of the pairs of pages that share a group."""
    both, claimed, real = pair_counts(found, true)
    return both / claimed if claimed else 1.0, both / real if real else 1.0


# ---------------------------------------------------------------- the table


METHODS: dict[str, Callable[[list[CrawlEvent]], Result]] = {
    ONCE: run_once,
    KEPT: run_dustream,
    "resiliparse + rensa": run_rensa,
    "BeautifulSoup + datasketch": run_datasketch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1500)
    parser.add_argument(
        "--rounds", type=int, default=3, help="the fastest of this many counts (the slow one runs once)"
    )
    args = parser.parse_args()
    what, pages = sample_pages(args.pages)
    run_once(pages[:64])
    run_dustream(pages[:64])
    run_rensa(pages[:64])
    best: dict[str, Result] = {}
    for name, method in METHODS.items():
        rounds = 1 if name.startswith("Beautiful") else args.rounds
        best[name] = min((method(pages) for _ in range(rounds)), key=lambda result: result.seconds)
    size = sum(len(page.html or "") for page in pages) / len(pages)
    rows = [_row(name, result, best, len(pages)) for name, result in best.items()]
    stages = [
        [name, ", ".join(f"{stage} {seconds / len(pages) * 1e6:.0f}" for stage, seconds in result.stages.items())]
        for name, result in best.items()
    ]
    tables = [
        Table(f"HTML to status, one core: {what}, {size / 1000:.0f} KB a page", COLUMNS, rows),
        Table("µs a page by stage", ["", "stages"], stages),
    ]
    for table in tables:
        print(f"{table.title}\n\n{table.markdown()}\n")
    if data_folder() is not None:
        write_result("pipeline", tables)


def _row(name: str, result: Result, best: dict[str, Result], pages: int) -> list[Any]:
    precision, recall = pair_scores(result.groups, result.exact_groups)
    times = [f"{result.seconds / best[ours].seconds:.1f}" if name not in (ONCE, KEPT) else "" for ours in (ONCE, KEPT)]
    return [name, round(result.seconds / pages * 1e6), *times, f"{precision:.4f}", f"{recall:.4f}"]


if __name__ == "__main__":
    main()
