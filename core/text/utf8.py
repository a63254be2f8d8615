"""UTF-8 validation and encoding in compiled code, 32 ASCII characters at a time.

Python's codec encodes a page that is not pure ASCII character by character, which takes as long as the scan.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import checks_bounds, entry_point, inner, intrinsic, kernel
from dustream.core.kernels.native import arrayobj, cgutils, ir, types
from dustream.core.text.kept import Kept
from dustream.core.text.scan_references import REPLACEMENT, put_char
from dustream.core.text.scan_vectors import WIDTH, Bytes, first_bit, high_mask

UTF8_BYTES_MAX = 4  # of one character

Encode = Callable[[str, Bytes], int]

_IS_CHECKED = checks_bounds()


@inner
def _char_size(page: NDArray[np.uint8], at: int) -> int:
    """Bytes of the character at `at`, which is not ASCII; 0 if it is no UTF-8 (Unicode, table 3-7)."""
    lead, left = page[at], page.size - at
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if lead < 0xC2 or lead > 0xF4 or left < size:
        return 0
    second = page[at + 1]
    lowest = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
    highest = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
    if second < lowest or second > highest:
        return 0
    for i in range(2, size):
        if page[at + i] & 0xC0 != 0x80:
            return 0
    return size


@inner
def is_utf8_in(page: NDArray[np.uint8]) -> bool:
    """Whether these bytes are UTF-8, as strictly as Python takes it."""
    at = 0
    while at < page.size:
        if at + WIDTH <= page.size:
            others = high_mask(page, np.uint64(at))
            at += WIDTH if others == 0 else np.int64(first_bit(others))  # type: ignore[assignment]
            if others == 0:
                continue
        while at < page.size and page[at] >= 0x80:
            size = _char_size(page, at)
            if size == 0:
                return False
            at += size
        at += at < page.size
    return True


@kernel
def _is_utf8(data: bytes) -> bool:
    return is_utf8_in(np.frombuffer(data, dtype=np.uint8))


def is_utf8(page: bytes) -> bool:
    """As `is_utf8_in`, for Python."""
    return page.isascii() or bool(_is_utf8(page))


# --- strings


def _units(context: Any, builder: Any, text: Any, at: Any, of: Any) -> Any:
    """The characters of a Python string from `at` on, as elements of this type."""
    view = cgutils.create_struct_proxy(types.unicode_type)(context, builder, value=text)  # type: ignore[no-untyped-call]
    return builder.gep(builder.bitcast(view.data, of.as_pointer()), [at])


@intrinsic
def _kind_in(typing_context: Any, text: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = cgutils.create_struct_proxy(types.unicode_type)(context, builder, value=args[0])  # type: ignore[no-untyped-call]
        return builder.sext(view.kind, ir.IntType(64))

    return types.int64(types.unicode_type), codegen


@intrinsic
def _is_ascii_in(typing_context: Any, text: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = cgutils.create_struct_proxy(types.unicode_type)(context, builder, value=args[0])  # type: ignore[no-untyped-call]
        return builder.icmp_unsigned("!=", view.is_ascii, ir.Constant(view.is_ascii.type, 0))

    return types.boolean(types.unicode_type), codegen


@intrinsic
def _bytes_in(typing_context: Any, text: Any) -> Any:
    """The characters of a string that is ASCII, where they stand. The caller keeps the string alive."""
    array = types.Array(types.uint8, 1, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = cgutils.create_struct_proxy(types.unicode_type)(context, builder, value=args[0])  # type: ignore[no-untyped-call]
        found = context.make_array(array)(context, builder)
        data = builder.bitcast(view.data, found.data.type)
        arrayobj.populate_array(found, data, [view.length], [ir.Constant(ir.IntType(64), 1)], 1, None)  # type: ignore[no-untyped-call]
        return found._getvalue()

    return array(types.unicode_type), codegen


_kind = cast("Callable[[str], int]", _kind_in)
_is_ascii = cast("Callable[[str], bool]", _is_ascii_in)
_bytes_of_ascii = cast("Callable[[str], Bytes]", _bytes_in)


def _encoder(unit_bytes: int) -> Encode:
    """A function that writes strings of characters of this many bytes as UTF-8 and returns the size."""

    @intrinsic
    def char_in(typing_context: Any, text: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            unit = ir.IntType(8 * unit_bytes)
            return builder.zext(builder.load(_units(context, builder, args[0], args[1], unit)), ir.IntType(64))

        return types.int64(types.unicode_type, types.uint64), codegen

    @intrinsic
    def narrowed(typing_context: Any, text: Any, at: Any, target: Any, out: Any) -> Any:
        """Write the lowest bytes of 32 characters: which of them are not ASCII."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            unit = ir.IntType(8 * unit_bytes)
            vector, narrow = ir.VectorType(unit, WIDTH), ir.VectorType(ir.IntType(8), WIDTH)
            source = builder.bitcast(_units(context, builder, args[0], args[1], unit), vector.as_pointer())
            loaded = builder.load(source, align=1)
            view = cgutils.create_struct_proxy(signature.args[2])(context, builder, value=args[2])  # type: ignore[no-untyped-call]
            place = builder.bitcast(builder.gep(view.data, [args[3]]), narrow.as_pointer())
            builder.store(loaded if unit_bytes == 1 else builder.trunc(loaded, narrow), place, align=1)
            beyond = builder.icmp_unsigned(">=", loaded, ir.Constant(vector, [0x80] * WIDTH))
            return builder.zext(builder.bitcast(beyond, ir.IntType(WIDTH)), ir.IntType(64))

        return types.uint64(types.unicode_type, types.uint64, target, types.uint64), codegen

    char = cast("Callable[[str, np.uint64], int]", char_in)
    copy = cast("Callable[[str, np.uint64, Bytes, np.uint64], np.uint64]", narrowed)

    @inner
    def encode(text: str, target: Bytes) -> int:
        at, out, count = 0, 0, len(text)
        while at < count:
            if at + WIDTH <= count:
                if _IS_CHECKED and out + WIDTH > target.size:
                    raise IndexError("a vector reaches beyond its array")
                others = copy(text, np.uint64(at), target, np.uint64(out))
                ascii_chars = WIDTH if others == 0 else int(np.int64(first_bit(others)))
                at += ascii_chars
                out += ascii_chars
                if ascii_chars == WIDTH:
                    continue
            is_other = True
            while is_other and at < count:
                code = char(text, np.uint64(at))
                out = put_char(target, out, REPLACEMENT if 0xD800 <= code <= 0xDFFF else code)
                is_other = code >= 0x80
                at += 1
        return out

    return cast("Encode", encode)


_encode_1, _encode_2, _encode_4 = _encoder(1), _encoder(2), _encoder(4)


@kernel
def _encode(text: str, target: Bytes) -> int:
    kind = _kind(text)
    if kind == 1:
        return _encode_1(text, target)
    return _encode_2(text, target) if kind == 2 else _encode_4(text, target)


@inner
def utf8_in(text: str, target: Bytes) -> Bytes:
    """A string in UTF-8: itself where it is ASCII, else written to `target`."""
    if _is_ascii(text):
        return _bytes_of_ascii(text)
    return target[: _encode(text, target)]


@cache
def _encode_entry() -> Encode:
    return cast("Encode", entry_point(_encode, ("", np.empty(0, np.uint8))))


def _room_for(chars: int) -> Bytes:
    return np.empty(UTF8_BYTES_MAX * chars + WIDTH, dtype=np.uint8)


_kept = Kept(_room_for)


def utf8_array(text: str) -> Bytes:
    """The string in UTF-8, valid until the next call in this thread. Lone surrogates, which JSON can carry and UTF-8
    cannot, become U+FFFD."""
    if text.isascii():
        return np.frombuffer(text.encode(), dtype=np.uint8)
    target = _kept(len(text))
    return target[: _encode_entry()(text, target)]


def utf8_of(text: str) -> bytes:
    """As `utf8_array`, to keep."""
    return utf8_array(text).tobytes()
