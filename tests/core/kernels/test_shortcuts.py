"""Short cuts within numba change how functions are compiled, not what they do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numba.core.runtime import _nrt_python
from numpy.typing import NDArray

from dustream.core.kernels import shortcuts
from dustream.core.kernels.argument_types import argument_types
from dustream.core.kernels.compile import Kernel, inner, kernel
from dustream.core.kernels.compiler import compiled
from dustream.core.kernels.loading import OtherArguments, loaded
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


def compiled_again(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """As if it had never been compiled."""
    return loaded(compiled(cast("Kernel", function), arguments, argument_types(arguments)))


def test_a_function_is_compiled_once_for_all_constants_that_are_passed_to_it() -> None:
    assert compiled_again(_added, 2)(2) == 5
    assert len(_plus.dispatcher.overloads) == 1  # type: ignore[attr-defined]


def test_a_kernel_that_another_contains_has_no_machine_code_of_its_own() -> None:
    contained = cast("Kernel", _added)
    known = list(contained.compiled_types)
    assert compiled_again(_added_twice, 2)(2) == 8
    assert contained.compiled_types == known
    assert _added(3) == 6


def test_every_array_is_freed() -> None:
    pair = Pair(np.arange(3), np.arange(4))
    swap = compiled_again(_swapped, pair, 5)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for size in (2, 5) * 10:
        swapped = swap(pair, size)
        assert swapped.one.tolist() == [0, 1, 2, 3] and swapped.other[:2].tolist() == [0, 1]
        del swapped
        with suppress(OtherArguments):
            swap(pair, "no number")  # after the pair was taken over
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0


def test_numba_is_as_before_when_a_kernel_is_compiled() -> None:
    before = [getattr(owner, name) for owner, name in shortcuts._REPLACEMENTS]
    compiled_again(_added, 1)
    assert [getattr(owner, name) for owner, name in shortcuts._REPLACEMENTS] == before

    @numba.njit
    def plain(value: int) -> int:
        return value + 1

    assert plain(1) == 2


def test_passes_left_out_are_those_of_numba() -> None:
    flags = SimpleNamespace(no_rewrites=False, enable_ssa=True, auto_parallel=SimpleNamespace(enabled=False))
    passes = DefaultPassBuilder.define_nopython_pipeline(SimpleNamespace(flags=flags, func_ir=None)).passes  # type: ignore[no-untyped-call]
    assert {each.__name__ for each, _ in passes} >= UNUSED_PASSES
