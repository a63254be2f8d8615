"""Layouts of memory that Python writes and compiled code reads, each declared once for both sides.

Passing an array from Python to compiled code costs a microsecond or more, so many arrays are passed as one:

- a `MemoryLayout` describes parts of one array of bytes, which begins with their offsets and sizes;
- a `FrameLayout` describes an array of addresses of other arrays, which compiled code reads as named tuples.

Compiled code takes types and dimensions from the declaration when it is compiled. Python is checked against it when it
allocates or writes: an array in the wrong place raises `LayoutError` before compiled code can misread it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import intrinsic
from dustream.core.kernels.native import arrayobj, cgutils, ir, numpy_support, types

ALIGNMENT = 64
_WORD_BYTES = 8
_HEAD_WORDS = 2  # per part of a memory: its offset, its number of items
FRAME_FIELDS = 4  # per array of a frame: its address, its extent in up to three dimensions

Memory = NDArray[np.uint8]
Frame = NDArray[np.int64]


class LayoutError(TypeError):
    """Arrays do not have the declared layout. This is an error of the program, not of its input."""


class ArrayOf(NamedTuple):
    """A declared array: the type of its items, and the number of its dimensions."""

    item: type[np.generic]
    dimensions: int = 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.item)

    @property
    def compiled(self) -> Any:
        """Its type in compiled code."""
        return types.Array(numpy_support.from_dtype(self.dtype), self.dimensions, "C")


class _MemoryPart(NamedTuple):
    array: ArrayOf
    columns: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype


class MemoryLayout:
    """Declares the parts of a memory. `reader` makes the function by which compiled code reads a part."""

    def __init__(self) -> None:
        self._parts: list[_MemoryPart] = []

    def part(self, item: type[np.generic], columns: int = 1) -> int:
        """Declare the next part: an array of items, a matrix if it has columns. Returns its number."""
        self._parts.append(_MemoryPart(ArrayOf(item, 1 if columns == 1 else 2), columns))
        return len(self._parts) - 1

    def allocate(self, items: Mapping[int, int]) -> tuple[Memory, list[NDArray[Any]]]:
        """A memory of zeros with so many items in each part, and the parts. The OS never commits untouched pages."""
        self._check(items)
        offsets, end = [], _aligned(_HEAD_WORDS * _WORD_BYTES * len(self._parts))
        for number, part in enumerate(self._parts):
            offsets.append(end)
            end += _aligned(items[number] * part.dtype.itemsize)
        memory = np.zeros(end, dtype=np.uint8)
        head = memory[: _HEAD_WORDS * _WORD_BYTES * len(self._parts)].view(np.int64).reshape(-1, _HEAD_WORDS)
        views = []
        for number, (offset, part) in enumerate(zip(offsets, self._parts, strict=True)):
            head[number] = offset, items[number]
            views.append(memory[offset : offset + items[number] * part.dtype.itemsize].view(part.dtype))
        return memory, views

    def filled(self, arrays: Mapping[int, NDArray[Any]]) -> Memory:
        """A memory with copies of these arrays."""
        memory, views = self.allocate({number: array.size for number, array in arrays.items()})
        for number, array in arrays.items():
            part = self._parts[number]
            if array.dtype != part.dtype or array.size != array.shape[0] * part.columns:
                raise LayoutError(
                    f"part {number} is declared as {part.columns} columns of {part.dtype}, not as {array.dtype} with "
                    f"the shape {array.shape}"
                )
            views[number][:] = array.reshape(-1)
        return memory

    def offset(self, memory: Memory, number: int) -> int:
        """Where a part begins."""
        return int(memory[: _HEAD_WORDS * _WORD_BYTES * len(self._parts)].view(np.int64)[_HEAD_WORDS * number])

    def _check(self, items: Mapping[int, int]) -> None:
        if sorted(items) != list(range(len(self._parts))):
            raise LayoutError(f"{len(self._parts)} parts are declared, {len(items)} are to be allocated")
        for number, part in enumerate(self._parts):
            if items[number] % part.columns:
                raise LayoutError(
                    f"part {number} has {part.columns} columns: {items[number]} items do not fill its rows"
                )

    def reader(self) -> Any:
        """For compiled code: (memory, number of a part) → the part. The number is a constant."""
        parts = self._parts

        def part(typing_context: Any, memory: Any, number: Any) -> Any:
            if not isinstance(number, types.IntegerLiteral):
                return None
            index, columns = number.literal_value, parts[number.literal_value].columns
            array = parts[index].array.compiled

            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                whole = _view(context, builder, signature.args[0], args[0])
                head = builder.bitcast(whole.data, _word().as_pointer())
                start, count = _words_at(builder, head, _HEAD_WORDS * index, _HEAD_WORDS)
                shape = [count] if columns == 1 else [builder.udiv(count, _constant(columns)), _constant(columns)]
                return _array_at(context, builder, array, builder.gep(whole.data, [start]), shape)

            return array(memory, number), codegen

        return intrinsic(part, prefer_literal=True)


class FrameLayout:
    """Declares the arrays of a frame: those of some named tuples, then plain numbers."""

    def __init__(self, tuples: Mapping[Any, Mapping[str, ArrayOf]], numbers: int) -> None:
        self._first: dict[Any, int] = {}
        self._arrays: list[tuple[str, ArrayOf]] = []
        self._numbers = numbers
        for kind, declared in tuples.items():
            if tuple(declared) != kind._fields:
                raise LayoutError(f"{kind.__name__} has the fields {kind._fields}, declared are {tuple(declared)}")
            self._first[kind] = len(self._arrays)
            self._arrays += [(f"{kind.__name__}.{name}", array) for name, array in declared.items()]

    @property
    def numbers_at(self) -> int:
        """Where the plain numbers begin."""
        return FRAME_FIELDS * len(self._arrays)

    def frame(self, tuples: Sequence[Any], numbers: Sequence[int]) -> Frame:
        """The current addresses and extents. It is valid until an array is replaced; the owner keeps them alive."""
        if [type(each) for each in tuples] != list(self._first) or len(numbers) != self._numbers:
            raise LayoutError("a frame has " + ", ".join(kind.__name__ for kind in self._first))
        rows: list[int] = []
        arrays = [array for each in tuples for array in each]
        for array, (name, declared) in zip(arrays, self._arrays, strict=True):
            is_declared = array.dtype == declared.dtype and array.ndim == declared.dimensions
            if not is_declared or not array.flags.c_contiguous:
                raise LayoutError(
                    f"{name} is declared as contiguous {declared.dtype} in {declared.dimensions} dimensions, not as "
                    f"{array.dtype} with the shape {array.shape}"
                )
            rows += (array.__array_interface__["data"][0], *(*array.shape, 0, 0)[: FRAME_FIELDS - 1])
        return np.array([*rows, *numbers], dtype=np.int64)

    def reader(self, kind: Any) -> Any:
        """For compiled code: frame → the named tuple."""
        first = self._first[kind]
        declared = [array for _, array in self._arrays[first : first + len(kind._fields)]]

        @intrinsic
        def tuple_in(typing_context: Any, frame: Any) -> Any:
            arrays = [array.compiled for array in declared]
            found = types.NamedTuple(arrays, kind)  # type: ignore[no-untyped-call]

            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                whole = _view(context, builder, signature.args[0], args[0])
                values = []
                for number, array in enumerate(arrays, first):
                    at = FRAME_FIELDS * number
                    address, *shape = _words_at(builder, whole.data, at, 1 + array.ndim)
                    values.append(_array_at(context, builder, array, address, shape))
                return context.make_tuple(builder, found, values)

            return found(frame), codegen

        return tuple_in


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _word() -> Any:
    return ir.IntType(8 * _WORD_BYTES)


def _constant(number: int) -> Any:
    return ir.Constant(_word(), number)


def _view(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return cgutils.create_struct_proxy(array_type)(context, builder, value=array)  # type: ignore[no-untyped-call]


def _words_at(builder: Any, data: Any, first: int, count: int) -> list[Any]:
    return [builder.load(builder.gep(data, [_constant(first + i)])) for i in range(count)]


def _array_at(context: Any, builder: Any, array: Any, address: Any, shape: list[Any]) -> Any:
    """A contiguous array at an address, not reference-counted."""
    found = context.make_array(array)(context, builder)
    is_pointer = isinstance(address.type, ir.PointerType)
    data = (builder.bitcast if is_pointer else builder.inttoptr)(address, found.data.type)
    item_bytes = context.get_abi_sizeof(context.get_data_type(array.dtype))
    strides = [_constant(item_bytes)]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    arrayobj.populate_array(found, data, shape, strides, item_bytes, None)  # type: ignore[no-untyped-call]
    return found._getvalue()
