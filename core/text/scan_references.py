"""Character references ("&eacute;", "&#233;") by the rules of the HTML tokenizer (13.2.5.72–80)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_tables import BARE_REFERENCE, REFERENCE_DOMAIN, Int, mix, slot_of

REPLACEMENT = 0xFFFD
CODE_MAX = 0x10FFFF
NAME_BYTES_MAX = 32  # the longest is CounterClockwiseContourIntegral

# Numbers 0x80–0x9F mean what windows-1252 has there.
_WINDOWS_1252 = np.array(
    [ord(bytes([byte]).decode("cp1252", "ignore") or chr(byte)) for byte in range(0x80, 0xA0)], dtype=np.int64
)


@inner
def is_alphanumeric(byte: Int) -> bool:
    return bool(0x30 <= byte <= 0x39 or 0x61 <= (byte | 0x20) <= 0x7A)


@inner
def _digit(byte: Int, base: int) -> Int:
    """The digit's value; -1 if it is none."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    if base == 16 and 0x61 <= (byte | 0x20) <= 0x66:
        return (byte | 0x20) - 0x57
    return -1


@inner
def put_char(text: NDArray[np.uint8], out: int, code: Int) -> int:
    """Write one character in UTF-8: where it ends. It takes no more bytes than any reference to it."""
    if code < 0x80:
        text[out] = code
        return out + 1
    if code < 0x800:
        text[out] = 0xC0 | code >> 6
        text[out + 1] = 0x80 | code & 0x3F
        return out + 2
    if code < 0x10000:
        text[out] = 0xE0 | code >> 12
        text[out + 1] = 0x80 | code >> 6 & 0x3F
        text[out + 2] = 0x80 | code & 0x3F
        return out + 3
    text[out] = 0xF0 | code >> 18
    text[out + 1] = 0x80 | code >> 12 & 0x3F
    text[out + 2] = 0x80 | code >> 6 & 0x3F
    text[out + 3] = 0x80 | code & 0x3F
    return out + 4


@inner
def _numeric(page: NDArray[np.uint8], at: int, end: int, text: NDArray[np.uint8], out: int) -> tuple[int, int]:
    """`at` is behind "&#"."""
    start = at
    base = 10
    if at < end and (page[at] | 0x20) == 0x78:
        base = 16
        at += 1
    first, code = at, np.int64(0)
    while at < end and _digit(np.int64(page[at]), base) >= 0:
        code = min(code * base + np.int64(_digit(np.int64(page[at]), base)), np.int64(CODE_MAX + 1))
        at += 1
    if at == first:  # no digits: the characters stand for themselves
        text[out] = 0x26
        text[out + 1] = 0x23
        return start, out + 2
    if at < end and page[at] == 0x3B:
        at += 1
    if code == 0 or code > CODE_MAX or 0xD800 <= code <= 0xDFFF:
        code = np.int64(REPLACEMENT)
    elif 0x80 <= code < 0xA0:
        code = _WINDOWS_1252[code - 0x80]
    return at, put_char(text, out, code)


@inner
def _longest_name(
    page: NDArray[np.uint8], at: int, end: int, keys: NDArray[np.uint64], values: NDArray[np.int64]
) -> tuple[int, int]:
    """(slot of the longest name that matches at `at`, or -1; where it ends, semicolon included)."""
    found, found_end = -1, at
    h = np.uint64(REFERENCE_DOMAIN)
    stop = min(end, at + NAME_BYTES_MAX)
    while at < stop and is_alphanumeric(np.int64(page[at])):
        h = mix(h, np.int64(page[at]))
        at += 1
        is_closed = at < end and page[at] == 0x3B
        slot = slot_of(keys, h)
        if slot >= 0 and (is_closed or values[slot, 1] & BARE_REFERENCE):
            found, found_end = slot, at + is_closed
    return found, found_end


@inner
def put_reference(
    page: NDArray[np.uint8],
    at: int,
    end: int,
    text: NDArray[np.uint8],
    out: int,
    in_attribute: bool,
    keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> tuple[int, int]:
    """Write what the "&" at `at` stands for: (where the page goes on, where the text ends)."""
    page, text, keys, values = borrowed(page), borrowed(text), borrowed(keys), borrowed(values)
    if at + 1 < end and page[at + 1] == 0x23:
        return _numeric(page, at + 2, end, text, out)
    slot, found_end = _longest_name(page, at + 1, end, keys, values)
    # In an attribute, "&copy=1" and "&copyright" are parts of an address.
    is_address = in_attribute and slot >= 0 and page[found_end - 1] != 0x3B and found_end < end
    if slot < 0 or (is_address and (page[found_end] == 0x3D or is_alphanumeric(np.int64(page[found_end])))):
        text[out] = 0x26
        return at + 1, out + 1
    utf8, size = values[slot, 0], values[slot, 1] & 7
    for i in range(size):
        text[out + i] = utf8 >> (8 * i) & 0xFF
    return found_end, out + size


@kernel
def dereferenced(
    page: NDArray[np.uint8],
    at: int,
    end: int,
    in_attribute: bool,
    keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """A stretch of the page with its references resolved."""
    text = np.empty((end - at) * 6 // 5 + 8, dtype=np.uint8)
    out = 0
    while at < end:
        if page[at] == 0x26:
            at, out = put_reference(page, at, end, text, out, in_attribute, keys, values)
        else:
            text[out] = page[at]
            at += 1
            out += 1
    return text[:out]
