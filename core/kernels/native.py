"""The parts of numba and llvmlite that our intrinsics are written with.

They are not a public interface: pyproject.toml bounds numba's version, and every other module imports them from here.
"""

from __future__ import annotations

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.event import Event, Listener, install_listener
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

__all__ = [
    "Event",
    "Listener",
    "as_dtype",
    "cgutils",
    "config",
    "install_listener",
    "intrinsic",
    "ir",
    "populate_array",
    "types",
]
