"""What a kernel can be called with, in words: the same for arguments that the same machine code takes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_NUMBERS: Final[dict[type, str]] = {int: "int64", float: "float64", bool: "bool"}


def argument_types(arguments: tuple[Any, ...]) -> str:
    return ", ".join(map(_type_of, arguments))


def _type_of(value: Any) -> str:
    kind = type(value)
    if kind is np.ndarray:
        return _type_of_array(value)
    if isinstance(value, tuple):
        return f"{kind.__module__}.{kind.__qualname__}({argument_types(value)})"
    if isinstance(value, np.generic):
        return value.dtype.name
    return _NUMBERS.get(kind, kind.__name__)


def _type_of_array(array: np.ndarray[Any, Any]) -> str:
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return f"{array.dtype.str}[{array.ndim}{layout}{'' if flags.writeable else ' read-only'}]"


def without_subclass(value: Any) -> Any:
    """Arrays of classes that only add methods, such as those of mapped files, are taken as arrays."""
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value
