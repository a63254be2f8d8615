"""Machine code into memory, without numba and LLVM.

Importing both takes .3 s and 70 MB, which is more than all else that a run on one page needs. Machine code only refers
to functions of Python, of the C library, and of numba's runtime, whose extension modules can be loaded by themselves.
"""

from __future__ import annotations

import builtins
import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from struct import Struct
from types import ModuleType
from typing import Any, Final

from dustream.core.kernels.machine_code import Image, MachineCode

OBJECT_PREFIX: Final = "python:"
"""Symbols of Python objects begin with this, then follow module and name. Their address is that of the object."""

Function = Callable[..., Any]

_READ_AND_EXECUTE: Final = 5
_ADDRESS: Final = Struct("<Q")


class CannotLoad(Exception):
    """The machine code refers to something that is not there any more."""


class OtherArguments(TypeError):
    """Machine code was called with arguments of other types than it takes."""


_objects: dict[str, Any] = {}
_kept: list[Any] = []  # what machine code refers to by address: it is never unloaded


def object_symbol(value: Any) -> str:
    """The symbol by which machine code refers to a class."""
    symbol = f"{OBJECT_PREFIX}{value.__module__}:{value.__qualname__}"
    _objects[symbol] = value
    return symbol


def object_of(symbol: str) -> Any:
    if symbol not in _objects:
        module, _, name = symbol.removeprefix(OBJECT_PREFIX).partition(":")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        _objects[symbol] = found
    return _objects[symbol]


def loaded(code: MachineCode) -> Function:
    """The function for Python."""
    try:
        for symbol in code.objects:
            object_of(symbol)
    except (ImportError, AttributeError) as error:
        raise CannotLoad(f"{code.name}: {error}") from error
    if code.image is None:
        from dustream.core.kernels.compiler import loaded_by_llvm

        return _function_at(loaded_by_llvm(code), code.name)
    return _function_at(_placed(code.image, code.environments), code.name)


def _function_at(address: int, name: str) -> Function:
    make: Callable[..., Function] = _extension("numba._dynfunc").make_function
    module = sys.modules[__name__]
    return make(module, name, f"compiled wrapper for {name!r}", address, environment(()), ())


def environment(constants: tuple[Any, ...]) -> Any:
    """What numba calls so: the Python objects that a compiled function uses."""
    made = _extension("numba._dynfunc").Environment({})
    made.consts.extend(constants)
    return made


def _placed(image: Image, environments: dict[str, tuple[Any, ...]]) -> int:
    """Copies an image into memory; the address of its entry."""
    memory = mmap.mmap(-1, len(image.content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(image.content)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    addresses = [
        _variable(environments[symbol]) if symbol in environments else _address_of(symbol) for symbol in image.symbols
    ]
    write = _ADDRESS.pack_into
    for place, offset in image.own:
        write(memory, place, start + offset)
    for place, number, added in image.others:
        write(memory, place, addresses[number] + added)
    if _libc().mprotect(start, len(memory), _READ_AND_EXECUTE):
        raise ImportError(f"the system does not allow to run compiled code: {os.strerror(ctypes.get_errno())}")
    _kept.append(memory)
    return start + image.entry


def _variable(constants: tuple[Any, ...]) -> int:
    """The address of a variable that holds an environment."""
    made = ctypes.py_object(environment(constants))
    _kept.append(made)
    return ctypes.addressof(made)


@cache
def _address_of(symbol: str) -> int:
    if symbol.startswith(OBJECT_PREFIX):
        return id(object_of(symbol))
    own = _helpers().get(symbol)
    return own if own is not None else ctypes.addressof(ctypes.c_char.in_dll(_libc(), symbol))


@cache
def _libc() -> ctypes.CDLL:
    """The C library, and Python's functions with it."""
    found = ctypes.CDLL(None, use_errno=True)
    found.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


@cache
def _helpers() -> dict[str, int]:
    """The addresses that numba gives to symbols, by the names it uses in code."""
    errors = {f"PyExc_{name}": id(found) for name, found in vars(builtins).items() if _is_error(found)}
    helpers, runtime = _extension("numba._helperlib").c_helpers, _extension("numba.core.runtime._nrt_python")
    runtime.memsys_use_cpython_allocator()
    return {
        **errors,
        "_Py_NoneStruct": id(None),
        **helpers,  # mathematical functions
        **{f"numba_{name}": address for name, address in helpers.items()},
        **{f"NRT_{name}": address for name, address in runtime.c_helpers.items()},
    }


def _is_error(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


@cache
def _extension(name: str) -> ModuleType:
    """An extension module of numba, without the package that it is in."""
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec("numba")
    if package is None or not package.submodule_search_locations:
        raise ImportError("numba is missing: install dustream again")
    file = os.path.join(package.submodule_search_locations[0], *name.split(".")[1:])
    for suffix in EXTENSION_SUFFIXES:
        if os.path.exists(file + suffix):
            spec = spec_from_file_location(name, file + suffix)
            assert spec is not None and spec.loader is not None
            sys.modules[name] = module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"{name} is missing: install dustream again")
