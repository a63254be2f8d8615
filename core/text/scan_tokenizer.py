"""The lexical rules of HTML (13.2.5) on UTF-8 bytes: names, attributes, comments, raw text.

Every function takes a place in the page and returns the place behind what it read. None goes backwards, so any page is
read in linear time. Unclosed constructs extend to the end of the page, as the standard says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inlined, inner
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_tables import ATTRIBUTE_DOMAIN, TAG_DOMAIN, Int, mix_word, slot_of
from dustream.core.text.scan_vectors import WIDTH, WORD_BYTES, equal_mask, first_bit, mask_of, word_at

RAW_NAME_BYTES_MAX = 9  # plaintext

# Where a name ends; a tag's goes on behind "=".
_STOPS = b" \n\t\r\f/>="
_IS_STOP = np.zeros(256, dtype=np.bool_)
_IS_STOP[list(_STOPS)] = True
_stops_mask = mask_of(_STOPS)


@inner
def is_space(byte: Int) -> bool:
    return bool(byte == 0x20 or byte == 0x0A or byte == 0x09 or byte == 0x0D or byte == 0x0C)


@inner
def is_letter(byte: Int) -> bool:
    return bool(0x61 <= (byte | 0x20) <= 0x7A)


@inner
def find(page: NDArray[np.uint8], at: Int, byte: Int) -> int:
    """Where the byte comes next; the page's end if it does not."""
    size, start, wanted = np.uint64(page.size), np.uint64(at), np.uint8(byte)
    while start + np.uint64(WIDTH) <= size:
        found = equal_mask(page, start, wanted)
        if found:
            return np.int64(start + first_bit(found))  # type: ignore[return-value]
        start += np.uint64(WIDTH)
    while start < size and page[start] != wanted:
        start += np.uint64(1)
    return np.int64(min(start, size))  # type: ignore[return-value]


@inner
def skip_space(page: NDArray[np.uint8], at: int) -> int:
    while at < page.size and is_space(np.int64(page[at])):
        at += 1
    return at


@inner
def _name_end(page: NDArray[np.uint8], at: int) -> int:
    """Where the next byte stands that may end a name; the page's end if there is none."""
    size, start = np.uint64(page.size), np.uint64(at)
    while start + np.uint64(WIDTH) <= size:
        found = _stops_mask(page, start)
        if found:
            return np.int64(start + first_bit(found))  # type: ignore[return-value]
        start += np.uint64(WIDTH)
    while start < size and not _IS_STOP[page[start]]:
        start += np.uint64(1)
    return np.int64(min(start, size))  # type: ignore[return-value]


@inner
def _lower(word: np.uint64) -> np.uint64:
    """Eight bytes in lower case at once: bit 7 of each sum tells whether its byte is above a bound."""
    low = word & np.uint64(0x7F7F7F7F7F7F7F7F)
    from_a, beyond_z = low + np.uint64(0x3F3F3F3F3F3F3F3F), low + np.uint64(0x2525252525252525)
    is_capital = (from_a ^ beyond_z) & ~word & np.uint64(0x8080808080808080)
    return word | is_capital >> np.uint64(2)


@inner
def last_word(page: NDArray[np.uint8], at: np.uint64, size: np.uint64) -> np.uint64:
    """The `size` bytes (fewer than eight) at `at`, zeros behind them."""
    if at + np.uint64(WORD_BYTES) <= np.uint64(page.size):
        return word_at(page, at) & ((np.uint64(1) << (np.uint64(8) * size)) - np.uint64(1))
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(page[at + i]) << (np.uint64(8) * i)
    return word


@inner
def _name_hash(page: NDArray[np.uint8], start: int, end: int, domain: np.uint64) -> np.uint64:
    """The hash of the name in this range, in lower case (scan_tables.name_hash)."""
    at, left = np.uint64(start), np.uint64(end - start)
    h = domain ^ left
    while left >= np.uint64(WORD_BYTES):
        h = mix_word(h, _lower(word_at(page, at)))
        at += np.uint64(WORD_BYTES)
        left -= np.uint64(WORD_BYTES)
    return mix_word(h, _lower(last_word(page, at, left))) if left else h


@inlined
def _letters(word: np.uint64) -> np.uint64:
    """The number of bytes before the first one below "?". Letters are above it, and bytes that end a name below."""
    below = (word - np.uint64(0x3F3F3F3F3F3F3F3F)) & ~word & np.uint64(0x8080808080808080)
    return first_bit(below) >> np.uint64(3)


@inlined
def _short_hash(word: np.uint64, length: np.uint64, domain: np.uint64) -> np.uint64:
    """The hash of the name that is the first `length` bytes of the word."""
    return mix_word(domain ^ length, _lower(word & ((np.uint64(1) << (np.uint64(8) * length)) - np.uint64(1))))


@inlined
def tag_name(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    """(hash of the lower-case tag name at `at`, where it ends)."""
    if at + WORD_BYTES <= page.size:  # nearly all names are short and end in ">" or a blank
        word = word_at(page, np.uint64(at))
        length = _letters(word)
        if length < np.uint64(WORD_BYTES):
            stop = page[np.uint64(at) + length]
            if stop == 0x3E or stop == 0x20:
                return _short_hash(word, length, np.uint64(TAG_DOMAIN)), at + np.int64(length)  # type: ignore[return-value]
    return _long_tag_name(page, at)


@inner
def _long_tag_name(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    end = _name_end(page, at)
    while end < page.size and page[end] == 0x3D:
        end = _name_end(page, end + 1)
    return _name_hash(page, at, end, np.uint64(TAG_DOMAIN)), end


@inner
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


@inlined
def _short_attribute(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int, int]:
    """Of an attribute as most are, name="value" with few letters: (hash of its name, start and end of its value); else
    the start is -1. Both quotes are looked for at once, so that the end does not wait for the name to be read."""
    if at + WIDTH <= page.size:
        quotes, word = equal_mask(page, np.uint64(at), np.uint8(0x22)), word_at(page, np.uint64(at))
        length = first_bit(quotes) - np.uint64(1)  # of the name
        if length < np.uint64(WORD_BYTES) and length == _letters(word) and length != np.uint64(0):
            start = at + np.int64(length) + 2
            if page[start - 2] == 0x3D:
                h, closing = _short_hash(word, length, np.uint64(ATTRIBUTE_DOMAIN)), quotes & (quotes - np.uint64(1))
                if closing:
                    return h, start, at + np.int64(first_bit(closing))  # type: ignore[return-value]
                return h, start, find(page, at + WIDTH, np.int64(0x22))  # type: ignore[return-value]
    return np.uint64(0), -1, -1


@inner
def _attribute(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int, int, int]:
    """Of any attribute: (hash of its name, start and end of its value, where the tag goes on)."""
    page = borrowed(page)
    name, at = at, _name_end(page, at + 1)  # whatever comes first, "=" too, is part of it
    h = _name_hash(page, name, at, np.uint64(ATTRIBUTE_DOMAIN))
    start = end = at
    at = skip_space(page, at)
    if at < page.size and page[at] == 0x3D:
        start, end, at = _value(page, at + 1)
    return h, start, end, at


@inlined
def attributes(
    page: NDArray[np.uint8],
    at: int,
    found: NDArray[np.int64],
    keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> tuple[int, int, bool]:
    """Read a tag from behind its name: (behind ">", which attributes it has as bits, whether it ends in "/>").

    `found` gets start and end of the values of the known attributes; the first of a name counts. Behind the page's
    end means that the tag is not closed, so it is not a tag.
    """
    page, found, keys, values = borrowed(page), borrowed(found), borrowed(keys), borrowed(values)
    present, slash, size = 0, False, page.size
    while at < size and page[at] != 0x3E:
        slash = page[at] == 0x2F
        if slash or is_space(np.int64(page[at])):
            at += 1
            continue
        h, start, end = _short_attribute(page, at)
        if start >= 0:
            at = end + 1
        else:
            h, start, end, at = _attribute(page, at)
        slot = slot_of(keys, h)
        if slot >= 0 and not present >> values[slot, 0] & 1:
            present |= 1 << values[slot, 0]
            found[values[slot, 0], 0], found[values[slot, 0], 1] = start, end
    return at + 1, present, slash


@inner
def starts_with_word(page: NDArray[np.uint8], at: int, name: np.uint64) -> bool:
    """Whether the tag name at `at` is this one of a raw text element, and ends there. Looks no further than needed."""
    start, stop = at, min(page.size, at + RAW_NAME_BYTES_MAX + 1)
    while at < stop and is_letter(np.int64(page[at])):
        at += 1
    if at >= page.size or _name_hash(page, start, at, np.uint64(TAG_DOMAIN)) != name:
        return False
    byte = np.int64(page[at])
    return byte == 0x3E or byte == 0x2F or is_space(byte)


@inner
def _comment_end(page: NDArray[np.uint8], at: int) -> int:
    """Behind the comment whose "<!--" ends at `at`. "<!-->" and "<!--->" are whole comments, "--!>" ends one too."""
    size = page.size
    at -= 2
    while at < size:
        at = find(page, at, np.int64(0x2D))
        if at + 2 < size and page[at + 1] == 0x2D:
            if page[at + 2] == 0x3E:
                return at + 3
            if page[at + 2] == 0x21 and at + 3 < size and page[at + 3] == 0x3E:
                return at + 4
        at += 1
    return size


@inner
def is_comment(page: NDArray[np.uint8], at: int) -> bool:
    """Whether "<!--" stands at `at`."""
    return at + 3 < page.size and page[at + 1] == 0x21 and page[at + 2] == 0x2D and page[at + 3] == 0x2D


@inner
def is_cdata(page: NDArray[np.uint8], at: int) -> bool:
    """Whether "<![CDATA[" stands at `at`."""
    if at + 8 >= page.size or page[at + 1] != 0x21 or page[at + 2] != 0x5B or page[at + 8] != 0x5B:
        return False
    is_word = page[at + 3] == 0x43 and page[at + 4] == 0x44 and page[at + 5] == 0x41
    return bool(is_word and page[at + 6] == 0x54 and page[at + 7] == 0x41)


@inner
def cdata_end(page: NDArray[np.uint8], at: int) -> int:
    """Where the "]]>" comes; the page's end if it does not."""
    while at < page.size:
        at = find(page, at, np.int64(0x5D))
        if at + 2 < page.size and page[at + 1] == 0x5D and page[at + 2] == 0x3E:
            return at
        at += 1
    return page.size


@inner
def declaration_end(page: NDArray[np.uint8], at: int) -> int:
    """Behind the comment, doctype, processing instruction or other bogus comment at `at`."""
    if is_comment(page, at):
        return _comment_end(page, at + 4)
    return find(page, at, np.int64(0x3E)) + 1


@inner
def raw_text_end(page: NDArray[np.uint8], at: int, name: np.uint64) -> int:
    """Where the end tag of raw text element `name` stands; the page's end if there is none."""
    while at < page.size:
        at = find(page, at, np.int64(0x3C))
        if at + 1 < page.size and page[at + 1] == 0x2F and starts_with_word(page, at + 2, name):
            return at
        at += 1
    return page.size


@inner
def script_end(page: NDArray[np.uint8], at: int, name: np.uint64) -> int:
    """Where a script's end tag stands; in "<!-- <script> … </script> -->" the inner one ends nothing (13.2.5.20)."""
    size = page.size
    is_escaped = is_twice = False
    while at < size:
        if not is_escaped:
            at = find(page, at, np.int64(0x3C))
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
