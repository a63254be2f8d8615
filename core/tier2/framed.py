"""The kernels that are called once or more for every page, with all arrays of an index as one argument.

Passing an array from Python costs a microsecond or two when it is not in the processor's cache, and an index has
eighteen. A *frame* is one array with the addresses and sizes of the others, in the order of `LAYOUT`. It is valid until
one of them is enlarged or replaced: then the owner of the arrays builds a new one (`frame_of`).

For the same reason a page is passed as one array of *words*: whether it is bare, its content hash, the sketch of its
set, the keys of its columns, then its shingles (`page_words`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.arrays import copy_into
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.layout import ArrayOf, FrameLayout
from dustream.core.similarity import similarity_at_least
from dustream.core.tier2.bands import band_key, is_without_shingles
from dustream.core.tier2.bucket_search import (
    Walk,
    candidates_of,
    content_key,
    insert_page,
    matching_pages,
    meets_texts,
    search_components,
    similarities_to,
    walk_components,
)
from dustream.core.tier2.buckets import OWNER, PAGES, RUN, Ints, Tables, Words, remove_page
from dustream.core.tier2.odd_sketch import SKETCH_WORDS, odd_sketch
from dustream.core.tier2.shingle_cache import ShingleCache, is_cached, remember

LAYOUT = FrameLayout(
    {
        Tables: {
            "slots": ArrayOf(np.uint64, 2),
            "slots_before": ArrayOf(np.uint64, 2),
            "content_slots": ArrayOf(np.uint64),
            "keys": ArrayOf(np.uint64, 2),
            "place": ArrayOf(np.int32, 3),
            "label": ArrayOf(np.int64),
            "content": ArrayOf(np.uint64, 2),
            "marks": ArrayOf(np.int32, 2),
            "runs": ArrayOf(np.int32, 2),
            "cells": ArrayOf(np.int32),
            "page_place": ArrayOf(np.int32, 3),
            "counts": ArrayOf(np.int64),
        },
        ShingleCache: {"ring": ArrayOf(np.uint64), "place": ArrayOf(np.int64), "head": ArrayOf(np.int64)},
        Walk: {"place": ArrayOf(np.int64), "found": ArrayOf(np.float64, 2), "met": ArrayOf(np.int64, 2)},
    },
    numbers=2,  # the threshold as a ratio
)
_RATIO_AT = LAYOUT.numbers_at

# Offsets in the words of a page; its shingles follow its keys.
BARE_WORD, CONTENT_WORDS, SKETCH_AT = 0, 1, 3
KEYS_AT = SKETCH_AT + SKETCH_WORDS

NOT_PRESENT = -2


def frame_of(tables: Tables, cache: ShingleCache, walk: Walk, ratio: tuple[int, int]) -> Ints:
    """The current addresses of the arrays, and the threshold."""
    return LAYOUT.frame((tables, cache, walk), ratio)


@kernel
def page_words(
    minhashes: NDArray[np.uint32], contents: Words, shingles: Words, sizes: Ints, bands: int, rows: int
) -> Words:
    """The words of many pages, concatenated. `minhashes` has a row per page, the others are concatenated, too."""
    head, start, at = KEYS_AT + bands + 1, 0, 0
    words = np.empty(head * len(sizes) + len(shingles), dtype=np.uint64)
    for page in range(len(sizes)):
        minhash, own = minhashes[page], shingles[start : start + sizes[page]]
        content = contents[2 * page : 2 * page + 2]
        words[at + BARE_WORD] = np.uint64(is_without_shingles(minhash))
        copy_into(words[at + CONTENT_WORDS :], content)
        copy_into(words[at + SKETCH_AT :], odd_sketch(own))
        for band in range(bands):
            words[at + KEYS_AT + band] = band_key(minhash, band, rows)
        words[at + head - 1] = content_key(content)
        copy_into(words[at + head :], own)
        start += len(own)
        at += head + len(own)
    return words


_tables_in, _cache_in, _walk_in = (LAYOUT.reader(kind) for kind in (Tables, ShingleCache, Walk))


@inner
def tables_in(frame: Ints) -> Tables:
    return _tables_in(frame)  # type: ignore[no-any-return]


@inner
def cache_in(frame: Ints) -> ShingleCache:
    return _cache_in(frame)  # type: ignore[no-any-return]


@inner
def walk_in(frame: Ints) -> Walk:
    return _walk_in(frame)  # type: ignore[no-any-return]


@inner
def ratio_in(frame: Ints) -> tuple[int, int]:
    return frame[_RATIO_AT], frame[_RATIO_AT + 1]


@inner
def shingles_in(tables: Tables, words: Words) -> Words:
    return words[KEYS_AT + tables.keys.shape[1] :]


@inner
def keys_in(tables: Tables, words: Words) -> Words:
    return words[KEYS_AT : KEYS_AT + tables.keys.shape[1]]


@inner
def content_in(words: Words) -> Words:
    return words[CONTENT_WORDS:SKETCH_AT]


@inner
def sketch_in(words: Words) -> Words:
    return words[SKETCH_AT:KEYS_AT]


@kernel
def put_page(frame: Ints, page: int, words: Words, label: int) -> bool:
    """`insert_page`; also returns False if the page is present."""
    tables = tables_in(frame)
    if page < 0 or (page < len(tables.page_place) and tables.page_place[page, 0, RUN] != 0):
        return False
    keys, content = keys_in(tables, words), content_in(words)
    return bool(insert_page(tables, page, keys, content, words[BARE_WORD] != 0, label))


@kernel
def remember_in(frame: Ints, text: int, shingles: Words) -> None:
    """`remember`"""
    remember(cache_in(frame), text, shingles)


@kernel
def compare_in(frame: Ints, words: Words, page: int, shingles: Words) -> float:
    """The similarity to a page present whose set was not cached, -1.0 below the ratio; the set is cached."""
    tables, cache, (numerator, denominator) = tables_in(frame), cache_in(frame), ratio_in(frame)
    text = int(np.int64(tables.runs[tables.page_place[page, 0, RUN], OWNER]))
    if not is_cached(cache, text):
        remember(cache, text, shingles)
    return similarity_at_least(shingles_in(tables, words), shingles, numerator, denominator)


@kernel
def take_page(frame: Ints, page: int) -> int:
    """`remove_page`; returns the number of pages left, or NOT_PRESENT."""
    tables, cached = tables_in(frame), cache_in(frame).place
    if page < 0 or page >= len(tables.page_place) or tables.page_place[page, 0, RUN] == 0:
        return NOT_PRESENT
    text = remove_page(tables, page)
    if text >= 0:
        cached[text] = 0
    return int(tables.counts[PAGES])


@kernel
def candidates_in(frame: Ints, words: Words) -> Ints:
    """`candidates_of`"""
    tables = tables_in(frame)
    return candidates_of(tables, keys_in(tables, words), content_in(words), words[BARE_WORD] != 0)


@kernel
def meets_many(frame: Ints, words: Words, many: int) -> bool:
    """`meets_texts`"""
    tables = tables_in(frame)
    return bool(meets_texts(tables, keys_in(tables, words), words[BARE_WORD] != 0, many))


@kernel
def similarities_in(frame: Ints, pages: Ints, start: int, words: Words, found: NDArray[np.float64]) -> int:
    """`similarities_to`"""
    tables, cache = tables_in(frame), cache_in(frame)
    return int(similarities_to(tables, cache, pages, start, shingles_in(tables, words), content_in(words), found))


@kernel
def matching_in(frame: Ints, words: Words, after: int, candidates_max: int) -> NDArray[np.float64]:
    """`matching_pages`"""
    tables, cache, (numerator, denominator) = tables_in(frame), cache_in(frame), ratio_in(frame)
    keys, content, is_bare = keys_in(tables, words), content_in(words), words[BARE_WORD] != 0
    candidates = candidates_of(tables, keys, content, is_bare)
    own, sketch = shingles_in(tables, words), sketch_in(words)
    return matching_pages(
        tables, cache, candidates, own, content, sketch, numerator, denominator, after, candidates_max
    )


@kernel
def search_in(frame: Ints, words: Words, order_key: int, except_component: int) -> int:
    """`search_components`"""
    tables, cache, walk, (numerator, denominator) = tables_in(frame), cache_in(frame), walk_in(frame), ratio_in(frame)
    keys, content, own, sketch = (
        keys_in(tables, words),
        content_in(words),
        shingles_in(tables, words),
        sketch_in(words),
    )
    return int(
        search_components(
            tables,
            cache,
            walk,
            keys,
            content,
            words[BARE_WORD] != 0,
            own,
            sketch,
            numerator,
            denominator,
            np.uint64(order_key),
            except_component,
        )
    )


@kernel
def walk_on(frame: Ints, words: Words, order_key: int, fetched: Words) -> int:
    """`walk_components`, with the set of the wanted text."""
    tables, cache, walk, (numerator, denominator) = tables_in(frame), cache_in(frame), walk_in(frame), ratio_in(frame)
    own, sketch = shingles_in(tables, words), sketch_in(words)
    return int(
        walk_components(tables, cache, walk, own, sketch, numerator, denominator, np.uint64(order_key), True, fetched)
    )
