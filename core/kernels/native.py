"""The parts of numba and llvmlite that our intrinsics are written with.

They are not a public interface: pyproject.toml bounds numba's version, and every other module imports them from here.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.binding import parse_bitcode
from numba import config, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.caching import _Cache as Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.event import Event, Listener, install_listener
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

__all__ = [
    "Cache",
    "Compiler",
    "Event",
    "FunctionCache",
    "JITCodeLibrary",
    "Listener",
    "as_dtype",
    "cgutils",
    "config",
    "install_listener",
    "intrinsic",
    "ir",
    "parse_bitcode",
    "populate_array",
    "rtsys",
    "types",
]
