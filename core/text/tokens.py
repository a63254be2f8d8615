"""Tokens, the units by which texts are compared.

- A run of letters, digits and their combining marks is one token (scripts with spaces: Latin, Arabic, Hindi …).
- In scripts written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar …) every letter, with the marks on it, is a
  token, and so is every emoji.
- Hangul is tokenised into words: Korean has spaces between words, and shingles of syllables would triple the set's size
  while a changed word affects about the same share of it.
- In a text of up to SHORT_TEXT_TOKENS such tokens, a run of symbols is a token, too: "C++", "-5" or "★★☆" are mostly
  symbols.
- Case is folded, full-width forms become ordinary ones. Invisible characters (zero-width space, soft hyphen, variation
  selectors, tatweel …) are ignored. All others (spaces, punctuation, symbols, controls) are separators.

A token's hash is 64 bits; its top 12 bits are the token's *bucket*, the unit of which sub-dictionaries are made.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadEvent
from dustream.core.kernels.compile import inlined, inner, kernel
from dustream.core.text.char_classes import (
    CLASS_RANGES,
    FOLD_RANGES,
    IGNORED,
    MARK,
    SEPARATOR,
    SINGLE,
    TABLE_SIZE,
    WORD,
)
from dustream.core.text.scan_vectors import WIDTH, first_bit, high_mask

BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS

# A text of 8 MiB gives at most some 4 million shingles (32 MB), still one message.
TEXT_BYTES_MAX = 8 * 1024 * 1024

SHORT_TEXT_TOKENS = 8

# What only separates in any text, among the characters that are no letters: punctuation of ASCII and Latin-1, general,
# CJK and full-width punctuation, the replacement character. (first, last)
_PUNCTUATION = (
    (0x00, 0x22), (0x27, 0x29), (0x2C, 0x2C), (0x2E, 0x2E), (0x3A, 0x3B), (0x3F, 0x3F), (0x5B, 0x5B), (0x5D, 0x5D),
    (0x60, 0x60), (0x7B, 0x7B), (0x7D, 0x7D), (0x7F, 0xA1), (0xA7, 0xA8), (0xAB, 0xAB), (0xB4, 0xB4), (0xB6, 0xB8),
    (0xBB, 0xBB), (0xBF, 0xBF), (0x2000, 0x206F), (0x3000, 0x303F), (0xFE10, 0xFE6F), (0xFF00, 0xFFFF),
)  # fmt: skip

# A table entry: what the character folds to, whether NFC may change it, its class.
FOLD_BITS = 4
FOLD_SHIFT = np.uint32(FOLD_BITS)
MAY_COMPOSE = np.uint32(8)
CLASS_MASK = np.uint32(7)

# With all combining marks, no fewer than the characters that NFC changes or joins with what precedes them.
_MAY_COMPOSE_RANGES = (
    (0x0374, 0x0387),
    (0x0958, 0x0B5D),
    (0x0F43, 0x0FB9),
    (0x1160, 0x11FF),
    (0x1F71, 0x1FFD),
    (0x2000, 0x2001),
    (0x2126, 0x212B),
    (0x2329, 0x232A),
    (0x2ADC, 0x2ADC),
    (0xF900, 0xFAFF),
    (0xFB1D, 0xFB4E),
    (0x1D15E, 0x1D1C0),
)

_PUNCTUATION_RANGES = np.array(_PUNCTUATION, dtype=np.uint32)
_SYMBOL = 5  # beside the classes of the table

# Above the table: planes 2 and 3 are ideographs, E0000–E0FFF tags and variation selectors.
_IDEOGRAPHS_END = 0x40000
_TAGS_FIRST, _TAGS_END = 0xE0000, 0xE1000

# A run of ASCII this long is hashed in lanes; for shorter ones the set-up costs more than it saves.
LANES = 4
LANES_BYTES_MIN = 128
PLACES_BEHIND = 2 * LANES + 8 + 2 * SHORT_TEXT_TOKENS

# Odd constants with random-looking bits: multipliers of xxHash64 and of other mixers.
TOKEN_MULTIPLIER = np.uint64(0x9FB21C651E98DF25)
_STREAM_MULTIPLIER_2 = np.uint64(0xD6E8FEB86659FD93)
_STREAM_SEED_LOW = np.uint64(0xC2B2AE3D27D4EB4F)
_STREAM_SEED_HIGH = np.uint64(0x165667B19E3779F9)
_STREAM_MULTIPLIER = np.uint64(0x9E3779B185EBCA87)
_FMIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_FMIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_ALL_BITS = 0xFFFFFFFFFFFFFFFF


@cache
def char_table() -> NDArray[np.uint32]:
    """By character: what it folds to, MAY_COMPOSE, and its class in the lowest three bits."""
    folded = np.arange(TABLE_SIZE, dtype=np.int64)
    for first, last, step, delta in FOLD_RANGES:
        folded[first : last + 1 : step] += delta
    classes = np.full(TABLE_SIZE, SEPARATOR, dtype=np.int64)
    for first, last, kind in CLASS_RANGES:
        classes[first : last + 1] = kind
    # A character has the class of what it folds to, so that a full-width letter acts as the letter.
    inside = np.minimum(folded, TABLE_SIZE - 1)
    may_compose = classes == MARK
    for first, last in _MAY_COMPOSE_RANGES:
        may_compose[first : last + 1] = True
    entries = (folded << FOLD_BITS) | may_compose * int(MAY_COMPOSE) | classes[inside]
    table: NDArray[np.uint32] = entries.astype(np.uint32)
    table.setflags(write=False)
    return table


def text_bytes(text: str | bytes) -> bytes:
    """The text as bytes. Raises BadEvent over TEXT_BYTES_MAX."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if len(data) > TEXT_BYTES_MAX:
        raise text_too_long(len(data))
    return data


def text_too_long(size: int) -> BadEvent:
    return BadEvent(f"text of {size} bytes: at most {TEXT_BYTES_MAX} are processed")


def composed(data: bytes) -> bytes:
    """The text in composed form (NFC), in which é is always one character. Invalid UTF-8 is replaced."""
    return unicodedata.normalize("NFC", data.decode("utf-8", "replace")).encode()


def explain_tokens(text: str | bytes) -> list[str]:
    """The tokens as people read them: the same rules as `token_hashes`, character by character."""
    nfc = composed(text_bytes(text)).decode("utf-8")
    tokens = _explained(nfc, with_symbols=False)
    return _explained(nfc, with_symbols=True) if len(tokens) <= SHORT_TEXT_TOKENS else tokens


def _explained(text: str, *, with_symbols: bool) -> list[str]:
    table = char_table()
    tokens: list[str] = []
    open_kind = SEPARATOR
    for char in text:
        code = ord(char)
        entry = int(table[code]) if code < TABLE_SIZE else 0
        kind, folded = (entry & 7, entry >> FOLD_BITS) if code < TABLE_SIZE else _char_above(code)
        if kind == IGNORED:
            continue
        if kind == SEPARATOR and with_symbols and not is_punctuation(folded):
            kind = _SYMBOL
        if kind == SEPARATOR or (kind == MARK and open_kind in (SEPARATOR, _SYMBOL)):
            open_kind = SEPARATOR
        elif kind == MARK or (kind == open_kind and kind in (WORD, _SYMBOL)):
            tokens[-1] += chr(folded)
        else:
            tokens.append(chr(folded))
            open_kind = kind
    return tokens


def is_punctuation(code: int) -> bool:
    return any(first <= code <= last for first, last in _PUNCTUATION)


def _char_above(code: int) -> tuple[int, int]:
    if code < _IDEOGRAPHS_END:
        return SINGLE, code
    return (IGNORED if _TAGS_FIRST <= code < _TAGS_END else SEPARATOR), code


@inner
def fmix64(h: np.uint64) -> np.uint64:
    """MurmurHash3's finaliser: a bijection in which every input bit reaches every output bit."""
    h ^= h >> np.uint64(33)
    h *= _FMIX_1
    h ^= h >> np.uint64(33)
    h *= _FMIX_2
    return h ^ (h >> np.uint64(33))


@inner
def _rotate(h: np.uint64) -> np.uint64:
    return (h << np.uint64(29)) | (h >> np.uint64(35))


@inner
def decode_char(data: NDArray[np.uint8], at: int) -> tuple[np.uint32, int]:
    """(character, its length) of the multi-byte character at `at`; (U+FFFD, 1) where the bytes are no UTF-8."""
    lead = np.uint32(data[at])
    size = 4 if lead >= 0xF0 else (3 if lead >= 0xE0 else 2)
    if lead < 0xC2 or lead > 0xF4 or at + size > data.size:
        return np.uint32(0xFFFD), 1
    code = lead & np.uint32(0xFF >> (size + 1))
    for offset in range(1, size):
        byte = np.uint32(data[at + offset])
        if byte & np.uint32(0xC0) != np.uint32(0x80):
            return np.uint32(0xFFFD), 1
        code = np.uint32((code << np.uint32(6)) | (byte & np.uint32(0x3F)))
    return code, size


@inner
def char_entry(code: np.uint32, table: NDArray[np.uint32]) -> np.uint32:
    if code < TABLE_SIZE:
        return table[code]  # type: ignore[no-any-return]
    kind = SEPARATOR
    if code < _IDEOGRAPHS_END:
        kind = SINGLE | 8  # some of them NFC changes
    elif _TAGS_FIRST <= code < _TAGS_END:
        kind = IGNORED
    return np.uint32((code << FOLD_SHIFT) | np.uint32(kind))


@inlined
def _next_ascii(
    byte: np.uint8, table: NDArray[np.uint32], tokens: NDArray[np.uint64], place: np.uint64, h: np.uint64,
    was_word: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64]:  # fmt: skip
    """One ASCII byte on: (next place, hash of the open token, whether one is open).

    Without branches on the text, which processors cannot predict: every byte writes the open token's hash to the next
    place, and a separator behind a word moves the place on and clears the hash. In ASCII all but words separates.
    """
    entry = np.uint64(table[byte])
    is_word = entry & np.uint64(WORD)  # 1 or 0
    tokens[place] = h
    place += was_word & (is_word ^ np.uint64(1))
    h = (h ^ (entry >> np.uint64(FOLD_BITS))) * (TOKEN_MULTIPLIER & (np.uint64(0) - is_word))
    return place, h, is_word


@inner
def _split_ascii(
    data: NDArray[np.uint8], at: int, end: int, table: NDArray[np.uint32], tokens: NDArray[np.uint64],
    place: np.uint64, h: np.uint64, was_word: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64]:  # fmt: skip
    """As `_split`, for a run of ASCII, where most of the time goes: (next place, h, whether a token is open)."""
    for i in range(np.uint64(at), np.uint64(end)):
        place, h, was_word = _next_ascii(data[i], table, tokens, place, h, was_word)
    return place, h, was_word


@inner
def _separator_from(data: NDArray[np.uint8], at: int, end: int, table: NDArray[np.uint32]) -> int:
    """Where a run of ASCII has its next separator; its end if there is none."""
    while at < end and table[data[at]] & np.uint32(WORD):
        at += 1
    return at


@inner
def _end_lane(
    data: NDArray[np.uint8], at: int, end: int, table: NDArray[np.uint32], tokens: NDArray[np.uint64],
    place: np.uint64, h: np.uint64, was_word: np.uint64, first: np.uint64, target: np.uint64,
) -> np.uint64:  # fmt: skip
    """The rest of a lane, before whose end no token goes on, and its tokens from `first` on moved to `target`: where
    they end."""
    place, h, was_word = _split_ascii(data, at, end, table, tokens, place, h, was_word)
    tokens[place] = h
    for i in range(place + was_word - first):
        tokens[target + i] = tokens[first + i]
    return target + (place + was_word - first)


@inner
def _split_lanes(
    data: NDArray[np.uint8], at: int, end: int, table: NDArray[np.uint32], tokens: NDArray[np.uint64],
    place: np.uint64, h: np.uint64, was_word: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64]:  # fmt: skip
    """As `_split_ascii`, in four lanes at once: each step waits for a multiplication, and those of four tokens do not
    wait for each other. Every lane but the first begins with a separator, so no token is cut."""
    quarter = (end - at) // LANES
    b = _separator_from(data, at + quarter, end, table)
    c = _separator_from(data, max(b, at + 2 * quarter), end, table)
    d = _separator_from(data, max(c, at + 3 * quarter), end, table)
    if d == end:
        return _split_ascii(data, at, end, table, tokens, place, h, was_word)
    common = min(min(b - at, c - b), min(d - c, end - d))
    h0, h1, h2, h3 = h, np.uint64(0), np.uint64(0), np.uint64(0)
    w0, w1, w2, w3 = was_word, np.uint64(0), np.uint64(0), np.uint64(0)
    # A lane has at most one token for two bytes, and writes to one place more.
    first1, first2 = place + np.uint64((b - at) // 2 + 2), place + np.uint64((c - at) // 2 + 4)
    first3 = place + np.uint64((d - at) // 2 + 6)
    p0, p1, p2, p3 = place, first1, first2, first3
    for i in range(np.uint64(common)):
        p0, h0, w0 = _next_ascii(data[np.uint64(at) + i], table, tokens, p0, h0, w0)
        p1, h1, w1 = _next_ascii(data[np.uint64(b) + i], table, tokens, p1, h1, w1)
        p2, h2, w2 = _next_ascii(data[np.uint64(c) + i], table, tokens, p2, h2, w2)
        p3, h3, w3 = _next_ascii(data[np.uint64(d) + i], table, tokens, p3, h3, w3)
    p0 = _end_lane(data, at + common, b, table, tokens, p0, h0, w0, place, place)
    p0 = _end_lane(data, b + common, c, table, tokens, p1, h1, w1, first1, p0)
    p0 = _end_lane(data, c + common, d, table, tokens, p2, h2, w2, first2, p0)
    p3, h3, w3 = _split_ascii(data, d + common, end, table, tokens, p3, h3, w3)
    for i in range(p3 - first3):
        tokens[p0 + i] = tokens[first3 + i]
    return p0 + (p3 - first3), h3, w3


@inner
def ascii_end(data: NDArray[np.uint8], at: int) -> int:
    """Where a run of ASCII ends."""
    start, size = np.uint64(at), np.uint64(data.size)
    while start + np.uint64(WIDTH) <= size:
        others = high_mask(data, start)
        if others:
            return np.int64(start + first_bit(others))  # type: ignore[return-value]
        start += np.uint64(WIDTH)
    while start < size and data[start] < 0x80:
        start += np.uint64(1)
    return np.int64(start)  # type: ignore[return-value]


@inner
def _split(data: NDArray[np.uint8], table: NDArray[np.uint32], tokens: NDArray[np.uint64]) -> tuple[int, bool]:
    """Write the unfinished hash of every token to `tokens`: (their number, whether NFC may change the text)."""
    h, count, at = np.uint64(0), np.uint64(0), 0
    is_open = extends = may_compose = False
    while at < data.size:
        if data[at] < 0x80:
            if is_open and not extends:
                tokens[count] = h
                count += np.uint64(1)
                h = np.uint64(0)
            end, was_word = ascii_end(data, at), np.uint64(is_open and extends)
            if end - at >= LANES_BYTES_MIN:
                count, h, was_word = _split_lanes(data, at, end, table, tokens, count, h, was_word)
            else:
                count, h, was_word = _split_ascii(data, at, end, table, tokens, count, h, was_word)
            at, is_open = end, was_word != np.uint64(0)
            extends = is_open
            continue
        code, size = decode_char(data, at)
        entry = char_entry(code, table)
        may_compose |= (entry & MAY_COMPOSE) != 0
        at += size
        kind = entry & CLASS_MASK
        if kind == IGNORED:
            continue
        if not ((kind == WORD and extends) or (kind == MARK and is_open)):
            tokens[count] = h
            count += np.uint64(is_open)
            h = np.uint64(0)
            extends = kind == WORD
            is_open = extends or kind == SINGLE
            if not is_open:
                continue
        h = (h ^ np.uint64(entry >> FOLD_SHIFT)) * TOKEN_MULTIPLIER
    tokens[count] = h
    return np.int64(count) + is_open, may_compose  # type: ignore[return-value]


@inner
def _is_symbol(code: np.uint32) -> bool:
    for i in range(_PUNCTUATION_RANGES.shape[0]):
        if _PUNCTUATION_RANGES[i, 0] <= code <= _PUNCTUATION_RANGES[i, 1]:
            return False
    return True


@inner
def _split_short(data: NDArray[np.uint8], table: NDArray[np.uint32], tokens: NDArray[np.uint64]) -> int:
    """As `_split`, of a short text, in which runs of symbols are tokens, too: their number."""
    h, count, at, open_kind = np.uint64(0), 0, 0, SEPARATOR
    while at < data.size:
        code, size = (np.uint32(data[at]), 1) if data[at] < 0x80 else decode_char(data, at)
        entry = char_entry(code, table)
        at += size
        kind, folded = int(entry & CLASS_MASK), entry >> FOLD_SHIFT
        if kind == IGNORED:
            continue
        if kind == SEPARATOR and _is_symbol(folded):
            kind = _SYMBOL
        is_extended = kind == open_kind and kind in (WORD, _SYMBOL)
        if kind == MARK and open_kind in (WORD, SINGLE):
            is_extended = True
        elif kind == MARK:
            kind = SEPARATOR
        if not is_extended:
            tokens[count] = h
            count += open_kind != SEPARATOR
            h, open_kind = np.uint64(0), kind
        if open_kind != SEPARATOR:
            h = (h ^ np.uint64(folded)) * TOKEN_MULTIPLIER
    tokens[count] = h
    return count + (open_kind != SEPARATOR)


@inner
def finish_tokens(tokens: NDArray[np.uint64], count: int) -> tuple[np.uint64, np.uint64]:
    """Finish the hashes of the first `count` tokens: the two halves of the content hash."""
    low, high = _STREAM_SEED_LOW, _STREAM_SEED_HIGH
    for i in range(count):
        token = fmix64(tokens[i])
        tokens[i] = token
        low = (_rotate(low) ^ token) * _STREAM_MULTIPLIER
        high = (_rotate(high) + token) * _STREAM_MULTIPLIER_2
    low = fmix64(low ^ np.uint64(count))
    return low, fmix64(high ^ low)


@kernel
def hash_tokens(
    data: NDArray[np.uint8], table: NDArray[np.uint32], tokens: NDArray[np.uint64]
) -> tuple[int, np.uint64, np.uint64, bool]:
    """Write the token hashes: (their number, the two halves of the content hash, whether NFC may change the text)."""
    count, may_compose = _split(data, table, tokens)
    if count <= SHORT_TEXT_TOKENS:
        count = _split_short(data, table, tokens)
    low, high = finish_tokens(tokens, count)
    return count, low, high, may_compose


def tokens_max(text_bytes_count: int) -> int:
    """Places that `hash_tokens` needs: a word has a separator and any other token three bytes, but for some of a short
    text, whose symbols need no separator; each of four lanes writes to one place more before it is known, and the
    dummies of shingles follow."""
    return text_bytes_count // 2 + PLACES_BEHIND


def token_hashes(text: str | bytes) -> NDArray[np.uint64]:
    """The 64-bit hash of every token, in order, with repeats."""
    return hash_stream(text_bytes(text))[0]


def hash_of_word(word: str) -> int:
    """The hash of a lower-case word that is one token, as compiled code computes it."""
    h = 0
    for char in word:
        h = (h ^ ord(char)) * int(TOKEN_MULTIPLIER) & _ALL_BITS
    for multiplier in (_FMIX_1, _FMIX_2):
        h = (h ^ h >> 33) * int(multiplier) & _ALL_BITS
    return h ^ h >> 33


def hash_stream(data: bytes) -> tuple[NDArray[np.uint64], bytes]:
    """(token hashes, content hash) of UTF-8 bytes, taken in composed form; any other bytes are safe, too.

    The content hash is 128 bits over the stream of token hashes. Text that differs only in case, spacing or
    punctuation has the same.
    """
    tokens, low, high, may_compose = _hashed(data)
    if may_compose and (nfc := composed(data)) != data:
        tokens, low, high, _ = _hashed(nfc)
    return tokens, int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")


def _hashed(data: bytes) -> tuple[NDArray[np.uint64], np.uint64, np.uint64, bool]:
    tokens = np.empty(tokens_max(len(data)), dtype=np.uint64)
    count, low, high, may_compose = hash_tokens(np.frombuffer(data, dtype=np.uint8), char_table(), tokens)
    return tokens[:count], low, high, may_compose


@kernel
def count_into(hashes: NDArray[np.uint64], table: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """As `count_by_table`, into an array that has a place for each sub-dictionary."""
    for i in range(counts.size):
        counts[i] = 0
    for h in hashes:
        counts[table[h >> np.uint64(64 - BUCKET_BITS)]] += 1


def count_by_table(hashes: NDArray[np.uint64], table: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many hashes fall into each sub-dictionary; `table` gives the sub-dictionary of each of the 4,096 buckets."""
    if table.shape != (BUCKETS,) or table.dtype != np.uint8:  # the compiled loop trusts it
        raise ValueError(f"a sub-dictionary table is {BUCKETS} uint8 values, not {table.dtype} {table.shape}")
    counts = np.empty(int(table.max()) + 1, dtype=np.int64)
    count_into(hashes, table, counts)
    return counts


def token_length_vector(text: str | bytes, table: NDArray[np.uint8]) -> NDArray[np.int64]:
    """L(A_i^1) of Zhu section 4.1: the number of tokens, with repeats, in each sub-dictionary."""
    return count_by_table(token_hashes(text), table)
