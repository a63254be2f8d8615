"""The kernels that are called once or more for every page, with all arrays of an index as one argument.

Handing an array over from Python costs a microsecond or two when it is not in the processor's cache, and an index has
seventeen. A *frame* is one array that holds where the others lie and how long they are. It is true until one of them
is enlarged or replaced: then the owner of the arrays makes another (`frame_of`). The owner keeps them alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from dustream.core.tier2.bucket_search import (
    Walk,
    candidates_of,
    insert_page,
    search_components,
    similarities_to,
    walk_components,
)
from dustream.core.tier2.buckets import Ints, Shorts, Tables, Words
from dustream.core.tier2.shingle_cache import ShingleCache

# Per array: its address, then its extent in up to three dimensions.
FIELDS = 4


def frame_of(tables: Tables, cache: ShingleCache, walk: Walk) -> Ints:
    """Where the arrays lie now, in the order in which `tables_in`, `cache_in` and `walk_in` read them."""
    rows: list[int] = []
    for array in (*tables, *cache, *walk):
        extents = (*array.shape, 0, 0)[: FIELDS - 1]
        rows += (array.__array_interface__["data"][0], *extents)
    return np.array(rows, dtype=np.int64)


def _address_as_pointer(typing_context: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


_pointer: Any = intrinsic(_address_as_pointer)


@njit(cache=True)
def _words(frame: Ints, array: int) -> Words:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.uint64)


@njit(cache=True)
def _word_rows(frame: Ints, array: int) -> Words:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.uint64)


@njit(cache=True)
def _ints(frame: Ints, array: int) -> Ints:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.int64)


@njit(cache=True)
def _shorts(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1],), np.int32)


@njit(cache=True)
def _short_rows(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.int32)


@njit(cache=True)
def _short_pairs(frame: Ints, array: int) -> Shorts:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2], frame[at + 3]), np.int32)


@njit(cache=True)
def _float_rows(frame: Ints, array: int) -> NDArray[np.float64]:
    at = FIELDS * array
    return carray(_pointer(frame[at]), (frame[at + 1], frame[at + 2]), np.float64)


@njit(cache=True)
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


@njit(cache=True)
def cache_in(frame: Ints) -> ShingleCache:
    return ShingleCache(_words(frame, 12), _ints(frame, 13), _ints(frame, 14))


@njit(cache=True)
def walk_in(frame: Ints) -> Walk:
    return Walk(_ints(frame, 15), _float_rows(frame, 16))


@njit(cache=True)
def put_page(frame: Ints, page: int, keys: Words, content: Words, bare: bool, label: int, load_max: float) -> bool:
    """`insert_page`"""
    return bool(insert_page(tables_in(frame), page, keys, content, bare, label, load_max))


@njit(cache=True)
def candidates_in(frame: Ints, keys: Words, content: Words, bare: bool) -> Ints:
    """`candidates_of`"""
    return candidates_of(tables_in(frame), keys, content, bare)


@njit(cache=True)
def similarities_in(
    frame: Ints, pages: Ints, start: int, shingles: Words, content: Words, found: NDArray[np.float64]
) -> int:
    """`similarities_to`"""
    return int(similarities_to(tables_in(frame), cache_in(frame), pages, start, shingles, content, found))


@njit(cache=True)
def search_in(
    frame: Ints,
    keys: Words,
    content: Words,
    bare: bool,
    shingles: Words,
    numerator: int,
    denominator: int,
    order_key: np.uint64,
    except_component: int,
) -> Ints | None:
    """`search_components`"""
    tables, cache, walk = tables_in(frame), cache_in(frame), walk_in(frame)
    return search_components(
        tables, cache, walk, keys, content, bare, shingles, numerator, denominator, order_key, except_component
    )


@njit(cache=True)
def walk_on(
    frame: Ints,
    met: Ints,
    shingles: Words,
    numerator: int,
    denominator: int,
    order_key: np.uint64,
    fetched_text: int,
    fetched: Words,
) -> int:
    """`walk_components`"""
    tables, cache, walk = tables_in(frame), cache_in(frame), walk_in(frame)
    return int(
        walk_components(tables, cache, met, walk, shingles, numerator, denominator, order_key, fetched_text, fetched)
    )
