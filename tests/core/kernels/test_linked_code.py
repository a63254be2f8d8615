"""Functions that only compiled code calls are compiled as a part of their callers."""

from __future__ import annotations

import numpy as np
import pytest

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.native import types


@inner
def _squared(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    if value > 1_000:
        raise OverflowError("too large", value)
    return value * value


@inner
def _sum_of_squares(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += _squared(value)
    return total


@kernel
def _sums(values: np.ndarray) -> np.ndarray:
    return np.array([_sum_of_squares(values), _sum_of_squares(values[1:])])


def test_kernel_contains_the_functions_that_it_calls() -> None:
    assert _sums(np.arange(4)).tolist() == [14, 14]


def test_no_machine_code_is_made_of_a_function_that_only_compiled_code_calls() -> None:
    dispatcher = _squared.dispatcher  # type: ignore[attr-defined]
    dispatcher.compile((types.int64,))
    (overload,) = dispatcher.overloads.values()
    assert overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name) == 0


def test_errors_of_inner_functions_are_raised_by_the_kernel() -> None:
    with pytest.raises(ValueError, match="negative"):
        _sums(np.array([1, -1]))
    with pytest.raises(OverflowError) as raised:
        _sums(np.array([1, 2_000]))
    assert raised.value.args == ("too large", 2_000)
