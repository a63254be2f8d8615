"""Compiles the hot loops once, so that the first real run does not wait for it: `python -m dustream.streams.warm_up`.

The machine code is cached beside the source (or in NUMBA_CACHE_DIR) and used by every later process.
"""

from __future__ import annotations

import multiprocessing
import sys
import time

from dustream.core.intake import take_in
from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules
from dustream.core.settings import Settings
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.embedded.engine import EmbeddedEngine, Feed
from dustream.streams.generate import generate
from dustream.streams.once.engine import OnceEngine
from dustream.streams.store.memory import MemoryStore

PAGES_TO_TRY = 200  # enough to meet every common case: copies, near copies, redirects, updates, deaths
ITEMS_TO_LEARN_FROM = 40  # of each kind


def warm_up() -> float:
    """Run a small web through the pipeline; the seconds it took. Learning rules is compiled beside it."""
    started = time.perf_counter()
    beside = multiprocessing.get_context("spawn").Process(target=learn_some_rules)
    beside.start()
    settings = Settings(partitions=2)
    feed = warm_up_pages(settings)
    OnceEngine(settings, MemorySpool()).run([feed])
    beside.join()
    return time.perf_counter() - started


def warm_up_pages(settings: Settings) -> Feed:
    """Take in a small web, with some Chinese pages that are parts of each other, and run it; what was fed."""
    events = [*generate(pages=PAGES_TO_TRY, seed=1), *_parts_of_a_text()]
    crawls = take_in(events, settings.text_source).crawls
    feed = Feed([Send(PAGES, crawl.url, crawl) for crawl in crawls])
    EmbeddedEngine(pipeline(settings), MemoryStore()).run([feed])
    return feed


def _parts_of_a_text() -> list[CrawlEvent]:
    text = "".join(chr(0x4E00 + number) + "，的。" * (number % 2) for number in range(400))
    return [
        CrawlEvent(url=f"https://parts.example/{length}", fetched_at=length, text=text[:length], lang="zh")
        for length in (600, 700, 900)
    ]


def learn_some_rules() -> None:
    """Of a site whose pages have a session in their URLs."""
    rows = [
        SiteUrlRow(f"https://site.example/{kind}/item.html?id={item}&session={session}", (session, 0), f"{kind} {item}")
        for kind in ("article", "product", "review")
        for item in range(ITEMS_TO_LEARN_FROM)
        for session in range(item * 5, item * 5 + 3)
    ]
    learned_rules("site.example", rows, RulesSettings())


if __name__ == "__main__":
    print(f"hot loops compiled in {warm_up():.0f} s", file=sys.stderr)
