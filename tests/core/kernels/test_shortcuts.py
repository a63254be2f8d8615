"""Short cuts within numba change how functions are compiled, not what they do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np
from numba.core.runtime import _nrt_python
from numpy.typing import NDArray

from dustream.core.kernels import shortcuts
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.native import DefaultPassBuilder, rtsys
from dustream.core.kernels.shortcuts import UNUSED_PASSES


class Pair(NamedTuple):
    one: NDArray[np.int64]
    other: NDArray[np.int64]


@inner
def _plus(value: int, more: int) -> int:
    return value + more


@kernel
def _added(value: int) -> int:
    return _plus(_plus(value, 1), 2)


@kernel
def _added_twice(value: int) -> int:
    return _added(_added(value))


@kernel
def _swapped(pair: Pair, size: int) -> Pair:
    longer = np.zeros(size, np.int64)
    for i in range(len(pair.one)):
        longer[i] = pair.one[i]
    return Pair(pair.other, longer if size > 2 else pair.one)


def fresh(function: object) -> None:
    """As if it had never been compiled; `recompile` ignores what is on disk."""
    function.recompile()  # type: ignore[attr-defined]


def test_a_function_is_compiled_once_for_all_constants_that_are_passed_to_it() -> None:
    assert _added(1) == 4
    fresh(_added)
    assert _added(2) == 5
    assert len(_plus.overloads) == 1  # type: ignore[attr-defined]


def test_a_kernel_that_another_contains_has_no_machine_code_of_its_own() -> None:
    assert _added_twice(1) == 7
    fresh(_added_twice)
    kernels_before = dict(_added.overloads)  # type: ignore[attr-defined]
    assert _added_twice(2) == 8
    assert _added.overloads == kernels_before  # type: ignore[attr-defined]
    assert _added(3) == 6


def test_every_array_is_freed() -> None:
    pair = Pair(np.arange(3), np.arange(4))
    _swapped(pair, 5)
    fresh(_swapped)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for size in (2, 5) * 10:
        swapped = _swapped(pair, size)
        assert swapped.one.tolist() == [0, 1, 2, 3] and swapped.other[:2].tolist() == [0, 1]
        del swapped
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0


def test_numba_is_as_before_when_a_kernel_is_compiled() -> None:
    before = [getattr(owner, name) for owner, name in shortcuts._REPLACEMENTS]
    _added(1)
    fresh(_added)
    assert [getattr(owner, name) for owner, name in shortcuts._REPLACEMENTS] == before

    @numba.njit
    def plain(value: int) -> int:
        return value + 1

    assert plain(1) == 2


def test_passes_left_out_are_those_of_numba() -> None:
    flags = SimpleNamespace(no_rewrites=False, enable_ssa=True, auto_parallel=SimpleNamespace(enabled=False))
    passes = DefaultPassBuilder.define_nopython_pipeline(SimpleNamespace(flags=flags, func_ir=None)).passes  # type: ignore[no-untyped-call]
    assert {each.__name__ for each, _ in passes} >= UNUSED_PASSES
