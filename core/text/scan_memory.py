"""Arrays for code that passes them on at every tag: without reference counts, as parts of one memory block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.native import cgutils, intrinsic, ir, populate_array, types

Array = TypeVar("Array")


class _Borrow(Protocol):
    def __call__(self, array: Array) -> Array: ...


@intrinsic
def _borrowed(typing_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])  # type: ignore[no-untyped-call]
        view.meminfo = cgutils.get_null_value(view.meminfo.type)  # type: ignore[no-untyped-call]
        return view._getvalue()

    return array(array), codegen


# The same array without reference counting: an atomic increment per array and call costs more than reading a tag. For
# arguments only: the caller keeps the array alive during the call.
borrowed = cast("_Borrow", _borrowed)

# --- many arrays in one memory block: each array that Python passes to compiled code costs as much as a few tags

ALIGNMENT = 64
_HEAD_BYTES = 16  # for each part: where it starts, how many items it has

Part = Callable[[NDArray[np.uint8], int], NDArray[Any]]


def laid_out(parts: Sequence[tuple[int, str]]) -> tuple[NDArray[np.uint8], list[NDArray[Any]]]:
    """(a zeroed memory block with parts of these sizes and types, the parts). It begins with their places."""
    places, end = [], _aligned(_HEAD_BYTES * len(parts))
    for count, item in parts:
        places.append(end)
        end += _aligned(count * np.dtype(item).itemsize)
    memory = np.zeros(end, dtype=np.uint8)  # the OS never commits untouched pages
    head = memory[: _HEAD_BYTES * len(parts)].view(np.int64).reshape(-1, 2)
    views = []
    for i, (place, (count, item)) in enumerate(zip(places, parts, strict=True)):
        head[i] = place, count
        views.append(memory[place : place + count * np.dtype(item).itemsize].view(item))
    return memory, views


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def part_of(item: Any, columns: int = 1) -> Part:
    """A function that returns a part of a memory block by number, as an array of this type and number of columns."""
    array = types.Array(item, 1 if columns == 1 else 2, "C")
    word = ir.IntType(64)

    @intrinsic
    def part(typing_context: Any, memory: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            whole = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])  # type: ignore[no-untyped-call]
            head = builder.bitcast(whole.data, word.as_pointer())
            first = builder.mul(args[1], ir.Constant(word, 2))
            start = builder.load(builder.gep(head, [first]))
            count = builder.load(builder.gep(head, [builder.add(first, ir.Constant(word, 1))]))
            found = context.make_array(array)(context, builder)
            data = builder.bitcast(builder.gep(whole.data, [start]), found.data.type)
            size = context.get_abi_sizeof(context.get_data_type(item))
            shape, strides = [count], [ir.Constant(word, size)]
            if columns > 1:
                shape = [builder.udiv(count, ir.Constant(word, columns)), ir.Constant(word, columns)]
                strides = [ir.Constant(word, size * columns), *strides]
            populate_array(found, data, shape, strides, size, None)  # type: ignore[no-untyped-call]
            return found._getvalue()

        return array(memory, types.int64), codegen

    return cast("Part", part)
