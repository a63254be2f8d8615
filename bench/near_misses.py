"""Pages just below the threshold: what one more of them costs, however many there are, and that no pair is lost.

    python bench/near_misses.py [--pages 50000] [--write]

A page has 400 common words around 24 of its own, so two of them are at 0.875, at a threshold of 0.9. Every hundredth
has a copy of which three words of its own differ: these pairs must be found, and nothing else. Signed pages go through
the whole pipeline in memory, and through --once. Processor time; the growth is how many times longer four times as many
pages take. With --write the figures go to bench/results/near_misses.json.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from result_files import Table, write_result

from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.signature import sign
from dustream.schemas.pages import Crawl
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import StoredResults
from dustream.streams.once.engine import OnceEngine
from dustream.streams.store.memory import MemoryStore
from dustream.streams.warm_up import warm_up

SETTINGS = Settings(containment="off", site_share_max=1.0)
COMMON_WORDS, OWN_WORDS, CHANGED_WORDS, PAIR_EVERY = 400, 24, 3, 100
FEED_PAGES = 500


def texts(count: int) -> list[str]:
    rng = random.Random(1)
    common = [f"common{rng.getrandbits(40)}" for _ in range(COMMON_WORDS)]
    before, behind = common[: COMMON_WORDS // 2], common[COMMON_WORDS // 2 :]
    made: list[str] = []
    own: list[str] = []
    for number in range(count):
        if number % PAIR_EVERY == 1:
            own = [*own[:-CHANGED_WORDS], *(f"changed{number}x{place}" for place in range(CHANGED_WORDS))]
        else:
            own = [f"own{rng.getrandbits(40)}" for _ in range(OWN_WORDS)]
        made.append(" ".join([*before, *own, *behind]))
    return made


def feeds(count: int) -> list[Feed]:
    urls = [f"https://site-{number % 97}.example/{number}" for number in range(count)]
    signed = [sign(text, "en") for text in texts(count)]
    sends = [
        Send(PAGES, url, Crawl(url, 1 + number, "content", signature=signature))
        for number, (url, signature) in enumerate(zip(urls, signed, strict=True))
    ]
    return [Feed(sends[at : at + FEED_PAGES]) for at in range(0, count, FEED_PAGES)]


def by_stream(ready: list[Feed]) -> list[Any]:
    store = MemoryStore()
    EmbeddedEngine(pipeline(SETTINGS), store).run(ready)
    return list(StoredResults(store, SETTINGS.partitions).statuses())


def at_once(ready: list[Feed]) -> list[Any]:
    engine = OnceEngine(SETTINGS, MemorySpool)
    engine.run(ready)
    return list(engine.statuses())


def measure(run: Callable[[list[Feed]], list[Any]], count: int) -> dict[str, float]:
    ready = feeds(count)
    started = time.process_time()
    statuses = run(ready)
    seconds = time.process_time() - started
    groups: dict[str, set[int]] = {}
    for status in statuses:
        groups.setdefault(status.group, set()).add(int(status.url.rsplit("/", 1)[1]))
    found = {frozenset(group) for group in groups.values() if len(group) > 1}
    planted = {frozenset((number - 1, number)) for number in range(1, count, PAIR_EVERY)}
    return {
        "pages": count,
        "seconds": round(seconds, 2),
        "microseconds_per_page": round(seconds / count * 1e6, 1),
        "pairs_planted": len(planted),
        "pairs_found": len(planted & found),
        "groups_too_many": len(found - planted),
    }


def table(name: str, rows: list[dict[str, float]]) -> Table:
    growth = [late["seconds"] / max(early["seconds"], 0.01) for early, late in pairwise(rows)]
    columns = ["pages", "s", "µs a page", "pairs planted", "pairs found", "other groups", "times as long"]
    cells = [[*row.values(), times] for row, times in zip(rows, ["", *(f"{each:.1f}" for each in growth)], strict=True)]
    return Table(f"`{name}`, in memory", columns, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--write", action="store_true", help="write bench/results/near_misses.json")
    args = parser.parse_args()
    warm_up()
    counts = [args.pages // 64, args.pages // 16, args.pages // 4, args.pages]
    rows: list[dict[str, Any]] = []
    for name, run in (("stream", by_stream), ("once", at_once)):
        measured = [measure(run, count) for count in counts]
        growth = [round(late["seconds"] / max(early["seconds"], 0.01), 1) for early, late in pairwise(measured)]
        rows += [{"engine": name, **row, "growth": grown} for row, grown in zip(measured, ["", *growth], strict=True)]
    title = "pages just below the threshold; growth: seconds, as a multiple of those of a quarter of the pages"
    table = Table(title, [key.replace("_", " ") for key in rows[0]], [list(row.values()) for row in rows])
    print(table.markdown())
    if args.write:
        write_result("near_misses", [table])
    lost = sum(row["pairs_planted"] - row["pairs_found"] + row["groups_too_many"] for row in rows)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
