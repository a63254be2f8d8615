"""The parts of numba and llvmlite that our intrinsics and our compiler are written with.

They are not a public interface: pyproject.toml bounds numba's version, and every other module imports them from here.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.binding.newpassmanagers import create_new_function_pass_manager
from numba import config, types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache
from numba.core.caching import _Cache as Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.event import Event, Listener, install_listener
from numba.core.postproc import PostProcessor
from numba.core.runtime.context import NRTContext
from numba.core.runtime.nrt import rtsys
from numba.core.targetconfig import TargetConfig
from numba.core.transforms import canonicalize_cfg
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

__all__ = [
    "Cache",
    "Compiler",
    "DefaultPassBuilder",
    "Event",
    "FunctionCache",
    "JITCodeLibrary",
    "Listener",
    "NRTContext",
    "PassManager",
    "PostProcessor",
    "TargetConfig",
    "as_dtype",
    "canonicalize_cfg",
    "cgutils",
    "config",
    "create_new_function_pass_manager",
    "event",
    "install_listener",
    "intrinsic",
    "ir",
    "populate_array",
    "rtsys",
    "types",
]
