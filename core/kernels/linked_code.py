"""Compiling functions that only compiled code calls.

numba optimises every function by itself with all that it calls, and turns it into machine code, so that Python could
call it. A function that only others contain needs neither: it is optimised as a part of them. This holds for our own
functions and for those of numba that they call, such as `np.zeros`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dustream.core.kernels.native import (
    Compiler,
    JITCodeLibrary,
    create_new_function_pass_manager,
    lookup_environment,
)
from dustream.core.kernels.shortcuts import shortcuts

_ENVIRONMENT = "_ZN08NumbaEnv"  # names of variables begin with it


class _KernelLibrary(JITCodeLibrary):
    """Code that Python calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Only what makes them small: they are optimised with all that they call, in the end."""
        ll_module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()  # type: ignore[no-untyped-call]
        passes = create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    @property
    def object_file(self) -> bytes:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        found: bytes = self._get_compiled_object()  # type: ignore[no-untyped-call]
        return found

    def global_names(self, beginning: str) -> list[str]:
        """The global variables whose names begin like this."""
        names = (variable.name for variable in self._final_module.global_variables)
        return sorted(name for name in names if name.startswith(beginning))

    @property
    def environments(self) -> dict[str, tuple[Any, ...]]:
        """The variables that hold environments of functions, each with its Python objects."""
        found = {name: lookup_environment(name) for name in self.global_names(_ENVIRONMENT)}  # type: ignore[no-untyped-call]
        return {name: tuple(each.consts) if each else () for name, each in found.items()}


class _LinkedLibrary(_KernelLibrary):
    """Code that other libraries link in. It is never run by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no wrapper for Python."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        return _NowhereToSetEnvironments


class _NowhereToSetEnvironments:
    """The address of a function's environment is a part of the code that contains the function (`KernelCompiler`)."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class LoadedLibrary(JITCodeLibrary):
    """Machine code from disk."""

    @classmethod
    def of(cls, codegen: Any, name: str, object_file: bytes) -> LoadedLibrary:
        library = cls(codegen, name)
        library.enable_object_caching()  # type: ignore[no-untyped-call]
        library._set_compiled_object(object_file)  # type: ignore[no-untyped-call]
        library._finalize_final_module()  # type: ignore[no-untyped-call]
        return library

    def get_pointer_to_function(self, name: str) -> Any:
        """numba would look the name up in the code that it was made of."""
        return self._codegen._engine.get_function_address(name)


class InnerCompiler(Compiler):
    """Compiles a function that only compiled code calls."""

    def compile_extra(self, func: Any) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _LinkedLibrary(codegen, func.__qualname__)  # type: ignore[no-untyped-call]
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class KernelCompiler(Compiler):
    """Compiles a function that Python calls."""

    makes_kernels = True

    def compile_extra(self, func: Any) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _KernelLibrary(codegen, func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        with _libraries_of(_LinkedLibrary, codegen), _no_garbage_collection(), shortcuts():
            return super().compile_extra(func)  # type: ignore[no-untyped-call]


@contextmanager
def _libraries_of(kind: type[JITCodeLibrary], codegen: Any) -> Iterator[None]:
    """What numba compiles, or loads, in this block is a library of this kind unless its compiler says otherwise."""
    outer = codegen._library_class
    codegen._library_class = kind
    try:
        yield
    finally:
        codegen._library_class = outer


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """The compiler allocates millions of objects that live until it ends: looking through them takes a tenth of the
    time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
