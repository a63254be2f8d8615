"""Code that checks the arguments of a kernel.

numba chooses machine code by the types of all arguments before it calls it, and the code takes them as they are. Ours
checks them by itself, in some nanoseconds each, so that nobody else has to: an argument of another type raises
`OtherArguments` before anything is read from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from dustream.core.kernels.embedded_objects import address_of
from dustream.core.kernels.loading import OtherArguments
from dustream.core.kernels.native import callwrapper, cgutils, ir, types

# Offsets in CPython's and numpy's objects, which are a part of their binary interfaces.
TYPE_AT: Final = 8
TUPLE_SIZE_AT, TUPLE_ITEMS_AT = 16, tuple.__basicsize__
DIMENSIONS_AT, DTYPE_AT, FLAGS_AT = 24, 56, 64
BYTE_ORDER_AT, TYPE_NUMBER_AT = 26, 28  # in a dtype

C_ORDER, F_ORDER, WRITEABLE = 0x1, 0x2, 0x400  # flags of arrays
_FLAGS_OF_LAYOUT: Final = {"C": (C_ORDER, C_ORDER), "F": (C_ORDER | F_ORDER, F_ORDER), "A": (C_ORDER | F_ORDER, 0)}
_SWAPPED: Final = ord(">")
_NUMBERS: Final = "?bBhHiIlLqQfd"  # numpy's codes
_POINTER_BYTES: Final = 8

_BYTE, _BIT, _INT = ir.IntType(8), ir.IntType(1), ir.IntType(32)
_OBJECT = _BYTE.as_pointer()

_add_argument: Final[Any] = callwrapper._ArgManager.add_arg


def add_checked_argument(manager: Any, value: Any, kind: Any) -> Any:
    """As numba's `add_arg`, which takes an argument over, after a check."""
    builder = manager.builder
    fits = builder.call(_check_of(builder.module, kind), [value])
    with cgutils.if_unlikely(builder, builder.not_(fits)):  # type: ignore[no-untyped-call]
        manager.api.err_set_none(address_of(builder.module, OtherArguments))
        builder.branch(manager.nextblk)
    return _add_argument(manager, value, kind)


def _check_of(module: Any, kind: Any) -> Any:
    """The function that checks an object, in this module: object → whether it has this numba type."""
    checks = vars(module).setdefault("argument_checks", {})
    if kind not in checks:
        checks[kind] = function = ir.Function(module, ir.FunctionType(_BIT, [_OBJECT]), f"takes_{len(checks)}")
        function.linkage = "internal"
        function.attributes.add("noinline")  # inlined, it takes longer to compile than many kernels
        _Check(function).write(kind)
    return checks[kind]


class _Check:
    """Writes a function that checks one condition after the other."""

    def __init__(self, function: Any) -> None:
        self._module, self._object = function.module, function.args[0]
        self._builder = ir.IRBuilder(function.append_basic_block())
        self._no = function.append_basic_block()
        ir.IRBuilder(self._no).ret(ir.Constant(_BIT, 0))

    def write(self, kind: Any) -> None:
        if isinstance(kind, types.Array):
            self._require_array(kind)
        elif isinstance(kind, types.BaseTuple):
            self._require_tuple(kind)
        elif isinstance(kind, types.NoneType):
            self._require(self._is_at(self._object, None))
        else:
            self._require_class(*_classes_of(kind))
        self._builder.ret(ir.Constant(_BIT, 1))

    def _require(self, condition: Any) -> None:
        following = self._builder.append_basic_block()
        self._builder.cbranch(condition, following, self._no)
        self._builder.position_at_end(following)

    def _require_class(self, *classes: Any) -> None:
        found = self._read(self._object, TYPE_AT, _OBJECT)
        self._require(self._any(self._is_at(found, each) for each in classes))

    def _is_at(self, found: Any, value: Any) -> Any:
        return self._builder.icmp_unsigned("==", found, address_of(self._module, value))

    def _require_array(self, kind: Any) -> None:
        self._require_class(np.ndarray)
        mask, wanted = _FLAGS_OF_LAYOUT[kind.layout]
        mask |= WRITEABLE * kind.mutable  # code that does not write takes any array
        wanted |= WRITEABLE * kind.mutable
        flags = self._builder.and_(self._read(self._object, FLAGS_AT, _INT), ir.Constant(_INT, mask))
        dtype = self._read(self._object, DTYPE_AT, _OBJECT)
        number, order = self._read(dtype, TYPE_NUMBER_AT, _INT), self._read(dtype, BYTE_ORDER_AT, _BYTE)
        wanted_dtype = np.dtype(str(kind.dtype))
        numbers = sorted({np.dtype(code).num for code in _NUMBERS if np.dtype(code) == wanted_dtype})
        fits = self._builder.and_(
            self._equal(self._read(self._object, DIMENSIONS_AT, _INT), kind.ndim), self._equal(flags, wanted)
        )
        fits = self._builder.and_(fits, self._any(self._equal(number, each) for each in numbers))
        self._require(self._builder.and_(fits, self._builder.not_(self._equal(order, _SWAPPED))))

    def _require_tuple(self, kind: Any) -> None:
        self._require_class(getattr(kind, "instance_class", tuple))
        self._require(self._equal(self._read(self._object, TUPLE_SIZE_AT, ir.IntType(64)), len(kind)))
        for number, each in enumerate(kind.types):
            item = self._read(self._object, TUPLE_ITEMS_AT + _POINTER_BYTES * number, _OBJECT)
            self._require(self._builder.call(_check_of(self._module, each), [item]))

    def _equal(self, found: Any, wanted: int) -> Any:
        return self._builder.icmp_unsigned("==", found, ir.Constant(found.type, wanted))

    def _any(self, conditions: Iterable[Any]) -> Any:
        first, *others = conditions
        for other in others:
            first = self._builder.or_(first, other)
        return first

    def _read(self, value: Any, offset: int, kind: Any) -> Any:
        place = self._builder.gep(value, [ir.Constant(_INT, offset)])
        return self._builder.load(self._builder.bitcast(place, kind.as_pointer()))


def _classes_of(kind: Any) -> tuple[type, ...]:
    """The classes whose instances numba gives this type."""
    if isinstance(kind, types.UnicodeType):
        return (str,)
    if isinstance(kind, types.Bytes):
        return (bytes,)
    if isinstance(kind, types.Boolean):
        return bool, np.bool_
    if isinstance(kind, types.Integer):
        return (*[int] * (kind == types.int64), *_scalars(kind))
    if isinstance(kind, types.Float):
        return (*[float] * (kind == types.float64), *_scalars(kind))
    raise TypeError(f"a kernel cannot take {kind}")


def _scalars(kind: Any) -> tuple[type, ...]:
    wanted = np.dtype(str(kind))
    return tuple(dict.fromkeys(np.dtype(code).type for code in _NUMBERS if np.dtype(code) == wanted))
