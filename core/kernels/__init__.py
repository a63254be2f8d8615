"""Compiled code: how functions are compiled, and what compiled functions share. The only importer of numba."""

from __future__ import annotations

import sys
from importlib import import_module

UNUSED_BY_KERNELS = ("scipy", "cffi", "yaml")
"""numba imports these if they are installed: scipy for linear algebra, cffi for foreign functions, yaml for a
configuration file. No kernel uses any of them, and importing them takes longer than importing numba."""


def _import_numba() -> None:
    hidden = [name for name in UNUSED_BY_KERNELS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it raises ImportError
    try:
        for module in ("numba", "numba.np.arraymath", "numba.core.typing.cffi_utils"):
            import_module(module)
    finally:
        for name in hidden:
            del sys.modules[name]


_import_numba()
