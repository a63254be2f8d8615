"""Search inside a partition: recall and precision against an exact join, time beside datasketch, growth to a million.

    python bench/search.py [--pages 100000] [--growth-pages 1000000]

Times are noise on a shared machine; ratios are measured in one run, the one to datasketch in processor time. Pages are
real ones where DUSTREAM_DATA names them (generated ones otherwise, and the output says so), filled up with copies of
them in which up to a quarter of the shingles is replaced: similarities on both sides of τ. Growth is measured on
synthetic shingle sets.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from datasketch import MinHashLSH
from numba import njit
from pages import sample_pages
from result_files import Table, write_result

from dustream.core.errors import BadInput
from dustream.core.kernels.mix64 import mix64
from dustream.core.similarity import similarity_at_least, threshold_ratio
from dustream.core.text.minhash import minhash, to_datasketch
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.signature import sign_page
from dustream.core.tier2.index import IndexedPage, SimilarityIndex
from dustream.schemas.signature import PageSignature

REAL_PAGES_MAX = 15_000
BATCH_PAGES = 1000
SYNTHETIC_SHINGLES = 48
FAMILY_PAGES = 4
TEMPLATE_PAGES = 1 << 30


class Corpus(NamedTuple):
    """Shingle sets end to end (page p: values[starts[p] : starts[p + 1]]), and what is compared first."""

    values: np.ndarray
    starts: np.ndarray
    content_hashes: list[bytes]
    minhashes: np.ndarray

    def shingles(self, page: int) -> np.ndarray:
        return self.values[self.starts[page] : self.starts[page + 1]]

    def signature(self, page: int) -> PageSignature:
        shingles = self.shingles(page)
        return PageSignature(
            1, self.content_hashes[page], shingles.tobytes(), self.minhashes[page].tobytes(), (), len(shingles), ""
        )


# ---- the pages


def content_hash(shingles: np.ndarray) -> bytes:
    one = np.bitwise_xor.reduce(shingles, initial=np.uint64(len(shingles)))
    return one.tobytes() + np.add.reduce(shingles, dtype=np.uint64).tobytes()


def corpus_of(sets: list[np.ndarray]) -> Corpus:
    starts = np.concatenate(([0], np.cumsum([len(shingles) for shingles in sets])))
    hashes = np.stack([minhash(shingles) for shingles in sets])
    return Corpus(np.concatenate(sets), starts, [content_hash(shingles) for shingles in sets], hashes)


def signed_sets(count: int) -> tuple[str, list[np.ndarray]]:
    said, events = sample_pages(count)
    sets = []
    for event in events[:count]:
        try:
            shingles = shingle_array(sign_page(event.html or "").shingles)
        except BadInput:
            continue
        if len(shingles):
            sets.append(np.array(shingles))
    return said, sets


def corpus_of_size(count: int) -> Corpus:
    """Real pages and mutants of them, shuffled."""
    said, sets = signed_sets(min(REAL_PAGES_MAX, count // 2))
    random = np.random.default_rng(5)
    real = len(sets)
    while len(sets) < count:
        base = sets[random.integers(real)]
        changed = random.random(len(base)) < random.uniform(0.0, 0.25)
        fresh = random.integers(0, 2**64, len(base), dtype=np.uint64)
        sets.append(np.unique(np.where(changed, fresh, base)))
    order = random.permutation(count)
    mean = np.mean([len(shingles) for shingles in sets])
    print(f"{count} pages: {real} of {said}, {count - real} mutants; {mean:.0f} shingles a page")
    return corpus_of([sets[page] for page in order])


# ---- the oracle: exact prefix filtering (Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007)


@njit(cache=True)
def prefix_length(size: int, numerator: int, denominator: int) -> int:
    """|A| − ⌈τ|A|⌉ + 1: two sets with J ≥ τ share a shingle among so many first ones of each, in any global order."""
    return size - (numerator * size + denominator - 1) // denominator + 1


@njit(cache=True)
def prefixes(starts: np.ndarray, values: np.ndarray, numerator: int, denominator: int) -> tuple[np.ndarray, np.ndarray]:
    total = 0
    for page in range(len(starts) - 1):
        total += prefix_length(starts[page + 1] - starts[page], numerator, denominator)
    shingles, pages, filled = np.empty(total, dtype=np.uint64), np.empty(total, dtype=np.int64), 0
    for page in range(len(starts) - 1):
        length = prefix_length(starts[page + 1] - starts[page], numerator, denominator)
        shingles[filled : filled + length] = values[starts[page] : starts[page] + length]
        pages[filled : filled + length] = page
        filled += length
    return shingles, pages


@njit(cache=True)
def join(
    starts: np.ndarray, values: np.ndarray, shingles: np.ndarray, pages: np.ndarray, numerator: int, denominator: int
) -> list[int]:
    """All pairs later · n + earlier with J ≥ τ; `shingles` ascending, `pages` ascending within a shingle."""
    count = len(starts) - 1
    met = np.full(count, -1, dtype=np.int64)
    pairs = [np.int64(0) for _ in range(0)]
    for page in range(count):
        own = values[starts[page] : starts[page + 1]]
        for i in range(prefix_length(len(own), numerator, denominator)):
            at = np.searchsorted(shingles, own[i])
            while at < len(shingles) and shingles[at] == own[i] and pages[at] < page:
                other = pages[at]
                at += 1
                if met[other] == page:
                    continue
                met[other] = page
                if similarity_at_least(own, values[starts[other] : starts[other + 1]], numerator, denominator) >= 0.0:
                    pairs.append(np.int64(page * count + other))
    return pairs


def exact_pairs(corpus: Corpus, tau: float) -> np.ndarray:
    ratio = threshold_ratio(tau)
    shingles, pages = prefixes(corpus.starts, corpus.values, *ratio)
    order = np.argsort(shingles, kind="stable")
    return np.array(sorted(join(corpus.starts, corpus.values, shingles[order], pages[order], *ratio)), dtype=np.int64)


# ---- the contenders. Both are given the MinHashes and hold the shingle sets in memory; what is timed is to find every
# page's matches among those before it, and to take it in.


def our_pairs(corpus: Corpus, tau: float) -> tuple[np.ndarray, float]:
    """In batches: inserted, then asked for; a pair belongs to its later page. All matches are wanted, so components do
    not matter and all pages get one label."""
    count = len(corpus.content_hashes)
    index, pairs = SimilarityIndex(tau, corpus.shingles, shingle_cache_bytes_max=2 * corpus.values.nbytes), []
    signatures = [corpus.signature(page) for page in range(count)]
    started = time.process_time()
    for first in range(0, count, BATCH_PAGES):
        batch = slice(first, min(first + BATCH_PAGES, count))
        numbers = np.arange(batch.start, batch.stop)
        index.insert_batch(numbers, corpus.content_hashes[batch], corpus.minhashes[batch], np.zeros_like(numbers))
        queries, found, _ = index.matches_batch(signatures[batch])
        later = queries + first
        pairs.append((later * count + found)[found < later])
    spent = time.process_time() - started
    return np.sort(np.concatenate(pairs)), spent


def datasketch_pairs(
    corpus: Corpus, tau: float, bands: int, rows: int, is_match: Callable[[int, int], bool]
) -> tuple[np.ndarray, float]:
    """The same bands in MinHashLSH, page by page, as its interface wants it."""
    count, pairs = len(corpus.content_hashes), []
    hashes = [to_datasketch(corpus.signature(page)) for page in range(count)]
    index = MinHashLSH(num_perm=128, params=(bands, rows))
    started = time.process_time()
    for page in range(count):
        pairs += [page * count + other for other in index.query(hashes[page]) if is_match(page, other)]
        index.insert(page, hashes[page], check_duplication=False)
    spent = time.process_time() - started
    return np.array(sorted(pairs), dtype=np.int64), spent


def python_verifier(corpus: Corpus, tau: float) -> Callable[[int, int], bool]:
    """What a user of datasketch writes: Python sets, sizes first."""
    numerator, denominator = threshold_ratio(tau)
    sets = [frozenset(corpus.shingles(page).tolist()) for page in range(len(corpus.content_hashes))]

    def is_match(page: int, other: int) -> bool:
        one, two = sets[page], sets[other]
        if min(len(one), len(two)) * denominator < numerator * max(len(one), len(two)):
            return False
        common = len(one & two)
        return common * denominator >= numerator * (len(one) + len(two) - common)

    return is_match


def compiled_verifier(corpus: Corpus, tau: float) -> Callable[[int, int], bool]:
    """Our compiled Jaccard behind datasketch: more than its users have."""
    ratio = threshold_ratio(tau)
    return lambda page, other: similarity_at_least(corpus.shingles(page), corpus.shingles(other), *ratio) >= 0.0


def row(name: str, pairs: np.ndarray, truth: np.ndarray, spent: float, our_spent: float, pages: int) -> list[Any]:
    right = np.isin(pairs, truth).sum()
    recall, precision = right / max(1, len(truth)), right / max(1, len(pairs))
    us_a_page = round(spent / pages * 1e6, 1)
    print(f"  {name:24} recall {recall:.6f}  precision {precision:.6f}  {us_a_page:7.1f} µs a page")
    return [name, f"{recall:.6f}", f"{precision:.6f}", us_a_page, round(spent / our_spent, 1)]


def compare(corpus: Corpus, tau: float) -> Table:
    pages = len(corpus.content_hashes)
    our_pairs(corpus_of([corpus.shingles(page) for page in range(10)]), tau)  # compiles
    truth = exact_pairs(corpus, tau)
    ours, our_spent = our_pairs(corpus, tau)
    index = SimilarityIndex(tau, corpus.shingles)
    print(f"τ = {tau}: {pages} pages, {len(truth)} pairs, {index.bands} bands of {index.rows}")
    rows = [row("dustream", ours, truth, our_spent, our_spent, pages)]
    for verifier, what in ((python_verifier, "Python sets"), (compiled_verifier, "our Jaccard")):
        theirs, spent = datasketch_pairs(corpus, tau, index.bands, index.rows, verifier(corpus, tau))
        rows.append(row(f"datasketch + {what}", theirs, truth, spent, our_spent, pages))
    title = f"τ = {tau}: {pages:,} pages, {len(truth):,} pairs, {index.bands} bands of {index.rows}"
    return Table(title, ["search", "recall", "precision", "µs a page", "times"], rows)


# ---- growth


@njit(cache=True)
def synthetic_shingles(page: int, family_pages: int) -> np.ndarray:
    """Families of near duplicates: one shingle in 20 (in a template one in 100) is the page's own."""
    own_one_in = np.uint64(20 if family_pages < TEMPLATE_PAGES else 100)
    shingles = np.empty(SYNTHETIC_SHINGLES, dtype=np.uint64)
    for i in range(SYNTHETIC_SHINGLES):
        own = mix64(np.uint64(page * 1000 + i)) % own_one_in == np.uint64(0)
        source = np.uint64(page) + np.uint64(1 << 40) if own else np.uint64(page // family_pages)
        shingles[i] = mix64(mix64(source) + np.uint64(i))
    return np.sort(shingles)


def synthetic_page(page: int, family_pages: int) -> PageSignature:
    shingles = synthetic_shingles(page, family_pages)
    return PageSignature(1, content_hash(shingles), shingles.tobytes(), minhash(shingles).tobytes(), (), 0, "")


def synthetic_rows(start: int, end: int) -> Iterator[IndexedPage]:
    for page in range(start, end):
        signed = synthetic_page(page, FAMILY_PAGES)
        yield IndexedPage(page, signed.content_hash, signed.minhash, page // FAMILY_PAGES)


def search_and_insert(index: SimilarityIndex, first: int, count: int, family_pages: int) -> tuple[float, float]:
    """(mean, longest) seconds a page of one match per component, then insertion."""
    signed = [synthetic_page(page, family_pages) for page in range(first, first + count)]
    spent = np.empty(count)
    for row, page in enumerate(signed):
        started = time.perf_counter()
        [query] = index.queries([page])
        matches = index.first_match_per_component(query, order_key=row)
        component = matches[0].component if matches else None
        index.insert(first + row, query, component)
        spent[row] = time.perf_counter() - started
    return float(spent.mean()), float(spent.max())


def growth(pages_max: int) -> Table:
    search_and_insert(SimilarityIndex(0.8, lambda page: synthetic_shingles(page, FAMILY_PAGES)), 0, 100, FAMILY_PAGES)
    index = SimilarityIndex(0.8, lambda page: synthetic_shingles(page, FAMILY_PAGES))
    sizes = [size for size in (10_000, 30_000, 100_000, 300_000, 1_000_000) if size <= pages_max]
    base, done, found = 0.0, 0, []
    print("growth, synthetic pages in families of four, τ = 0.8: search (one match per component) and insertion")
    for size in sizes:
        rows = list(synthetic_rows(done, size - 2000))
        started = time.perf_counter()
        index.rebuild(rows)
        rate = len(rows) / (time.perf_counter() - started)
        mean, longest = search_and_insert(index, size - 2000, 2000, FAMILY_PAGES)
        base, done = base or mean, size
        found.append([
            size, round(mean * 1e6, 1), round(mean / base, 2), round(longest * 1e3, 1),
            round(index.resident_bytes / size), round(rate),
        ])  # fmt: skip
        print("  " + " ".join(f"{each:>12}" for each in found[-1]))
    pause_ms = longest_pause(index, done) * 1e3
    print(f"  longest call while {done} grow by a third: {pause_ms:.0f} ms")
    columns = ["pages", "µs a page", "times the first row", "longest ms", "bytes a page", "rebuilt, pages/s"]
    return Table(f"Growth; longest call while {done:,} pages grow by a third: {pause_ms:.0f} ms", columns, found)


def longest_pause(index: SimilarityIndex, size: int) -> float:
    """Tables grow by a quarter: a third more pages meets every kind of growth. Pages one by one, random MinHashes."""
    random, longest = np.random.default_rng(3), 0.0
    for page in range(size, size + size // 3):
        [query] = index.queries([PageSignature(0, random.bytes(16), b"", random.bytes(4 * 128), (), 0, "")])
        started = time.perf_counter()
        index.insert(page, query)
        longest = max(longest, time.perf_counter() - started)
    return longest


def template(pages: int) -> Table:
    """One template shared by all pages, none an exact copy."""
    index = SimilarityIndex(0.8, lambda page: synthetic_shingles(page, TEMPLATE_PAGES))
    print("a template shared by all pages: search and insertion")
    found = []
    for first in range(0, pages, pages // 4):
        before = index.comparisons
        mean, longest = search_and_insert(index, first, pages // 4, TEMPLATE_PAGES)
        compared = (index.comparisons - before) / (pages // 4)
        size = first + pages // 4
        found.append([size, round(mean * 1e6, 1), round(compared, 2), round(longest * 1e3, 1)])
        print("  " + " ".join(f"{each:>12}" for each in found[-1]))
    columns = ["pages", "µs a page", "comparisons a page", "longest ms"]
    return Table("A template shared by all pages", columns, found)


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--growth-pages", type=int, default=1_000_000)
    options = parser.parse_args()
    corpus = corpus_of_size(options.pages)
    tables = [compare(corpus, 0.8), compare(corpus, 0.9), growth(options.growth_pages), template(options.pages)]
    write_result("search", tables)


if __name__ == "__main__":
    main()
