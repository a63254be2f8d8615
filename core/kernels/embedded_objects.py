"""Python objects that machine code refers to.

numba pickles the classes of results into machine code, and unpickles them by a function in Python whenever a result is
returned. An interrupt (Ctrl-C) that arrives while compiled code runs is raised in that function, and the code crashes,
since it does not expect an error there. Ours has the address of the class.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dustream.core.kernels.loading import object_symbol
from dustream.core.kernels.native import PythonAPI, add_symbol, ir

_NONE: Final = "_Py_NoneStruct"
_BYTE: Final = ir.IntType(8)

_serialize_object: Final[Any] = PythonAPI.serialize_object
_unserialize: Final[Any] = PythonAPI.unserialize


def address_of(module: Any, value: Any) -> Any:
    """The address of a class or None, for code in this module. It is known when the code is loaded."""
    symbol = _NONE if value is None else object_symbol(value)
    add_symbol(symbol, id(value))
    found = module.globals.get(symbol)
    return ir.GlobalVariable(module, _BYTE, symbol) if found is None else found


class _Class(NamedTuple):
    """Stands for the pickled form of a class."""

    address: Any


def serialize_object(api: Any, value: Any) -> Any:
    """As numba's, but for classes."""
    return _Class(address_of(api.module, value)) if isinstance(value, type) else _serialize_object(api, value)


def unserialize(api: Any, serialized: Any) -> Any:
    """As numba's, but for classes: a reference to the object."""
    if not isinstance(serialized, _Class):
        return _unserialize(api, serialized)
    api.incref(serialized.address)
    return serialized.address
