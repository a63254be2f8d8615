"""Recrawl streams for benchmarks: a real one where DUSTREAM_DATA has it, and generated ones of any size.

A generated recrawl is made of shingle sets, not of HTML: what is measured begins behind intake. First fetches run
through the whole stream; between them known pages are fetched again: unchanged, changed a little (a share of the
shingles between 0.05 % and 30 %, log-uniform, is replaced), rewritten, gone, redirected to another page, or back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from pages import data_folder

from dustream.core.intake import take_in
from dustream.core.text.extractors import TextSource
from dustream.core.text.minhash import minhash
from dustream.schemas.pages import Crawl
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature
from dustream.streams.generate.bulk import shingle_sets
from dustream.streams.readers import Record, open_input

FLINK = "B_recrawl_flink.jsonl.zst"
INTAKE_EVENTS = 512
SMALLEST_CHANGE, LARGEST_CHANGE = 0.0005, 0.3
AGAIN = ("unchanged", "small change", "rewrite", "gone", "redirect")
AGAIN_SHARES = (0.4, 0.4, 0.08, 0.06, 0.06)
AGAIN_PER_PAGE = 1.5
REWRITE_SIMILARITY = (0.85, 1.0)
SECOND_MS = 1_000


def flink() -> list[Crawl] | None:
    """The crawl of flink.apache.org, 2015 to 2024, checked and signed; None without the data."""
    folder = data_folder()
    if folder is None or not (folder / FLINK).exists():
        return None
    crawls: list[Crawl] = []
    with open_input(str(folder / FLINK), field_map={"fetched_at": "t"}) as opened:
        events = (item.event for item in opened if isinstance(item, Record))
        while some := list(islice(events, INTAKE_EVENTS)):
            crawls += take_in(some, TextSource()).crawls
    return crawls


def signature_of(shingles: NDArray[np.uint64]) -> PageSignature:
    """The signature of a page of which only the shingles exist."""
    data = shingles.astype("<u8").tobytes()
    content_hash = hashlib.blake2b(data, digest_size=16).digest()
    return PageSignature(SIGNATURE_VERSION, content_hash, data, minhash(shingles).tobytes(), (), len(shingles), "en")


def changed(shingles: NDArray[np.uint64], share: float, random: np.random.Generator) -> NDArray[np.uint64]:
    """The page with a share of its shingles replaced; each keeps its bucket, as if its first token had stayed."""
    count = max(1, round(share * len(shingles)))
    at = random.choice(len(shingles), size=min(count, len(shingles)), replace=False)
    bucket = shingles[at] >> np.uint64(52) << np.uint64(52)
    result = shingles.copy()
    result[at] = bucket | random.integers(0, 1 << 52, len(at), dtype=np.uint64)
    return np.unique(result)


def url_of_page(number: int) -> str:
    return f"https://site{number % 97}.example/page/{number}"


def first_fetches(pages: int, seed: int) -> Iterator[NDArray[np.uint64]]:
    """Shingle sets with planted near duplicates."""
    for chunk in shingle_sets(pages, seed):
        for index in range(len(chunk.clusters)):
            yield chunk.page(index).copy()


class Recrawl:
    """Draws fetches of a web that changes."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._contents: list[NDArray[np.uint64]] = []
        self._texts: dict[int, NDArray[np.uint64]] = {}
        self._time_ms = 1_500_000_000_000

    def _crawl(self, number: int, kind: str, **what: object) -> Crawl:
        self._time_ms += SECOND_MS
        return Crawl(url_of_page(number), self._time_ms, kind, **what)  # type: ignore[arg-type]

    def first(self, content: NDArray[np.uint64]) -> Crawl:
        number = len(self._contents)
        self._contents.append(content)
        self._texts[number] = content
        return self._crawl(number, "content", signature=signature_of(content))

    def again(self, kind: str, number: int | None = None, share: float | None = None) -> Crawl:
        """One page fetched again, with this outcome; `share`: how much of it a small change changes."""
        random = self._random
        number = int(random.integers(len(self._contents))) if number is None else number
        if kind == "gone":
            self._texts.pop(number, None)
            return self._crawl(number, "gone")
        if kind == "redirect":
            self._texts.pop(number, None)
            return self._crawl(number, "redirect", target=url_of_page(int(random.integers(len(self._contents)))))
        return self._crawl(number, "content", signature=signature_of(self._next_text(number, kind, share)))

    def _next_text(self, number: int, kind: str, share: float | None) -> NDArray[np.uint64]:
        random = self._random
        before = self._texts.get(number)
        if before is None:  # it was gone, and is back
            before = self._contents[number]
        if kind == "small change":
            drawn = float(np.exp(random.uniform(np.log(SMALLEST_CHANGE), np.log(LARGEST_CHANGE))))
            before = changed(before, share or drawn, random)
        elif kind == "rewrite":
            before = self._rewritten(number)
        self._texts[number] = before
        return before

    def _rewritten(self, number: int) -> NDArray[np.uint64]:
        """Half of the rewrites make a page that is like another one, at a Jaccard similarity around the threshold."""
        other = self._texts.get(int(self._random.integers(len(self._contents))))
        if other is not None and self._random.random() < 0.5:
            similarity = self._random.uniform(*REWRITE_SIMILARITY)
            return changed(other, (1 - similarity) / (1 + similarity), self._random)
        return changed(self._contents[number], 0.9, self._random)


def generated(pages: int, seed: int = 17) -> list[Crawl]:
    """A stream of that many pages, fetched `AGAIN_PER_PAGE` times more on average, first fetches all along."""
    recrawl, random, crawls = Recrawl(seed), np.random.default_rng(seed + 1), []
    for content in first_fetches(pages, seed):
        crawls.append(recrawl.first(content))
        crawls += [
            recrawl.again(str(random.choice(AGAIN, p=AGAIN_SHARES))) for _ in range(random.poisson(AGAIN_PER_PAGE))
        ]
    return crawls
