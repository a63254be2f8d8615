"""The kernels that are called once or more for every page, with all arrays of an index as one argument.

Passing an array from Python costs a microsecond or two when it is not in the processor's cache, and an index has
eighteen. A *frame* is one array with the addresses and sizes of the others. It is valid until one of them is enlarged
or replaced: then the owner of the arrays builds a new one (`frame_of`). The owner keeps the arrays alive.

For the same reason a page is passed as one array of *words*: whether it is bare, its content hash, the sketch of its
set, the keys of its columns, then its shingles (`page_words`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.native import carray, cgutils, intrinsic, types
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
from dustream.core.tier2.buckets import OWNER, PAGES, RUN, Ints, Shorts, Tables, Words, remove_page
from dustream.core.tier2.odd_sketch import SKETCH_WORDS, odd_sketch
from dustream.core.tier2.shingle_cache import ShingleCache, is_cached, remember

# Per array: its address, then its extent in up to three dimensions. After the arrays: the threshold as a ratio.
FIELDS = 4
ARRAYS = 18

# Offsets in the words of a page; its shingles follow its keys.
BARE_WORD, CONTENT_WORDS, SKETCH_AT = 0, 1, 3
KEYS_AT = SKETCH_AT + SKETCH_WORDS

NOT_PRESENT = -2


def frame_of(tables: Tables, cache: ShingleCache, walk: Walk, ratio: tuple[int, int]) -> Ints:
    """The current addresses of the arrays, in the order in which `tables_in`, `cache_in` and `walk_in` read them."""
    rows: list[int] = []
    for array in (*tables, *cache, *walk):
        extents = (*array.shape, 0, 0)[: FIELDS - 1]
        rows += (array.__array_interface__["data"][0], *extents)
    return np.array([*rows, *ratio], dtype=np.int64)


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
        words[at + CONTENT_WORDS : at + SKETCH_AT] = content
        words[at + SKETCH_AT : at + KEYS_AT] = odd_sketch(own)
        for band in range(bands):
            words[at + KEYS_AT + band] = band_key(minhash, band, rows)
        words[at + head - 1] = content_key(content)
        words[at + head : at + head + len(own)] = own
        start += len(own)
        at += head + len(own)
    return words


def _address_as_pointer(typing_context: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


_pointer: Any = intrinsic(_address_as_pointer)


@kernel
def _words(frame: Ints, array: int) -> Words:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.uint64)


@kernel
def _word_rows(frame: Ints, array: int) -> Words:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.uint64)


@kernel
def _ints(frame: Ints, array: int) -> Ints:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.int64)


@kernel
def _int_rows(frame: Ints, array: int) -> Ints:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.int64)


@kernel
def _shorts(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.int32)


@kernel
def _short_rows(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.int32)


@kernel
def _short_pairs(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2], frame[at + 3]), np.int32)


@kernel
def _float_rows(frame: Ints, array: int) -> NDArray[np.float64]:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.float64)


@kernel
def tables_in(frame: Ints) -> Tables:
    return Tables(
        _word_rows(frame, 0),
        _word_rows(frame, 1),
        _words(frame, 2),
        _word_rows(frame, 3),
        _short_pairs(frame, 4),
        _ints(frame, 5),
        _word_rows(frame, 6),
        _short_rows(frame, 7),
        _short_rows(frame, 8),
        _shorts(frame, 9),
        _short_pairs(frame, 10),
        _ints(frame, 11),
    )


@kernel
def cache_in(frame: Ints) -> ShingleCache:
    return ShingleCache(_words(frame, 12), _ints(frame, 13), _ints(frame, 14))


@kernel
def walk_in(frame: Ints) -> Walk:
    return Walk(_ints(frame, 15), _float_rows(frame, 16), _int_rows(frame, 17))


@kernel
def ratio_in(frame: Ints) -> tuple[int, int]:
    return frame[FIELDS * ARRAYS], frame[FIELDS * ARRAYS + 1]


@kernel
def shingles_in(tables: Tables, words: Words) -> Words:
    return words[KEYS_AT + tables.keys.shape[1] :]


@kernel
def keys_in(tables: Tables, words: Words) -> Words:
    return words[KEYS_AT : KEYS_AT + tables.keys.shape[1]]


@kernel
def content_in(words: Words) -> Words:
    return words[CONTENT_WORDS:SKETCH_AT]


@kernel
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
