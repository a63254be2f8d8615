"""`run --once` on many pages and on bad shapes: what matching all pages at once costs beside keeping them one by one.

    python bench/once.py [--pages 200000] [--members 100000] [--only pages,near,copies,chain,template]

Pages come with shingle sets made directly: nothing here is spent on HTML. Processor time; stages by the clock.
- pages: unlike pages, every tenth with a family of near duplicates;
- near: near duplicates, each matches each; copies: exact copies of one page; chain: each matches its neighbours only;
- template: pages that share half of their text with all others and match none.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from big_groups import signature
from result_files import Table, write_result

from dustream.core.pipeline import PAGES
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.schemas.pages import Crawl
from dustream.streams.engine.feed import Feed
from dustream.streams.once.engine import OnceEngine
from dustream.streams.once.spool import FileSpool

SETTINGS = Settings(containment="off", group_size_max=10**9)
SHINGLES = 200
FEED_PAGES = 512
STAGES = ("fold", "match", "sites", "statuses", "rules")
ROLES = ("unique", "winner", "duplicate")
COLUMNS = ["shape", "pages", "µs a page", *STAGES, *ROLES, "peak MB"]


def family_page(page: int) -> range | list[int]:
    """Every tenth page and the nine after it: one text, each with two shingles of its own."""
    root = page // 10 if page // 10 % 10 == 0 else page
    own = [10**12 + 2 * page, 10**12 + 2 * page + 1] if root != page else []
    return [*range(root * 1000, root * 1000 + SHINGLES), *own]


SHAPES: dict[str, Callable[[int], range | list[int]]] = {
    "pages": family_page,
    "near": lambda page: [*range(100), 1_000 + page],
    "copies": lambda page: range(SHINGLES),
    "chain": lambda page: range(5 * page, 5 * page + 100),
    "template": lambda page: [*range(100), *range(1_000 + 100 * page, 1_100 + 100 * page)],
}


def feeds(shape: str, count: int) -> Iterator[Feed]:
    elements = SHAPES[shape]
    for start in range(0, count, FEED_PAGES):
        pages = range(start, min(start + FEED_PAGES, count))
        urls = [f"http://site-{page % 97}.example/{page}" for page in pages]
        signatures = [signature(elements(page)) for page in pages]
        yield Feed(
            [
                Send(PAGES, url, Crawl(url, page, "content", signature=each))
                for url, page, each in zip(urls, pages, signatures, strict=True)
            ]
        )


def measure(shape: str, count: int) -> list[Any]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        engine = OnceEngine(SETTINGS, lambda: FileSpool(Path(folder)))
        made = time.process_time()
        ready = list(feeds(shape, count))
        started = time.process_time()
        engine.run(ready)
        spent = time.process_time() - started
    roles = Counter(status.role for status in engine.statuses())
    stages = [round(engine.seconds[name] / count * 1e6, 1) for name in STAGES]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{shape}: making {count:,} pages took {started - made:.1f} s", file=sys.stderr)
    return [shape, count, round(spent / count * 1e6, 1), *stages, *(roles[role] for role in ROLES), peak_mb]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--only", default=",".join(SHAPES))
    args = parser.parse_args()
    rows = []
    for shape in args.only.split(","):
        rows += [measure(shape, 1_000), measure(shape, args.pages if shape == "pages" else args.members)]
    table = Table("µs a page and stage", COLUMNS, rows)
    print(table.markdown())
    if args.only == parser.get_default("only"):
        write_result("once", [table])


if __name__ == "__main__":
    main()
