"""The parts of numba and llvmlite that our intrinsics and our compiler are written with.

They are not a public interface: pyproject.toml bounds numba's version, and every other module takes them from here.
numba is imported when one of them is first used, since only compiling needs it: importing it takes longer than a whole
run on one page. So modules with kernels may import the modules named here, but use nothing of them before they are
called; classes and functions are for modules that compile.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llvmlite import ir as ir
    from llvmlite.binding import add_symbol as add_symbol
    from llvmlite.binding.newpassmanagers import create_new_function_pass_manager as create_new_function_pass_manager
    from numba import njit as njit
    from numba import typeof as typeof
    from numba.core import callwrapper as callwrapper
    from numba.core import cgutils as cgutils
    from numba.core import event as event
    from numba.core import inline_closurecall as inline_closurecall
    from numba.core import types as types
    from numba.core.codegen import JITCodeLibrary as JITCodeLibrary
    from numba.core.compiler import Compiler as Compiler
    from numba.core.compiler import DefaultPassBuilder as DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager as PassManager
    from numba.core.environment import lookup_environment as lookup_environment
    from numba.core.postproc import PostProcessor as PostProcessor
    from numba.core.pythonapi import PythonAPI as PythonAPI
    from numba.core.registry import cpu_target as cpu_target
    from numba.core.runtime.context import NRTContext as NRTContext
    from numba.core.runtime.nrt import rtsys as rtsys
    from numba.core.targetconfig import TargetConfig as TargetConfig
    from numba.core.transforms import canonicalize_cfg as canonicalize_cfg
    from numba.extending import intrinsic as intrinsic
    from numba.np import arrayobj as arrayobj
    from numba.np import numpy_support as numpy_support

UNUSED_BY_KERNELS: Final = ("scipy", "cffi", "yaml")
"""numba imports these if they are installed: scipy for linear algebra, cffi for foreign functions, yaml for a
configuration file. No kernel uses any of them, and importing them takes longer than importing numba."""

_PLACES: Final = {
    "Compiler": "numba.core.compiler",
    "DefaultPassBuilder": "numba.core.compiler",
    "JITCodeLibrary": "numba.core.codegen",
    "NRTContext": "numba.core.runtime.context",
    "PassManager": "numba.core.compiler_machinery",
    "PostProcessor": "numba.core.postproc",
    "PythonAPI": "numba.core.pythonapi",
    "TargetConfig": "numba.core.targetconfig",
    "add_symbol": "llvmlite.binding",
    "canonicalize_cfg": "numba.core.transforms",
    "cpu_target": "numba.core.registry",
    "create_new_function_pass_manager": "llvmlite.binding.newpassmanagers",
    "event": "numba.core.event",
    "inline_closurecall": "numba.core.inline_closurecall",
    "intrinsic": "numba.extending",
    "lookup_environment": "numba.core.environment",
    "njit": "numba",
    "rtsys": "numba.core.runtime.nrt",
    "typeof": "numba",
}


class _Later:
    """A module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        _import_numba()
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if not TYPE_CHECKING:
    arrayobj = _Later("numba.np.arrayobj")
    callwrapper = _Later("numba.core.callwrapper")
    cgutils = _Later("numba.core.cgutils")
    ir = _Later("llvmlite.ir")
    numpy_support = _Later("numba.np.numpy_support")
    types = _Later("numba.core.types")


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _import_numba()
    module = import_module(_PLACES[name])
    globals()[name] = found = module if _PLACES[name].endswith(f".{name}") else getattr(module, name)
    return found


def _import_numba() -> None:
    hidden = [name for name in UNUSED_BY_KERNELS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it raises ImportError
    try:
        for module in ("numba", "numba.np.arraymath", "numba.core.typing.cffi_utils"):
            import_module(module)
    finally:
        for name in hidden:
            del sys.modules[name]
