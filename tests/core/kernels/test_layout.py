"""Arrays in an order or of a type that is not declared are an error before compiled code reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.layout import ArrayOf, FrameLayout, LayoutError, MemoryLayout
from dustream.core.text import one_pass
from dustream.core.tier2 import framed
from dustream.core.tier2.buckets import Tables
from dustream.core.tier2.index import SimilarityIndex


class Shelf(NamedTuple):
    names: NDArray[np.uint64]
    weights: NDArray[np.float64]


SHELF = {"names": ArrayOf(np.uint64), "weights": ArrayOf(np.float64, 2)}
LAYOUT = FrameLayout({Shelf: SHELF}, numbers=1)
_shelf_in = LAYOUT.reader(Shelf)

PARTS = MemoryLayout()
COUNTS = PARTS.part(np.int32)
PAIRS = PARTS.part(np.int64, columns=2)
_part = PARTS.reader()


@kernel
def sums(frame: NDArray[np.int64]) -> tuple[int, float, int]:
    shelf = _shelf_in(frame)
    return shelf.names.sum(), shelf.weights[:, 1].sum(), frame[LAYOUT_NUMBERS]


@kernel
def last_of(memory: NDArray[np.uint8]) -> tuple[int, int]:
    return _part(memory, COUNTS)[-1], _part(memory, PAIRS)[-1, 0]


LAYOUT_NUMBERS = LAYOUT.numbers_at


def shelf() -> Shelf:
    return Shelf(np.array([1, 2], np.uint64), np.array([[0.5, 2.0], [0.5, 3.0]]))


def test_compiled_code_reads_what_python_wrote() -> None:
    assert sums(LAYOUT.frame((shelf(),), (7,))) == (3, 5.0, 7)
    assert last_of(PARTS.filled({COUNTS: np.array([4, 5], np.int32), PAIRS: np.array([[1, 2], [3, 4]])})) == (5, 3)


def test_fields_declared_in_another_order_than_the_tuple_has_are_an_error() -> None:
    with pytest.raises(LayoutError, match="Shelf has the fields"):
        FrameLayout({Shelf: dict(reversed(SHELF.items()))}, numbers=1)


def test_arrays_in_the_wrong_order_are_an_error() -> None:
    names, weights = shelf()
    with pytest.raises(LayoutError, match=r"Shelf\.names is declared as"):
        LAYOUT.frame((Shelf(weights, names),), (7,))


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.float32), np.zeros(2), np.zeros((4, 4))[:, ::2]])
def test_an_array_of_another_type_or_shape_is_an_error(wrong: NDArray[np.float64]) -> None:
    with pytest.raises(LayoutError, match=r"Shelf\.weights"):
        LAYOUT.frame((shelf()._replace(weights=wrong),), (7,))


def test_a_missing_tuple_or_number_is_an_error() -> None:
    with pytest.raises(LayoutError):
        LAYOUT.frame((), (7,))
    with pytest.raises(LayoutError):
        LAYOUT.frame((shelf(),), ())


def test_parts_of_a_memory_must_be_those_declared() -> None:
    with pytest.raises(LayoutError, match="2 parts are declared, 1"):
        PARTS.allocate({COUNTS: 3})
    with pytest.raises(LayoutError, match="2 columns"):
        PARTS.allocate({COUNTS: 3, PAIRS: 3})
    with pytest.raises(LayoutError, match="part 0 is declared"):
        PARTS.filled({COUNTS: np.array([[1, 2]]), PAIRS: np.array([4, 5], np.int32)})


def test_misordered_arrays_of_the_similarity_index_are_an_error() -> None:
    index = SimilarityIndex(0.8, lambda page: np.empty(0, np.uint64))
    tables, cache, walk = index._tables, index._cache, index._walk
    framed.frame_of(tables, cache, walk, (4, 5))
    swapped = tables._replace(place=tables.label, label=tables.place)
    with pytest.raises(LayoutError, match=r"Tables\.place"):
        framed.frame_of(swapped, cache, walk, (4, 5))
    with pytest.raises(LayoutError, match=r"Tables\."):
        framed.frame_of(Tables(*reversed(tables)), cache, walk, (4, 5))


def test_misordered_tables_of_the_scanner_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    words, languages = one_pass.word_table()
    monkeypatch.setattr(one_pass, "word_table", lambda: (languages, words))
    with pytest.raises(LayoutError, match="part 3 is declared"):
        one_pass._tables.__wrapped__()
