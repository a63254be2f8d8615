"""Machine code on disk: what numba's cache does, without what only compiling needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from dustream.core.kernels.linked_code import libraries_of
from dustream.core.kernels.native import Cache, FunctionCache, JITCodeLibrary, rtsys


class _LoadedLibrary(JITCodeLibrary):
    """Machine code from disk."""

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> _LoadedLibrary:
        name, _, (machine_code, _) = state
        library = cls(codegen, name)
        library.enable_object_caching()  # type: ignore[no-untyped-call]
        library._set_compiled_object(machine_code)  # type: ignore[no-untyped-call]
        library._finalize_final_module()  # type: ignore[no-untyped-call]
        return library

    def get_pointer_to_function(self, name: str) -> Any:
        """numba would look the name up in the other code."""
        return self._codegen._engine.get_function_address(name)


class MachineCode(Cache):
    """The files of a kernel. They are looked for when it is first called: a command calls few of all kernels.

    numba prepares its compiler before it loads machine code, which takes longer than loading it. A kernel that is on
    disk needs the runtime alone; the compiler prepares itself when it compiles.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _files(self) -> FunctionCache:
        return FunctionCache(self._function)  # type: ignore[no-untyped-call]

    @property
    def cache_path(self) -> Any:
        return self._files.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for these argument types; None if it is not on disk."""
        rtsys.initialize(target_context)
        try:
            return self._loaded(sig, target_context)
        except (AttributeError, ImportError):
            # It names a class of an earlier version, which numba reads before it compares versions.
            self._files.flush()  # type: ignore[no-untyped-call]
            return None

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        with (
            libraries_of(_LoadedLibrary, target_context.codegen()),
            self._files._guard_against_spurious_io_errors(),
        ):
            return self._files._load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        self._files.save_overload(sig, data)  # type: ignore[no-untyped-call]

    def enable(self) -> None:
        self._files.enable()  # type: ignore[no-untyped-call]

    def disable(self) -> None:
        self._files.disable()  # type: ignore[no-untyped-call]

    def flush(self) -> None:
        self._files.flush()  # type: ignore[no-untyped-call]
