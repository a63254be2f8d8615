"""A kernel takes arguments of the types it has machine code for, and is compiled for others: it never misreads one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dustream.core.kernels import compiler
from dustream.core.kernels.argument_types import argument_types
from dustream.core.kernels.compile import Kernel, entry_point, inner, kernel, threaded_kernel
from dustream.core.kernels.loading import OtherArguments, loaded


class Pair(NamedTuple):
    one: NDArray[np.int64]
    other: NDArray[np.int64]


class Couple(NamedTuple):
    one: NDArray[np.int64]
    other: NDArray[np.int64]


@kernel
def _total(values: NDArray[Any]) -> float:
    total = 0.0
    for value in values.flat:
        total += value
    return total


@kernel
def _half(number: Any) -> float:
    return number / 2


@kernel
def _size(value: Any) -> int:
    return len(value)


@kernel
def _is_none(value: Any) -> bool:
    return value is None


@kernel
def _sum_of(pair: Any, more: int = 3) -> int:
    return pair[0].sum() + pair[1].sum() + more


@kernel
def _set_first(values: NDArray[np.int64]) -> None:
    values[0] = 7


_matrix = np.arange(24, dtype=np.int64).reshape(4, 6)
_read_only = _matrix[0].copy()
_read_only.flags.writeable = False
_unaligned = np.frombuffer(b"\0" + np.arange(3).tobytes(), np.uint8)[1:].view(np.int64)

ARRAYS = [
    _matrix[0],
    _matrix,
    _matrix.T,
    _matrix[:, ::2],
    _matrix[::2, 0],
    _read_only,
    _unaligned,
    np.empty(0, np.int64),
    np.arange(3.0),
    *(np.arange(3).astype(kind) for kind in "?bBhHiIlLqQf"),
    np.arange(3, dtype=np.int64).view(np.recarray),
]


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(len(ARRAYS))))
def test_arrays_of_any_type_are_read_right_in_any_order(order: list[int]) -> None:
    for number in order:
        assert _total(ARRAYS[number]) == ARRAYS[number].sum()


def test_an_array_in_the_other_byte_order_is_an_error_even_if_code_for_its_type_is_there() -> None:
    assert _total(np.arange(3)) == 3
    with pytest.raises(Exception, match="Unsupported array dtype"):
        _total(np.arange(3).astype(">i8"))


@pytest.mark.parametrize("number", [3, 2.5, True, np.int64(-3), np.uint64(2**64 - 1), np.float32(0.5), np.int8(-5)])
def test_numbers(number: Any) -> None:
    for each in (3, 2.5, number):
        assert _half(each) == each / 2


def test_a_number_that_is_too_large_is_an_error() -> None:
    assert _half(3) == 1.5
    with pytest.raises(OverflowError):
        _half(2**70)


@pytest.mark.parametrize("value", ["größer", "", b"bytes", (1, 2, 3)])
def test_texts_bytes_and_tuples(value: Any) -> None:
    for each in ("ascii", value):
        assert _size(each) == len(each)


def test_none() -> None:
    assert [_is_none(each) for each in (1, None, 2.0, None)] == [False, True, False, True]


def test_tuples_of_other_classes_sizes_and_items() -> None:
    one, other = np.arange(3), np.arange(4)
    small = one.astype(np.int32)
    tuples = [Pair(one, other), Couple(one, other), (one, other), Pair(small, other), (one, other, small)]
    for each in (*tuples, *reversed(tuples)):
        assert _sum_of(each) == each[0].sum() + each[1].sum() + 3
    assert _sum_of(tuples[0], more=5) == _sum_of(pair=tuples[0], more=5) == _sum_of(tuples[0], 5) == 14


def test_code_that_writes_never_gets_a_read_only_array() -> None:
    written = np.arange(3)
    _set_first(written)
    assert written[0] == 7
    with pytest.raises(Exception, match="readonly"):
        _set_first(_read_only)
    assert _read_only[0] == 0


def test_machine_code_called_directly_refuses_other_arguments() -> None:
    code = entry_point(_total, (np.arange(3),))
    assert code(np.arange(4)) == 6
    for other in (np.arange(3.0), _matrix, [1, 2], None, 3):
        with pytest.raises(OtherArguments):
            code(other)


def test_arguments_that_no_kernel_takes_are_an_error() -> None:
    for each in ([1, 2], {1: 2}, object(), np.array(["text"])):
        with pytest.raises(Exception, match=r"(?i)cannot take|cannot determine|not understood"):
            _is_none(each)


def test_wrong_numbers_of_arguments_are_an_error() -> None:
    with pytest.raises(TypeError):
        _half()
    with pytest.raises(TypeError):
        _half(1, 2)
    with pytest.raises(TypeError):
        _half(1, wrong=2)


@inner
def _never(value: int) -> int:
    return value


def test_only_compiled_code_calls_inner_functions() -> None:
    with pytest.raises(TypeError, match="only compiled code can call _never"):
        _never(1)


@threaded_kernel
def _slow_total(values: NDArray[np.int64]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def test_many_threads_may_make_the_first_call() -> None:
    values = np.arange(100_000)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(_slow_total, [values] * 32)) == {values.sum()}
    assert len(_slow_total.compiled_types) == 1  # type: ignore[attr-defined]


@kernel
def _parts(pair: Pair, at: int, name: str) -> tuple[Pair, str, float]:
    if at < 0:
        raise ValueError("negative", name)
    return Pair(pair.other[:at], np.zeros(at, np.int64) + at), name, np.log(float(at + 1))


def test_code_that_llvm_loads_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """On platforms for whose object files there is no loader of our own."""
    arguments = (Pair(np.arange(3), np.arange(4)), 2, "a name")
    known: Kernel = _parts  # type: ignore[assignment]
    ours = loaded(compiler.compiled(known, arguments, argument_types(arguments)))
    with monkeypatch.context() as other_platform:
        other_platform.setattr(compiler, "image_of", lambda object_file, entry: None)
        code = compiler.compiled(known, arguments, argument_types(arguments))
    assert code.image is None and code.object_file
    theirs = loaded(code)
    for function in (ours, theirs):
        pair, name, logarithm = function(*arguments)
        assert pair.one.tolist() == [0, 1] and pair.other.tolist() == [2, 2]
        assert (name, logarithm) == ("a name", np.log(3.0)) and type(pair) is Pair
        with pytest.raises(OtherArguments):
            function(*arguments[:2], 3)
        with pytest.raises(ValueError, match="negative"):
            function(arguments[0], -1, "a name")


INTERRUPTS = """
import signal
import numpy as np
from test_arguments import Pair, _parts

interrupted = 0
while interrupted < 50:
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        while True:
            _parts(Pair(np.arange(3), np.arange(2_000_000)), 1_000_000, "a name")
    except KeyboardInterrupt:
        interrupted += 1
print(interrupted)
"""


def test_an_interrupt_while_compiled_code_runs_is_an_exception_after_it() -> None:
    """numba's own code crashes in most of such runs: results are made by functions in Python."""
    handler = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
    here = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", handler + INTERRUPTS], cwd=here, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "50\n"), run.stderr
