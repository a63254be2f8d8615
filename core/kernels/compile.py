"""How functions are compiled.

A kernel is called by Python: it needs a wrapper, and machine code on disk, so that later processes do not compile it
again. A function that only compiled code calls needs neither, and both take longer than compiling it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from numba import njit

from dustream.core.kernels.linked_code import InnerCompiler, KernelCompiler
from dustream.core.kernels.machine_code import MachineCode
from dustream.core.kernels.native import types

Function = TypeVar("Function", bound=Callable[..., Any])

_KERNEL: dict[str, Any] = {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler}


def kernel(function: Function) -> Function:
    """A function that Python calls, too. Where compiled code calls it, it is compiled as by `inner`."""
    return _on_disk(function)


def threaded_kernel(function: Function) -> Function:
    """As `kernel`; other threads of Python run meanwhile."""
    return _on_disk(function, nogil=True)


def inlined_kernel(function: Function) -> Function:
    """As `kernel`; compiled callers contain its code."""
    return _on_disk(function, inline="always")


def _on_disk(function: Function, **options: Any) -> Function:
    dispatcher = njit(**_KERNEL, **options)(function)
    dispatcher._cache = MachineCode(function)
    if "inline" not in options:
        within: Callable[[], Any] = cache(lambda: inner(function))
        dispatcher.get_call_template = lambda *types: within().get_call_template(*types)
        dispatcher.get_overload = lambda types: within().get_overload(types)
    return cast("Function", dispatcher)


def inner(function: Function) -> Function:
    """A function that only compiled code calls."""
    return cast("Function", _for_all_numbers(njit(**_INNER)(function)))


def inlined(function: Function) -> Function:
    """As `inner`; its code stands where it is called, for what runs at every tag."""
    return cast("Function", _for_all_numbers(njit(forceinline=True, **_INNER)(function)))


def _for_all_numbers(dispatcher: Any) -> Any:
    """numba compiles a function once more for each constant that is passed to it."""
    find = dispatcher.get_call_template

    def get_call_template(positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        unliteral: Any = types.unliteral
        return find(tuple(map(unliteral, positional)), {name: unliteral(value) for name, value in named.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def merged(function: Function) -> Function:
    """As `inner`, for what is called at one place: its code is written there before anything is compiled, which saves
    compiling it for itself with all that it calls."""
    return cast("Function", njit(inline="always")(function))


def entry_point(function: Callable[..., Any], argument_types: tuple[Any, ...]) -> Any:
    """The machine code for these argument types. Calling it skips numba's dispatch, which inspects every argument."""
    dispatcher: Any = function
    dispatcher.compile(argument_types)
    return dispatcher.overloads[argument_types].entry_point
