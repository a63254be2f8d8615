"""The lexical rules of HTML (13.2.5) on UTF-8 bytes: names, attributes, comments, raw text.

Every function takes a place in the page and gives the place behind what it read; none goes backwards, so that a page
is read in linear time whatever is in it. What is not closed goes on to the end of the page, as the standard says.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_tables import ATTRIBUTE_DOMAIN, TAG_DOMAIN, Int, mix, slot_of

RAW_NAME_BYTES_MAX = 9  # plaintext
STRIDE = 32

# Where a tag's or an attribute's name ends, and what makes a letter small.
_ENDS_NAME = np.zeros(256, dtype=np.bool_)
_ENDS_NAME[[0x20, 0x0A, 0x09, 0x0D, 0x0C, 0x2F, 0x3E]] = True
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[0x41:0x5B] += 0x20


@njit(cache=True)
def is_space(byte: Int) -> bool:
    return bool(byte == 0x20 or byte == 0x0A or byte == 0x09 or byte == 0x0D or byte == 0x0C)


@njit(cache=True)
def is_letter(byte: Int) -> bool:
    return bool(0x61 <= (byte | 0x20) <= 0x7A)


@njit(cache=True)
def find(page: NDArray[np.uint8], at: Int, byte: Int) -> int:
    """Where the byte comes next; the page's end if it does not."""
    size, start, wanted = np.uint64(page.size), np.uint64(at), np.uint8(byte)
    while start < size and page[start] != wanted:
        start += np.uint64(1)
    return np.int64(min(start, size))  # type: ignore[return-value]


@njit(cache=True)
def find_far(page: NDArray[np.uint8], at: int, byte: Int) -> int:
    """As `find`, for what is likely far away: looks at 32 bytes at once, which the compiler does with vectors."""
    size, start, wanted = np.uint64(page.size), np.uint64(at), np.uint8(byte)
    while start + np.uint64(STRIDE) <= size:
        is_hit = np.uint8(0)
        for j in range(STRIDE):
            is_hit |= np.uint8(page[start + np.uint64(j)] == wanted)
        if is_hit:
            break
        start += np.uint64(STRIDE)
    return find(page, np.int64(start), byte)


@njit(cache=True)
def skip_space(page: NDArray[np.uint8], at: int) -> int:
    while at < page.size and is_space(np.int64(page[at])):
        at += 1
    return at


@njit(cache=True)
def tag_name(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    """(hash of the lower-case tag name at `at`, where it ends)."""
    h = np.uint64(TAG_DOMAIN)
    while at < page.size and not _ENDS_NAME[page[at]]:
        h = mix(h, np.int64(_LOWER[page[at]]))
        at += 1
    return h, at


@njit(cache=True)
def _attribute_name(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    """(hash of the lower-case name, where it ends). Its first byte may be anything, "=" too."""
    h = np.uint64(ATTRIBUTE_DOMAIN)
    is_first = True
    while at < page.size and not _ENDS_NAME[page[at]] and (page[at] != 0x3D or is_first):
        h = mix(h, np.int64(_LOWER[page[at]]))
        at += 1
        is_first = False
    return h, at


@njit(cache=True)
def _value(page: NDArray[np.uint8], at: int) -> tuple[int, int, int]:
    """(start, end, where the tag goes on) of the value behind "=", quoted or not."""
    at = skip_space(page, at)
    if at < page.size and (page[at] == 0x22 or page[at] == 0x27):
        end = find(page, at + 1, np.int64(page[at]))
        return at + 1, end, end + 1
    start = at
    while at < page.size and page[at] != 0x3E and not is_space(np.int64(page[at])):
        at += 1
    return start, at, at


@njit(cache=True)
def attributes(
    page: NDArray[np.uint8],
    at: int,
    found: NDArray[np.int64],
    keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> tuple[int, int, bool]:
    """Read a tag from behind its name: (behind ">", which attributes it has as bits, whether it ends in "/>").

    `found` gets start and end of the values of the known attributes; the first of a name counts. Behind the page's
    end means that the tag is not closed, and then it is none.
    """
    page, found, keys, values = borrowed(page), borrowed(found), borrowed(keys), borrowed(values)
    present, slash, size = 0, False, page.size
    while at < size and page[at] != 0x3E:
        slash = page[at] == 0x2F
        if slash or is_space(np.int64(page[at])):
            at += 1
            continue
        h, at = _attribute_name(page, at)
        start = end = at
        at = skip_space(page, at)
        if at < size and page[at] == 0x3D:
            start, end, at = _value(page, at + 1)
        slot = slot_of(keys, h)
        if slot >= 0 and not present >> values[slot, 0] & 1:
            present |= 1 << values[slot, 0]
            found[values[slot, 0], 0], found[values[slot, 0], 1] = start, end
    return at + 1, present, slash


@njit(cache=True)
def starts_with_word(page: NDArray[np.uint8], at: int, name: np.uint64) -> bool:
    """Whether the tag name at `at` is this one of a raw text element, and ends there. Looks no further than needed."""
    h, stop = np.uint64(TAG_DOMAIN), min(page.size, at + RAW_NAME_BYTES_MAX + 1)
    while at < stop and is_letter(np.int64(page[at])):
        h = mix(h, np.int64(page[at]) | 0x20)
        at += 1
    if h != name or at >= page.size:
        return False
    byte = np.int64(page[at])
    return byte == 0x3E or byte == 0x2F or is_space(byte)


@njit(cache=True)
def _comment_end(page: NDArray[np.uint8], at: int) -> int:
    """Behind the comment whose "<!--" ends at `at`. "<!-->" and "<!--->" are whole comments, "--!>" ends one too."""
    size = page.size
    at -= 2
    while at < size:
        at = find_far(page, at, np.int64(0x2D))
        if at + 2 < size and page[at + 1] == 0x2D:
            if page[at + 2] == 0x3E:
                return at + 3
            if page[at + 2] == 0x21 and at + 3 < size and page[at + 3] == 0x3E:
                return at + 4
        at += 1
    return size


@njit(cache=True)
def is_comment(page: NDArray[np.uint8], at: int) -> bool:
    """Whether "<!--" stands at `at`."""
    return at + 3 < page.size and page[at + 1] == 0x21 and page[at + 2] == 0x2D and page[at + 3] == 0x2D


@njit(cache=True)
def is_cdata(page: NDArray[np.uint8], at: int) -> bool:
    """Whether "<![CDATA[" stands at `at`."""
    if at + 8 >= page.size or page[at + 1] != 0x21 or page[at + 2] != 0x5B or page[at + 8] != 0x5B:
        return False
    is_word = page[at + 3] == 0x43 and page[at + 4] == 0x44 and page[at + 5] == 0x41
    return bool(is_word and page[at + 6] == 0x54 and page[at + 7] == 0x41)


@njit(cache=True)
def cdata_end(page: NDArray[np.uint8], at: int) -> int:
    """Where the "]]>" comes; the page's end if it does not."""
    while at < page.size:
        at = find(page, at, np.int64(0x5D))
        if at + 2 < page.size and page[at + 1] == 0x5D and page[at + 2] == 0x3E:
            return at
        at += 1
    return page.size


@njit(cache=True)
def declaration_end(page: NDArray[np.uint8], at: int) -> int:
    """Behind the comment, doctype, processing instruction or other bogus comment at `at`."""
    if is_comment(page, at):
        return _comment_end(page, at + 4)
    return find(page, at, np.int64(0x3E)) + 1


@njit(cache=True)
def raw_text_end(page: NDArray[np.uint8], at: int, name: np.uint64) -> int:
    """Where the end tag of raw text element `name` stands; the page's end if there is none."""
    while at < page.size:
        at = find_far(page, at, np.int64(0x3C))
        if at + 1 < page.size and page[at + 1] == 0x2F and starts_with_word(page, at + 2, name):
            return at
        at += 1
    return page.size


@njit(cache=True)
def script_end(page: NDArray[np.uint8], at: int, name: np.uint64) -> int:
    """Where a script's end tag stands; in "<!-- <script> … </script> -->" the inner one ends nothing (13.2.5.20)."""
    size = page.size
    is_escaped = is_twice = False
    while at < size:
        if not is_escaped:
            at = find_far(page, at, np.int64(0x3C))
        if at >= size:
            break
        byte = page[at]
        if byte == 0x3C and at + 1 < size:
            if page[at + 1] == 0x2F and starts_with_word(page, at + 2, name):
                if not is_twice:
                    return at
                is_twice = False
            elif is_escaped and starts_with_word(page, at + 1, name):
                is_twice = True
            elif is_comment(page, at):
                is_escaped = True
                at += 1  # the dashes may be those of "-->" already
        elif is_escaped and byte == 0x2D and at + 2 < size and page[at + 1] == 0x2D and page[at + 2] == 0x3E:
            is_escaped = is_twice = False
        at += 1
    return size
