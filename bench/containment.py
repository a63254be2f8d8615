"""Pages that are a part of longer ones: how many reprints are traced, whether verdicts are right, and what it costs.

    python bench/containment.py [--quick]

- *Reprints of real articles*: the first 70 % of the paragraphs of a page and an advert of 40 characters, beside all
  pages of its collection (DUSTREAM_DATA names the folder of real pages).
- *Shares on real collections*: every `contained` verdict, its share computed again from the texts.
- *Generated reprints*: precision and recall against what was generated.
- *Growth*: processor time and memory of the index of terms, in eight partitions, as pages are posted.

Figures go to bench/results/containment.json.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from codes import Page, generated_reprints
from pages import REAL_FILES, data_folder, real_pages
from result_files import Table, write_result

from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.containment.rows import PostedPages
from dustream.core.containment.sketch import sketch_of
from dustream.core.intake import take_in
from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import PAGES
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.scan import scan
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import common_shingles
from dustream.schemas.containment import Post, Postings, Unpost
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.feed import Feed
from dustream.streams.once.engine import OnceEngine

SOURCES = 61  # articles of a collection that are reprinted
SOURCE_CHARS_MIN = {"zh": 800, "en": 2_000}
ADVERTS = {
    "zh": "本页内容由合作伙伴提供更多优惠请访问我们的网站立即注册即可获得新人礼包限时特惠先到先得"[:40],
    "en": "Buy two and get one free, this week only",
}
SHARES = (0.75, 0.8, 0.85, 0.9)
PARTITIONS = 8
PAGE_SHINGLES = 300
COMMON_TERMS, COMMON_SHARE = 2_000, 0.1  # of a page's terms, the share drawn from so many that many pages have
POSTED_AT_ONCE, ASKED = 1_000, 2_000


class Outcome(NamedTuple):
    statuses: dict[str, DuplicateStatus]
    shingles: dict[str, np.ndarray[Any, np.dtype[np.uint64]]]


def outcome(events: Sequence[CrawlEvent], settings: Settings) -> Outcome:
    crawls = take_in(events, settings.text_source).crawls
    engine = OnceEngine(msgspec.structs.replace(settings, site_share_max=1.0), MemorySpool)
    engine.run([Feed([Send(PAGES, crawl.url, crawl) for crawl in crawls])])
    shingles = {crawl.url: shingle_array(crawl.signature.shingles) for crawl in crawls if crawl.signature is not None}
    return Outcome({status.url: status for status in engine.statuses()}, shingles)


# Reprints of real articles


def sources(pages: Sequence[CrawlEvent], language: str) -> Iterator[tuple[str, str]]:
    """(URL, text) of articles that are long enough, evenly from all over the collection, no two of one name."""
    names: set[str] = set()
    chosen = []
    for page in pages:
        is_chinese, name = "/zh-cn/" in page.url, page.url.rsplit("/", 1)[-1]
        if name in names or is_chinese != (language == "zh"):
            continue
        text = scan(page.html or "").text
        if len(text) >= SOURCE_CHARS_MIN[language] and text.count("\n") >= 5:
            names.add(name)
            chosen.append((page.url, text))
    yield from chosen[:: max(1, len(chosen) // SOURCES)][:SOURCES]


def reprint(text: str, advert: str) -> str:
    paragraphs = [paragraph for paragraph in text.split("\n") if paragraph.strip()]
    return "\n".join([*paragraphs[: len(paragraphs) * 7 // 10], advert])


def traced(pages: list[CrawlEvent], name: str, language: str) -> list[list[Any]]:
    """A reprint is traced if it is dropped for a page that has enough of it, or is in one group with pages like it."""
    articles, advert = list(sources(pages, language)), ADVERTS[language]
    reprints = [
        CrawlEvent(url=f"https://reprint.example/{at}", fetched_at=2, text=reprint(text, advert), lang=language)
        for at, (_, text) in enumerate(articles)
    ]
    rows = []
    for share in SHARES:
        found = outcome([*pages, *reprints], Settings(containment_share=share))
        relations = Counter(found.statuses[each.url].relation or found.statuses[each.url].role for each in reprints)
        grouped = relations["exact"] + relations["near"] + relations["winner"]
        counts = [len(articles), relations["contained"], grouped, relations["unique"]]
        rows.append([f"{name}, {language}", share, *counts, 1 - relations["unique"] / len(articles)])
    return rows


def _share(found: Outcome, page: str, container: str) -> float:
    mine = found.shingles[page]
    return int(common_shingles(mine, found.shingles[container])) / mine.size


# Shares on real collections


def shares(pages: list[CrawlEvent], name: str) -> list[Any]:
    settings = Settings()
    found = outcome(pages, settings)
    contained = [status for status in found.statuses.values() if status.relation == "contained"]
    wrong = longer = 0
    for status in contained:
        assert status.winner is not None and status.similarity is not None
        share = _share(found, status.url, status.winner)
        wrong += share != status.similarity or share < settings.containment_share
        longer += found.shingles[status.url].size > found.shingles[status.winner].size
    dropped = sum(status.role == "duplicate" for status in found.statuses.values())
    return [name, len(pages), dropped, len(contained), wrong, longer]


# Generated reprints


def generated(count: int) -> list[Any]:
    """Of the contained verdicts, the share that is right: the container is of the same article. Of the reprints that
    some other page contains by its text, the share that is dropped."""
    pages: list[Page] = generated_reprints(count)
    events = [
        CrawlEvent(url=f"https://s{at % 97}.example/{at}", fetched_at=1, text=page.text, lang="zh")
        for at, page in enumerate(pages)
    ]
    found = outcome(events, Settings())
    article = {event.url: page.article for event, page in zip(events, pages, strict=True)}
    contained = [status for status in found.statuses.values() if status.relation == "contained"]
    right = sum(article[status.url] == article[status.winner or ""] for status in contained)
    by_article: dict[str, list[str]] = {}
    for url, name in article.items():
        by_article.setdefault(name, []).append(url)
    could = dropped = 0
    for urls in by_article.values():
        for url in urls:
            size = found.shingles[url].size
            longer = [each for each in urls if each != url and found.shingles[each].size > size]
            if any(_share(found, url, each) >= Settings().containment_share for each in longer):
                could += 1
                dropped += found.statuses[url].role in ("duplicate", "winner")
    return [count, len(contained), right / max(1, len(contained)), could, dropped / max(1, could)]


# Growth


class RowsInMemory:
    """The tables of a task, so that its own work is measured and not that of a store."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._rows: dict[str, Postings] = {}
        self.get = self._rows.get
        self.put = self._rows.__setitem__
        self.delete = self._rows.__delitem__

    def table(self, name: str) -> RowsInMemory:
        return self

    def scan(self) -> Iterator[tuple[str, Postings]]:
        return iter(self._rows.items())

    def row_bytes(self) -> int:
        return sum(len(column) for row in self._rows.values() for column in msgspec.structs.astuple(row))


def posts(rng: np.random.Generator, first: int, count: int) -> list[Post]:
    """Pages with random shingles, some of which many pages have: a message for each partition of the terms."""
    common = np.arange(COMMON_TERMS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) & np.uint64((1 << 45) - 1)
    sketches = []
    for _ in range(count):
        shingles = rng.integers(0, 1 << 63, PAGE_SHINGLES, dtype=np.uint64)
        shared = rng.random(PAGE_SHINGLES) < COMMON_SHARE * 0.1
        shingles[shared] = rng.choice(common, int(shared.sum()))
        sketches.append(sketch_of(np.unique(shingles), ""))
    serials = np.arange(first, first + count, dtype=np.int64)
    owners = np.repeat(np.arange(count), [sketch.terms.size for sketch in sketches])
    terms, kinds = (np.concatenate([sketch[column] for sketch in sketches]) for column in (0, 1))
    masks, homes = np.array([sketch.masks for sketch in sketches]), terms % np.uint64(PARTITIONS)
    found = []
    for partition in range(PARTITIONS):
        here = homes == partition
        pages, counts = np.unique(owners[here], return_counts=True)
        sizes = np.full(pages.size, PAGE_SHINGLES, dtype=np.int32)
        part = PostedPages(serials[pages], sizes, masks[pages], counts.astype(np.int32), terms[here], kinds[here])
        found.append(Post(0, part.postings()))
    return found


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(sizes: Sequence[int]) -> list[list[Any]]:
    rng, states = np.random.default_rng(1), [RowsInMemory(partition) for partition in range(PARTITIONS)]
    tasks = [ContainmentProcessor() for _ in states]
    for task, state, message in zip(tasks, states, posts(rng, 0, 10), strict=True):  # compiled before it is timed
        task.open(state)
        task.process(state, [message, Unpost(0, np.arange(10, dtype="<i8").tobytes())])
    empty, posted, rows = resident_bytes(), 0, []
    for size in sizes:
        while posted < size:
            for task, state, message in zip(tasks, states, posts(rng, posted, POSTED_AT_ONCE), strict=True):
                task.process(state, [message])
            posted += POSTED_AT_ONCE
        stored = sum(state.row_bytes() for state in states)
        new, gone = posts(rng, posted, ASKED), Unpost(0, np.arange(posted, posted + ASKED, dtype="<i8").tobytes())
        times = [time.process_time()]
        for task, state, message in zip(tasks, states, new, strict=True):
            task.process(state, [message])
        times.append(time.process_time())
        for task, state in zip(tasks, states, strict=True):
            task.process(state, [gone])
        times.append(time.process_time())
        used = resident_bytes() - empty - stored
        opened = ContainmentProcessor()
        opened.open(states[0])
        times.append(time.process_time())
        del opened
        comes, goes, opening = (end - start for start, end in pairwise(times))
        micro = [comes / ASKED * 1e6, goes / ASKED * 1e6, opening * PARTITIONS / size * 1e6]
        rows.append([size, *(round(each, 1) for each in micro), round(used / size), round(stored / size)])
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    quick = "--quick" in sys.argv
    sizes = (10_000, 30_000) if quick else (10_000, 100_000, 300_000, 1_000_000)
    tables = [
        Table(
            "the index of terms as it grows, eight partitions together: µs of processor and bytes a page",
            ["pages", "a page comes", "a page goes", "opening", "memory", "rows"],
            growth(sizes),  # first: what others leave in memory would be counted
        ),
        Table(
            "generated reprints",
            ["pages", "contained", "precision", "contained by text", "of these dropped"],
            [generated(2_000 if quick else 20_000)],
        ),
    ]
    if data_folder() is not None:
        collections = {name: list(real_pages(name)) for name in REAL_FILES}
        wanted = [(name, "en") for name in REAL_FILES[:3]] + [(REAL_FILES[2], "zh")]
        rows = [row for name, language in wanted for row in traced(collections[name], name, language)]
        columns = ["collection", "containment_share", "reprints", "contained", "in a group", "not traced", "traced"]
        tables.append(Table("reprints of real articles, cut to 70 % with an advert of 40 characters", columns, rows))
        columns = ["collection", "pages", "dropped", "contained", "share not as stated", "container shorter"]
        rows = [shares(pages, name) for name, pages in collections.items()]
        tables.append(Table("contained verdicts on real collections, measured again", columns, rows))
    for table in tables:
        print(f"\n{table.title}\n\n{table.markdown()}", flush=True)
    write_result("containment", tables)


if __name__ == "__main__":
    main()
