"""Operations on 32 bytes of a page at once.

Most bytes of a page are of no interest to the scanner (scripts, attribute values, words), and reading them one by one
would take most of its time. A mask has one bit for each of 32 bytes and compiles to a few vector instructions. Numba's
bounds checks do not cover these loads, so each function checks by itself if they are enabled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import checks_bounds, inner, intrinsic, kernel
from dustream.core.kernels.native import cgutils, ir, types

WIDTH = 32
ALL, LAST = (1 << WIDTH) - 1, 1 << (WIDTH - 1)  # masks
WORD_BYTES = 8
LINE_BLANKS = b"\n\t\r\f"  # the blanks that are not a space

Bytes = NDArray[np.uint8]
Mask = Callable[[Bytes, np.uint64], np.uint64]

_IS_CHECKED = checks_bounds()


def _vector() -> Any:
    return ir.VectorType(ir.IntType(8), WIDTH)


def _word_type() -> Any:
    return ir.IntType(8 * WORD_BYTES)


def _place(context: Any, builder: Any, array_type: Any, array: Any, at: Any, of: Any) -> Any:
    view = cgutils.create_struct_proxy(array_type)(context, builder, value=array)  # type: ignore[no-untyped-call]
    return builder.bitcast(builder.gep(view.data, [at]), of.as_pointer())


def _bits(builder: Any, lanes: Any) -> Any:
    return builder.zext(builder.bitcast(lanes, ir.IntType(WIDTH)), ir.IntType(64))


@intrinsic
def _equal_in(typing_context: Any, page: Any, at: Any, byte: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_place(context, builder, signature.args[0], args[0], args[1], _vector()), align=1)
        one = builder.insert_element(ir.Constant(_vector(), ir.Undefined), args[2], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        wanted = builder.shuffle_vector(one, ir.Constant(_vector(), ir.Undefined), lanes)
        return _bits(builder, builder.icmp_unsigned("==", loaded, wanted))

    return types.uint64(page, types.uint64, types.uint8), codegen


@intrinsic
def _high_in(typing_context: Any, page: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_place(context, builder, signature.args[0], args[0], args[1], _vector()), align=1)
        return _bits(builder, builder.icmp_signed("<", loaded, ir.Constant(_vector(), [0] * WIDTH)))

    return types.uint64(page, types.uint64), codegen


def _one_of(builder: Any, loaded: Any, some: bytes) -> Any:
    """The lanes equal to one of some bytes: those whose least difference to them is zero. A single comparison, because
    masks, its result, take longer to combine than lanes."""
    least = None
    for byte in some:
        difference = builder.xor(loaded, ir.Constant(_vector(), [byte] * WIDTH))
        if least is not None:
            difference = builder.select(builder.icmp_unsigned("<", difference, least), difference, least)
        least = difference
    return builder.icmp_unsigned("==", least, ir.Constant(_vector(), [0] * WIDTH))


@intrinsic
def _spaced(typing_context: Any, source: Any, at: Any, target: Any, out: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_place(context, builder, signature.args[0], args[0], args[1], _vector()), align=1)
        found = _one_of(builder, loaded, LINE_BLANKS)
        shown = builder.select(found, ir.Constant(_vector(), [0x20] * WIDTH), loaded)
        builder.store(shown, _place(context, builder, signature.args[2], args[2], args[3], _vector()), align=1)
        return _bits(builder, found)

    return types.uint64(source, types.uint64, target, types.uint64), codegen


@intrinsic
def _word_in(typing_context: Any, page: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], args[0], args[1], _word_type()), align=1)

    return types.uint64(page, types.uint64), codegen


@intrinsic
def _first_in(typing_context: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic
def _count_bits(typing_context: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


# The functions that compiled code calls, typed for type checkers.
_equal = cast("Callable[[Bytes, np.uint64, np.uint8], np.uint64]", _equal_in)
_high = cast("Mask", _high_in)
_copy_spaced = cast("Callable[[Bytes, np.uint64, Bytes, np.uint64], np.uint64]", _spaced)
_word = cast("Mask", _word_in)
_first = cast("Callable[[np.uint64], np.uint64]", _first_in)
_counted = cast("Callable[[np.uint64], np.uint64]", _count_bits)


@inner
def _check(array: Bytes, at: np.uint64, size: int) -> None:
    if _IS_CHECKED and at + np.uint64(size) > np.uint64(array.size):
        raise IndexError("a vector reaches beyond its array")


@kernel
def equal_mask(page: Bytes, at: np.uint64, byte: np.uint8) -> np.uint64:
    """Which of the 32 bytes from `at` on equal this one. All of them are inside the page."""
    _check(page, at, WIDTH)
    return _equal(page, at, byte)


@inner
def high_mask(page: Bytes, at: np.uint64) -> np.uint64:
    """Which of the 32 bytes from `at` on are not ASCII."""
    _check(page, at, WIDTH)
    return _high(page, at)


@inner
def copy_vector(page: Bytes, at: np.uint64, text: Bytes, out: np.uint64) -> np.uint64:
    """Copy 32 bytes, line ends and tabs as spaces: which of them were these."""
    _check(page, at, WIDTH)
    _check(text, out, WIDTH)
    return _copy_spaced(page, at, text, out)


@inner
def word_at(page: Bytes, at: np.uint64) -> np.uint64:
    """Eight bytes as a number, the first one lowest."""
    _check(page, at, WORD_BYTES)
    return _word(page, at)


@inner
def first_bit(bits: np.uint64) -> np.uint64:
    """The place of the lowest bit that is set; 64 if none is."""
    return _first(bits)


@inner
def bits_in(bits: np.uint64) -> np.uint64:
    """How many bits are set."""
    return _counted(bits)


def mask_of(some: bytes) -> Mask:
    """The mask of bytes that are one of these."""
    return _mask(lambda builder, loaded: _one_of(builder, loaded, some))


def _mask(lanes: Callable[[Any, Any], Any]) -> Mask:
    """The mask of the lanes of 32 bytes that are chosen."""

    @intrinsic
    def chosen(typing_context: Any, page: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            loaded = builder.load(_place(context, builder, signature.args[0], args[0], args[1], _vector()), align=1)
            return _bits(builder, lanes(builder, loaded))

        return types.uint64(page, types.uint64), codegen

    compiled = cast("Mask", chosen)

    @inner
    def mask(page: Bytes, at: np.uint64) -> np.uint64:
        _check(page, at, WIDTH)
        return compiled(page, at)

    return cast("Mask", mask)
