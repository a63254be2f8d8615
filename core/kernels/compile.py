"""How functions are compiled.

A kernel is called by Python: it needs a function for Python, and machine code on disk, so that later processes do not
compile it again. A function that only compiled code calls needs neither, and both take longer than compiling it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from inspect import Signature, signature
from typing import Any, TypeVar, cast

from dustream.core.kernels.argument_types import argument_types, without_subclass
from dustream.core.kernels.loading import CannotLoad, OtherArguments, loaded
from dustream.core.kernels.machine_code import CodeFiles, MachineCode

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """A function that Python calls, too. Where compiled code calls it, it is compiled as by `inner`."""
    return cast("Function", Kernel(function))


def threaded_kernel(function: Function) -> Function:
    """As `kernel`; other threads of Python run meanwhile."""
    return cast("Function", Kernel(function, releases_gil=True))


def inlined_kernel(function: Function) -> Function:
    """As `kernel`; compiled callers contain its code."""
    return cast("Function", Kernel(function, inline="always"))


def inner(function: Function) -> Function:
    """A function that only compiled code calls."""
    return cast("Function", Compiled(function))


def inlined(function: Function) -> Function:
    """As `inner`; its code stands where it is called, for what runs at every tag."""
    return cast("Function", Compiled(function, forceinline=True))


def merged(function: Function) -> Function:
    """As `inner`, for what is called at one place: its code is written there before anything is compiled, which saves
    compiling it for itself with all that it calls."""
    return cast("Function", Compiled(function, inline="always"))


def intrinsic(function: Callable[..., Any], **options: Any) -> Any:
    """A function that says in terms of LLVM which code stands where compiled code calls it."""
    return Intrinsic(function, options)


def checks_bounds() -> bool:
    """Whether compiled code checks all indexes: numba's setting for tests."""
    return os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")


def entry_point(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The machine code of a kernel for arguments of the types of these. Calling it is quicker by .1 µs."""
    found: Kernel = cast("Any", function)
    return found.machine_code(arguments)


class Intrinsic:
    """As numba's; numba is imported when something is compiled that contains it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = function
        self.options = options

    @cached_property
    def _numba_type_(self) -> Any:
        """numba asks for this wherever compiled code names the function."""
        from dustream.core.kernels.compiler import type_of_intrinsic

        return type_of_intrinsic(self)


class Compiled:
    """A function that compiled code calls."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options  # numba looks for `inline` here

    @cached_property
    def dispatcher(self) -> Any:
        from dustream.core.kernels.compiler import dispatcher_of

        return dispatcher_of(self)

    @property
    def _numba_type_(self) -> Any:
        """numba asks for this wherever compiled code names the function."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"only compiled code can call {self.py_func.__qualname__}")


class Kernel(Compiled):
    """A function that Python calls. It has machine code for one or more types of arguments."""

    def __init__(self, function: Callable[..., Any], *, releases_gil: bool = False, **options: Any) -> None:
        super().__init__(function, **options)
        self.releases_gil = releases_gil
        self._count = function.__code__.co_argcount
        self._by_types: dict[str, Callable[..., Any]] = {}
        self._functions: list[Callable[..., Any]] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if named or len(arguments) != self._count:
            arguments = self._all_arguments(arguments, named)
        for function in self._functions:
            try:
                return function(*arguments)
            except OtherArguments:
                pass
        return self._call_first(tuple(map(without_subclass, arguments)))

    def _call_first(self, arguments: tuple[Any, ...]) -> Any:
        function = self.machine_code(arguments)
        try:
            return function(*arguments)
        except OtherArguments:
            raise TypeError(f"{self.py_func.__qualname__} cannot take ({argument_types(arguments)})") from None

    @cached_property
    def _signature(self) -> Signature:
        return signature(self.py_func)

    def _all_arguments(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        return bound.args

    def machine_code(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """That for arguments of the types of these: known, on disk, or compiled."""
        types = argument_types(arguments)
        with _lock:
            if types not in self._by_types:
                self._read()
            if types not in self._by_types:
                self._compile(arguments, types)
            return self._by_types[types]

    @cached_property
    def _files(self) -> CodeFiles:
        code = self.py_func.__code__
        return CodeFiles(code.co_filename, self.py_func.__qualname__, code.co_firstlineno)

    def _read(self) -> None:
        for code in self._files.unread():
            try:
                self._add(code)
            except CannotLoad:
                continue  # is compiled again

    def _compile(self, arguments: tuple[Any, ...], types: str) -> None:
        with _clocks_running():
            from dustream.core.kernels.compiler import compiled, sources_of

            code = compiled(self, arguments, types)
            self._files.write(code, sources_of(self, code))
        self._add(code)

    def _add(self, code: MachineCode) -> None:
        function = loaded(code)
        self._by_types[code.types] = function
        self._functions.append(function)

    @property
    def compiled_types(self) -> list[str]:
        """The types of arguments for which there is machine code in this process."""
        return list(self._by_types)


_lock = threading.RLock()


class CompileClock:
    """How long kernels are compiled, not read from disk, while it runs."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self.seconds = 0.0

    def begin(self) -> None:
        if not self.seconds:
            self._on_first()

    def end(self, seconds: float) -> None:
        self.seconds += seconds


_clocks: list[CompileClock] = []


@contextmanager
def compile_clock(on_first: Callable[[], None]) -> Iterator[CompileClock]:
    """Measures compilation in this block; calls `on_first` when it begins."""
    clock = CompileClock(on_first)
    _clocks.append(clock)
    try:
        yield clock
    finally:
        _clocks.remove(clock)


@contextmanager
def _clocks_running() -> Iterator[None]:
    started = time.perf_counter()
    for clock in _clocks:
        clock.begin()
    try:
        yield
    finally:
        for clock in _clocks:
            clock.end(time.perf_counter() - started)
