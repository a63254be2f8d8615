"""Compiles the hot loops once, so that the first real run need not wait: `dustream compile`.

The machine code is cached beside the source (or in NUMBA_CACHE_DIR) and used by every later process. Code that reads
pages, compares them and learns rules is compiled in parallel processes; comparing pages therefore starts from synthetic
signatures.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import numpy as np

from dustream.core.containment.sketch import code_terms
from dustream.core.intake import take_in
from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.rules.example_site import learn_some_rules as learn_some_rules
from dustream.core.settings import Settings
from dustream.core.text.kept import KEPT_BYTES_MAX
from dustream.core.text.permutations import ADDENDS, MULTIPLIERS
from dustream.core.text.repeatability import repeatability
from dustream.core.text.shingles import DEFAULT_TABLE, DIMENSIONS
from dustream.core.tier2.index import SimilarityIndex
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.pages import Crawl
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature
from dustream.streams.dedupe.job import DedupeRequest, DedupeWatcher, run_dedupe
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.generate import generate
from dustream.streams.once.engine import OnceEngine
from dustream.streams.store.memory import MemoryStore

PAGES_TO_TRY = 200  # enough for every common case: copies, near copies, redirects, updates, deaths
FAMILIES, COPIES, SHINGLES = 40, 4, 300
CROWD, OWN = 400, 24  # pages just below the threshold
SETTINGS = Settings(partitions=2)


def warm_up(on_part: Callable[[str], None] = lambda part: None, *, all_commands: bool = False) -> float:
    """Compile what runs and questions need, or everything; returns the seconds it took. `on_part` is told which part is
    compiled, and how long it took."""
    started = time.perf_counter()
    wanted = PARTS | MORE_PARTS if all_commands else PARTS
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([__name__, "dustream.core.kernels.compiler"])
    workers = min(len(wanted), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=server, max_tasks_per_child=1) as pool:
        parts = {pool.submit(_seconds_of, compile_part): name for name, compile_part in wanted.items()}
        for number, part in enumerate(as_completed(parts), 1):
            on_part(f"{parts[part]}: {part.result():.0f} s ({number} of {len(parts)})")
    return time.perf_counter() - started


def _seconds_of(compile_part: Callable[[], object]) -> float:
    """In a process of its own, which ends after it: collecting garbage would take a tenth of its time."""
    gc.disable()
    started = time.perf_counter()
    compile_part()
    return time.perf_counter() - started


def warm_up_pages(settings: Settings) -> None:
    """Run a small web, so that everything that pages need is loaded."""
    EmbeddedEngine(pipeline(settings), MemoryStore()).run([_feed(read_some_pages(settings))])


def read_some_pages(settings: Settings = SETTINGS) -> list[Crawl]:
    """A small web, with some Chinese pages that contain each other, and pages as bytes."""
    events = [*generate(pages=PAGES_TO_TRY, seed=1), *_parts_of_a_text(), *_pages_of_bytes()]
    return take_in(events, settings.text_source).crawls


def _parts_of_a_text() -> list[CrawlEvent]:
    text = "".join(chr(0x4E00 + number) + "，的。" * (number % 2) for number in range(400))
    parts = [
        CrawlEvent(url=f"https://parts.example/{length}", fetched_at=length, text=text[:length], lang="zh")
        for length in (600, 700, 900)
    ]
    return [*parts, CrawlEvent(url=parts[0].url, fetched_at=1_000, status=404)]


def _pages_of_bytes() -> list[CrawlEvent]:
    """Pages in UTF-8, in other charsets, with a character reference in the lang attribute, and larger than the buffers
    that are kept."""
    page = "<html lang='d&#101;'><p>größer</p></html>"
    bodies = [page.encode(), page.encode("latin-1"), page.encode("utf-16"), page.encode() + b" " * KEPT_BYTES_MAX]
    return [
        CrawlEvent(url=f"https://bytes.example/{number}", fetched_at=1, body=body) for number, body in enumerate(bodies)
    ]


def compare_some_pages() -> None:
    """Find the duplicates among synthetic signatures as they arrive; then some pages leave, and more of a crowd
    come: what is done only when the first pages are at rest."""
    engine = EmbeddedEngine(pipeline(SETTINGS), MemoryStore())
    engine.run([_feed(_some_signed_pages())])
    engine.run([_feed((*some_deaths(), *a_crowd(CROWD + 1)))])
    split_a_component()
    compare_some_codes()


def split_a_component() -> None:
    """Copies of one text that fall into two components, which then merge again."""
    signature = _signature(range(SHINGLES))
    index = SimilarityIndex(SETTINGS.threshold, lambda page: np.frombuffer(signature.shingles, np.uint64))
    [query] = index.queries([signature])
    for page in range(COPIES):
        index.insert(page, query, component=1)
    index.separate([0], component=2)
    index.relabel([0], component=1)
    index.first_match_per_component(query, order_key=0)


def compare_some_codes() -> None:
    """Feature codes, by which pages in languages without spaces between words are contained in others."""
    code = "".join(chr(0x4E00 + number) for number in range(SHINGLES))
    code_terms(code)
    repeatability(code, code)


def compare_some_pages_at_once() -> None:
    """Find the same duplicates directly."""
    OnceEngine(SETTINGS, MemorySpool).run([_feed(_some_signed_pages())])


def _some_signed_pages() -> Iterable[Crawl]:
    return (*some_families(), *a_crowd())


def _feed(crawls: Iterable[Crawl]) -> Feed:
    return Feed([Send(PAGES, crawl.url, crawl) for crawl in crawls])


def some_families() -> Iterable[Crawl]:
    """Near copies, each on its own site so that there are no rules to learn, and parts of them; some change, some die.
    All have one shingle in common, which makes it a common term."""
    for family in range(FAMILIES):
        yield Crawl(_url(family, COPIES), 1, "content", signature=_signature(_numbers(family, 0)[: SHINGLES // 2]))
        for copy in range(COPIES):
            yield _page(family, copy, version=1, shift=copy)
    for family in range(0, FAMILIES, 4):
        yield _page(family, 0, version=2, shift=SHINGLES)
        yield Crawl(_url(family, 1), 2, "gone")


def some_deaths() -> Iterable[Crawl]:
    """Of all pages of half of the families."""
    for family in range(0, FAMILIES, 2):
        yield from (Crawl(_url(family, copy), 3, "gone") for copy in range(COPIES + 1))


def a_crowd(begin: int = 0) -> Iterable[Crawl]:
    """Pages with one template, of which only the last one has a match; one dies."""
    common = [*range(10**6, 10**6 + SHINGLES)]
    for number in range(begin, begin + CROWD + 1):
        first = 10**7 + OWN * min(number, begin + CROWD - 1) + number // (begin + CROWD)
        signature = _signature([*common, *range(first, first + OWN)])
        yield Crawl(f"https://crowd-{number}.example/", 1, "content", signature=signature)
    yield Crawl("https://crowd-1.example/", 2, "gone")


def _url(family: int, copy: int) -> str:
    return f"https://site-{family}-{copy}.example/"


def _page(family: int, copy: int, version: int, shift: int) -> Crawl:
    return Crawl(_url(family, copy), version, "content", signature=_signature(_numbers(family, shift)))


def _numbers(family: int, shift: int) -> range:
    first = family * 10 * SHINGLES + shift
    return range(first, first + SHINGLES)


def _signature(numbers: Sequence[int]) -> PageSignature:
    """As if these were the hashed shingles of a text; made without compiled code."""
    shingles = np.sort(np.array(numbers, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    multipliers, addends = (np.array(each, dtype=np.uint32)[:, None] for each in (MULTIPLIERS, ADDENDS))
    lengths = np.bincount(DEFAULT_TABLE[shingles >> np.uint64(52)], minlength=DIMENSIONS)
    return PageSignature(
        version=SIGNATURE_VERSION,
        content_hash=np.array((np.bitwise_xor.reduce(shingles), shingles.sum())).tobytes(),
        shingles=shingles.tobytes(),
        minhash=(shingles.astype(np.uint32) * multipliers + addends).min(axis=1).tobytes(),
        lengths=tuple(lengths.tolist()),
        token_count=len(numbers),
        lang="en",
    )


def dedupe_some_rows() -> None:
    """A small corpus, with decomposed characters and a near copy of each text."""
    texts = [" ".join(f"e\u0301{row // 2}w{word}" for word in range(SHINGLES + row % 2)) for row in range(COPIES)]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "rows.jsonl"
        corpus.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
        run_dedupe(DedupeRequest(inputs=[str(corpus)], out=None, settings=DedupeSettings()), DedupeWatcher())


PARTS: Final[dict[str, Callable[[], object]]] = {
    "learning rules": learn_some_rules,
    "comparing pages": compare_some_pages,
    "reading pages": read_some_pages,
    "comparing pages at once": compare_some_pages_at_once,
}
"""What `run`, `status`, `why` and `normalize` need. The longest first: all processes end at about the same time."""

MORE_PARTS: Final[dict[str, Callable[[], object]]] = {"corpora": dedupe_some_rows}
"""What other commands compile when they are first used."""
