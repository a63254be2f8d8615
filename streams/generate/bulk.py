"""The generated web without pages: shingle sets and length vectors of any number of pages, for partition benchmarks.

Lengths follow Zhu's Figure 1 and words Zipf's law, as in the full generator, and near duplicates are planted; but a
page is only its row of shingles. A shingle is laid out as in a stored signature: the bucket of its first token in the
top 12 bits, then a hash of its five tokens. Near duplicates are copies of a page with at most 2 % of their shingles
touched, so any two pages of a cluster are at Jaccard .92 or above; pages of different clusters share next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.kernels.compile import inner, kernel
from dustream.streams.generate.draws import Draws, lookup_table, mix64
from dustream.streams.generate.prose import SHINGLE_TOKENS, page_lengths, zipf_weights

BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS
CHUNK_PAGES = 8192
TOPICS = 64
TOPIC_WORDS = 5_000
COMMON_WORDS = 100
"""The most frequent words are the same in every topic, as function words are."""
COPY_REACH_PAGES = 2048
"""How far back in its chunk a copy's original may lie."""


@dataclass(frozen=True, eq=False)
class ShingleSets:
    """A chunk of pages. Page i has `shingles[offsets[i]:offsets[i + 1]]`, ascending and distinct.

    Pages with the same number in `clusters` are near duplicates of each other (the number is that of their original).
    """

    first_page: int
    offsets: NDArray[np.int64]
    shingles: NDArray[np.uint64]
    clusters: NDArray[np.int64]

    def page(self, index: int) -> NDArray[np.uint64]:
        return self.shingles[self.offsets[index] : self.offsets[index + 1]]


def shingle_sets(pages: int, seed: int, copies_per_mille: int = 200) -> Iterator[ShingleSets]:
    """`pages` pages in chunks; so many of a thousand are near duplicates of an earlier page of their chunk."""
    if pages < 1 or not 0 <= copies_per_mille <= 900:
        raise BadSetting("shingle_sets needs at least one page and at most 900 copies of a thousand")
    words = lookup_table(np.arange(TOPIC_WORDS), zipf_weights(TOPIC_WORDS)).astype(np.uint16)
    for first_page in range(0, pages, CHUNK_PAGES):
        draws = Draws(seed, "bulk", first_page)
        yield _chunk(draws, words, first_page, min(CHUNK_PAGES, pages - first_page), copies_per_mille)


def length_vectors(
    pages: int, seed: int, sub_dictionaries: NDArray[np.uint8] | None = None, copies_per_mille: int = 200
) -> NDArray[np.uint32]:
    """The length vector of each page: how many of its distinct shingles start in each sub-dictionary.

    `sub_dictionaries` gives the sub-dictionary of each of the 4,096 buckets; by default three, by hash (Zhu, 4.1).
    """
    table = default_sub_dictionaries() if sub_dictionaries is None else sub_dictionaries
    if table.shape != (BUCKETS,):
        raise BadSetting(f"a table of sub-dictionaries has {BUCKETS} entries, not {table.shape}")
    vectors = np.zeros((pages, int(table.max()) + 1), dtype=np.uint32)
    for chunk in shingle_sets(pages, seed, copies_per_mille):
        _count_lengths(chunk.offsets, chunk.shingles, table, vectors[chunk.first_page :])
    return vectors


def default_sub_dictionaries(count: int = 3) -> NDArray[np.uint8]:
    """Buckets dealt to `count` sub-dictionaries by hash."""
    return (mix64(np.arange(1, BUCKETS + 1, dtype=np.uint64)) % np.uint64(count)).astype(np.uint8)


def _chunk(draws: Draws, words: NDArray[np.uint16], first_page: int, pages: int, copies_per_mille: int) -> ShingleSets:
    roots = _roots(draws, pages, copies_per_mille)
    copies = roots != np.arange(pages)
    keys = draws.array(pages)
    lengths = page_lengths()[draws.array_16_bit(pages)][roots]
    topics = draws.array_below(TOPICS, pages)[roots]
    touched_per_mille = np.maximum(draws.array_below(26, pages) - 5, 0)  # a quarter of the copies are exact
    touched = np.where(copies, lengths * touched_per_mille // 1000, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shingles = np.empty(int(offsets[-1]), dtype=np.uint64)
    _fill_shingles(offsets, keys[roots], keys, touched, topics, words, shingles)
    bounds = offsets.tolist()
    for start, stop in pairwise(bounds):
        shingles[start:stop].sort()
    kept = _drop_repeats(offsets, shingles)
    return ShingleSets(first_page, offsets, shingles[:kept], first_page + roots)


def _roots(draws: Draws, pages: int, copies_per_mille: int) -> NDArray[np.int64]:
    """The original of each page: itself, or, for a copy, the original of an earlier page."""
    own = np.arange(pages)
    reach = np.minimum(own, COPY_REACH_PAGES)
    back = 1 + (draws.array_below(1 << 30, pages) * reach >> 30)
    copies = (draws.array_below(1000, pages) < copies_per_mille) & (own > 0)
    roots = np.where(copies, np.maximum(own - back, 0), own)
    while not np.array_equal(roots, roots[roots]):
        roots = roots[roots]
    return roots


@inner
def _mix(value: np.uint64) -> np.uint64:
    """draws.mix64 of one number."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inner
def _write_tokens(
    key: np.uint64, topic: int, words: NDArray[np.uint16], length: int, tokens: NDArray[np.uint64]
) -> None:
    """Hashed tokens of a page, drawn by Zipf's law; words beyond the common ones belong to the topic."""
    for i in range(0, length, 4):
        draw = _mix(key + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15))
        for j in range(i, min(i + 4, length)):
            word = np.uint64(words[draw & np.uint64(0xFFFF)])
            draw >>= np.uint64(16)
            if word >= np.uint64(COMMON_WORDS):
                word += np.uint64(topic + 1) << np.uint64(32)
            tokens[j] = _mix(word + np.uint64(1))


@inner
def _edit_tokens(key: np.uint64, touched: int, length: int, tokens: NDArray[np.uint64]) -> None:
    """Replace tokens so that at most `touched` shingles change: five each within the text, one each at its start."""
    within = touched // SHINGLE_TOKENS
    for edit in range(within + touched % SHINGLE_TOKENS):
        draw = _mix(key ^ np.uint64(edit + 1))
        place = draw % np.uint64(length) if edit < within else np.uint64(edit - within)
        tokens[place] = _mix(draw)


@kernel
def _fill_shingles(
    offsets: NDArray[np.int64],
    text_keys: NDArray[np.uint64],
    edit_keys: NDArray[np.uint64],
    touched: NDArray[np.int64],
    topics: NDArray[np.int64],
    words: NDArray[np.uint16],
    shingles: NDArray[np.uint64],
) -> None:
    """Shingles of every page in text order; k − 1 dummy tokens (zeros) follow the text, as Broder has it."""
    dummies = SHINGLE_TOKENS - 1
    tokens = np.empty(4096, dtype=np.uint64)
    multiplier = np.uint64(0x9E3779B97F4A7C15)
    for page in range(len(offsets) - 1):
        start = offsets[page]
        length = offsets[page + 1] - start
        _write_tokens(text_keys[page], topics[page], words, length, tokens)
        _edit_tokens(edit_keys[page], touched[page], length, tokens)
        tokens[length : length + dummies] = 0
        for i in range(length):
            mixed = tokens[i]
            for j in range(1, SHINGLE_TOKENS):
                mixed = (mixed ^ (mixed >> np.uint64(29))) * multiplier + tokens[i + j]
            bucket = tokens[i] >> np.uint64(64 - BUCKET_BITS)
            shingles[start + i] = (bucket << np.uint64(64 - BUCKET_BITS)) | (_mix(mixed) >> np.uint64(BUCKET_BITS))


@kernel
def _drop_repeats(offsets: NDArray[np.int64], shingles: NDArray[np.uint64]) -> int:
    """Keep each shingle of a page once, in place; `offsets` is brought up to date. Returns how many are left."""
    kept = 0
    start = offsets[0]
    for page in range(len(offsets) - 1):
        stop = offsets[page + 1]
        offsets[page] = kept
        for i in range(start, stop):
            if i == start or shingles[i] != shingles[i - 1]:
                shingles[kept] = shingles[i]
                kept += 1
        start = stop
    offsets[len(offsets) - 1] = kept
    return kept


@kernel
def _count_lengths(
    offsets: NDArray[np.int64], shingles: NDArray[np.uint64], table: NDArray[np.uint8], vectors: NDArray[np.uint32]
) -> None:
    for page in range(len(offsets) - 1):
        for i in range(offsets[page], offsets[page + 1]):
            vectors[page, table[shingles[i] >> np.uint64(64 - BUCKET_BITS)]] += 1
