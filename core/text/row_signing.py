"""Signatures of the rows of a text column, without a Python object per row.

A corpus is compared by the shingles of its texts, as pages are (`signature.py`), with three differences:

- A text of n tokens has n−k+1 shingles, not n: no dummies follow its end. So a similarity is the one that other tools
  compute (docs/explanation/corpora.md). A text of fewer than k tokens is one shingle.
- Arabic vowel signs do not count, so vocalised text matches text that is not.
- What a token is, and k, can be chosen (`TokenRules`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.kernels.compile import inner, threaded_kernel
from dustream.core.text.char_classes import IGNORED, MARK, SINGLE, TABLE_SIZE, WORD
from dustream.core.text.minhash import ADDENDS_32, AT_ONCE, MULTIPLIERS_32, PERMUTATIONS, minima_into
from dustream.core.text.scan_vectors import WORD_BYTES, word_at
from dustream.core.text.shingles import DUMMY_TOKEN, NO_SEED, PLACES, SHINGLE_TOKENS, sort_distinct, window_hash
from dustream.core.text.tokens import (
    CLASS_MASK,
    FOLD_BITS,
    FOLD_SHIFT,
    MAY_COMPOSE,
    PLACES_BEHIND,
    TOKEN_MULTIPLIER,
    ascii_end,
    char_entry,
    char_table,
    composed,
    decode_char,
    finish_tokens,
    fmix64,
    hash_tokens,
)

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

TokenKind = Literal["words", "characters", "code", "raw"]
TOKEN_KINDS: Final = get_args(TokenKind)
_WORDS, _CHARACTERS, _CODE, _RAW = range(4)

NGRAM_MAX: Final = 64
CHARACTERS_NGRAM: Final = 9  # for documents of any length (Leskovec, Rajaraman and Ullman, section 3.2.2)
_SPACE = np.uint32(0x20)
_UNDERSCORE = np.uint32(0x5F)
_NO_UTF8 = np.uint32(0x8000_0000)
_SHINGLE_BYTES_GUESSED = 4  # of text, for each shingle of it
_SEED = np.uint64(0x27D4EB2F165667C5)

# Fathatan to sukun, and the superscript alef: readers of Arabic supply them, most texts leave them out.
_ARABIC_VOWELS = ((0x064B, 0x0652), (0x0670, 0x0670))

_HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF))


class TokenRules(Struct, frozen=True):
    """What texts are compared by. `words`: words in small letters, characters in scripts without spaces. `characters`:
    every character, small, a run of white space as one. `code`: words, and every other visible character, case kept.
    `raw`: every character as it is. `ngram` tokens are a shingle (0: the default of the kind). `fold_chinese`:
    traditional characters count as their simplified forms. `as_pages`: none of these differences, so that rows can be
    compared with the pages of a run."""

    tokens: TokenKind = "words"
    ngram: int = 0
    keep_case: bool = False
    fold_chinese: bool = False
    as_pages: bool = False

    def __post_init__(self) -> None:
        if self.tokens not in TOKEN_KINDS:
            raise BadSetting(f"tokens {self.tokens!r} are not known: use {', '.join(TOKEN_KINDS)}")
        if not 0 <= self.ngram <= NGRAM_MAX:
            raise BadSetting(f"a shingle of {self.ngram} tokens: use 1 to {NGRAM_MAX}")
        if self.fold_chinese and self.tokens == "raw":
            raise BadSetting("raw tokens are characters as they are: fold_chinese needs another kind")
        if self.as_pages and (self.tokens != "words" or self.ngram or self.keep_case or self.fold_chinese):
            raise BadSetting("pages of a run are compared by words: leave out the options that choose other tokens")

    @property
    def shingle_tokens(self) -> int:
        return self.ngram or (SHINGLE_TOKENS if self.tokens in ("words", "code") else CHARACTERS_NGRAM)


class RowSignatures(NamedTuple):
    """By row: the 128 minima of its shingles, the hash of its tokens in order, a hash of its bytes, its number of
    tokens, and where its shingles end (they begin where those of the row before end)."""

    minhashes: NDArray[np.uint32]
    hashes: Words
    byte_hashes: Words
    tokens: Ints
    ends: Ints
    shingles: Words


def sign_rows(data: Bytes, offsets: Ints, rules: TokenRules) -> RowSignatures:
    """The signatures of texts in UTF-8 that lie one behind the other, from each offset to the next."""
    table = rules_table(rules)
    byte_hashes = hash_bytes(data, offsets)
    if rules.tokens != "raw":
        data, offsets = _composed(data, offsets, table)
    kind = TOKEN_KINDS.index(rules.tokens)
    dummies = rules.shingle_tokens - 1 if rules.as_pages else 0
    found = _sign(data, offsets, kind, rules.shingle_tokens, dummies, table, MULTIPLIERS_32, ADDENDS_32)
    minhashes, hashes, tokens, ends, shingles = found
    return RowSignatures(minhashes, hashes, byte_hashes, tokens, ends, shingles[: ends[-1] if len(ends) else 0])


def rules_table(rules: TokenRules) -> NDArray[np.uint32]:
    """By character, as `char_table`: what it counts as, and its class."""
    if rules.as_pages:
        return char_table()
    return _table(rules.keep_case or rules.tokens in ("code", "raw"), rules.fold_chinese)


@cache
def _table(keep_case: bool, fold_chinese: bool) -> NDArray[np.uint32]:
    """As `char_table`, without Arabic vowel signs; with capital letters, if case is kept; with simplified Chinese
    characters for traditional ones, if they are folded."""
    table = char_table().copy()
    for first, last in _ARABIC_VOWELS:
        table[first : last + 1] = (table[first : last + 1] & ~CLASS_MASK) | np.uint32(IGNORED)
    for code in np.flatnonzero(table >> FOLD_SHIFT != np.arange(TABLE_SIZE)).tolist() if keep_case else ():
        table[code] = (_unfolded(code, int(table[code]) >> FOLD_BITS) << FOLD_BITS) | int(table[code]) & 0xF
    for code, simple in _simplified() if fold_chinese else ():
        table[code] = (simple << FOLD_BITS) | int(table[code]) & 0xF
    table.setflags(write=False)
    return table


def _simplified() -> Iterator[tuple[int, int]]:
    """Traditional characters and their simplified forms, by the dictionary of OpenCC. Its phrases are not needed: texts
    are compared, not shown."""
    try:
        from opencc import OpenCC
    except ImportError:
        raise BadSetting("folding Chinese needs OpenCC: pip install 'dustream[chinese]'") from None
    characters = [chr(code) for first, last in _HAN for code in range(first, last + 1)]
    for old, new in zip(characters, OpenCC("t2s").convert("\n".join(characters)).split("\n"), strict=True):
        if old != new and len(new) == 1:
            yield ord(old), ord(new)


def _unfolded(code: int, folded: int) -> int:
    """What a character stands for in its own case: a full-width A is an A."""
    plain = unicodedata.normalize("NFKC", chr(code))
    return ord(plain) if len(plain) == 1 and plain.lower() == chr(folded) else code


def _composed(data: Bytes, offsets: Ints, table: NDArray[np.uint32]) -> tuple[Bytes, Ints]:
    """The texts in composed form (NFC)."""
    changed = {}
    for row in np.flatnonzero(rows_to_compose(data, offsets, table)).tolist():
        text = data[offsets[row] : offsets[row + 1]].tobytes()
        if (nfc := composed(text)) != text:
            changed[row] = nfc
    if not changed:
        return data, offsets
    texts = [
        changed[row] if row in changed else data[start:end].tobytes()
        for row, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    ]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(bytearray().join(texts), dtype=np.uint8), ends


@threaded_kernel
def rows_to_compose(data: Bytes, offsets: Ints, table: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which texts have characters that NFC may change."""
    found = np.zeros(len(offsets) - 1, dtype=np.bool_)
    for row in range(len(found)):
        text, at = data[offsets[row] : offsets[row + 1]], 0
        while at < text.size and not found[row]:
            if text[at] < 0x80:
                at = ascii_end(text, at)
            else:
                code, size = decode_char(text, at)
                found[row] = (char_entry(code, table) & MAY_COMPOSE) != 0
                at += size
    return found


@threaded_kernel
def hash_bytes(data: Bytes, offsets: Ints) -> Words:
    """A 64-bit hash of each text as it is."""
    hashes = np.empty(len(offsets) - 1, dtype=np.uint64)
    for row in range(len(hashes)):
        text = data[offsets[row] : offsets[row + 1]]
        h, at = _SEED ^ np.uint64(text.size), np.uint64(0)
        while at + np.uint64(WORD_BYTES) <= np.uint64(text.size):
            h = (((h << np.uint64(29)) | (h >> np.uint64(35))) ^ word_at(text, at)) * TOKEN_MULTIPLIER
            at += np.uint64(WORD_BYTES)
        while at < np.uint64(text.size):
            h = (((h << np.uint64(29)) | (h >> np.uint64(35))) ^ np.uint64(text[at])) * TOKEN_MULTIPLIER
            at += np.uint64(1)
        hashes[row] = fmix64(h)
    return hashes


@inner
def _is_white(code: np.uint32) -> bool:
    return bool(
        code <= 0x20 or code == 0x7F or code == 0x85 or code == 0xA0 or code == 0x1680 or 0x2000 <= code <= 0x200A
        or code == 0x2028 or code == 0x2029 or code == 0x202F or code == 0x205F or code == 0x3000
    )  # fmt: skip


@inner
def _split_characters(text: Bytes, table: NDArray[np.uint32], tokens: Words) -> int:
    """Every character is a token; so is white space between others, once."""
    count, at, space = 0, 0, False
    while at < text.size:
        code, size = (np.uint32(text[at]), 1) if text[at] < 0x80 else decode_char(text, at)
        at += size
        entry = char_entry(code, table)
        if entry & CLASS_MASK == IGNORED:
            continue
        if _is_white(code):
            space = count > 0
            continue
        if space:
            tokens[count] = np.uint64(_SPACE) * TOKEN_MULTIPLIER
            count += 1
            space = False
        tokens[count] = np.uint64(entry >> FOLD_SHIFT) * TOKEN_MULTIPLIER
        count += 1
    return count


@inner
def _split_code(text: Bytes, table: NDArray[np.uint32], tokens: Words) -> int:
    """A word with its underscores is a token, and so is every other character that is no white space."""
    h, count, at, is_open = np.uint64(0), 0, 0, False
    while at < text.size:
        code, size = (np.uint32(text[at]), 1) if text[at] < 0x80 else decode_char(text, at)
        at += size
        entry = char_entry(code, table)
        kind = entry & CLASS_MASK
        if kind == IGNORED:
            continue
        is_word = kind == WORD or code == _UNDERSCORE or (kind == MARK and is_open)
        if is_open and not is_word:
            tokens[count] = h
            count += 1
        if is_word:
            h = ((h if is_open else np.uint64(0)) ^ np.uint64(entry >> FOLD_SHIFT)) * TOKEN_MULTIPLIER
        elif kind == SINGLE or not _is_white(code):
            tokens[count] = np.uint64(entry >> FOLD_SHIFT) * TOKEN_MULTIPLIER
            count += 1
        is_open = is_word
    if is_open:
        tokens[count] = h
        count += 1
    return count


@inner
def _split_raw(text: Bytes, tokens: Words) -> int:
    """Every character as it is; bytes that are no UTF-8 are characters of their own."""
    count, at = 0, 0
    while at < text.size:
        code, size = (np.uint32(text[at]), 1) if text[at] < 0x80 else decode_char(text, at)
        if size == 1 and text[at] >= 0x80:
            code = _NO_UTF8 | np.uint32(text[at])
        at += size
        tokens[count] = (np.uint64(code) + np.uint64(1)) * TOKEN_MULTIPLIER
        count += 1
    return count


@inner
def _hash_tokens_of(
    text: Bytes, kind: int, table: NDArray[np.uint32], tokens: Words
) -> tuple[int, np.uint64, np.uint64]:
    """(number of tokens, the halves of the content hash)."""
    if kind == _WORDS:
        count, low, high, _ = hash_tokens(text, table, tokens)
        return count, low, high
    if kind == _CHARACTERS:
        count = _split_characters(text, table, tokens)
    elif kind == _CODE:
        count = _split_code(text, table, tokens)
    else:
        count = _split_raw(text, tokens)
    low, high = finish_tokens(tokens, count)
    return count, low, high


@threaded_kernel
def _sign(
    data: Bytes, offsets: Ints, kind: int, size: int, dummies: int, table: NDArray[np.uint32],
    multipliers: NDArray[np.uint32], addends: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], Words, Ints, Ints, Words]:  # fmt: skip
    """(minima, content hashes, numbers of tokens, ends of shingles, shingles), of shingles of `size` tokens, after
    `dummies` at the end of each text."""
    rows, longest = len(offsets) - 1, 0
    for row in range(rows):
        longest = max(longest, offsets[row + 1] - offsets[row])
    room = longest + PLACES_BEHIND + size
    tokens, windows, spare = np.empty(room, np.uint64), np.empty(room, np.uint64), np.empty(room, np.uint64)
    mixed, places = np.empty(room + AT_ONCE, np.uint32), np.empty(PLACES, np.uint32)
    minhashes, hashes = np.empty((rows, PERMUTATIONS), np.uint32), np.empty((rows, 2), np.uint64)
    counts, ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    shingles, used = np.empty(1_024 + data.size // _SHINGLE_BYTES_GUESSED, np.uint64), 0
    for row in range(rows):
        count, hashes[row, 0], hashes[row, 1] = _hash_tokens_of(
            data[offsets[row] : offsets[row + 1]], kind, table, tokens
        )
        for i in range(count, max(size, count + dummies) if count else 0):
            tokens[i] = DUMMY_TOKEN
        found = max(1, count + dummies - size + 1) if count else 0
        for i in range(found):
            windows[i] = window_hash(tokens, i, size, NO_SEED)
        found = sort_distinct(windows, found, spare, places)
        if used + found > shingles.size:
            shingles = np.concatenate((shingles, np.empty(shingles.size + found, np.uint64)))
        shingles[used : used + found] = windows[:found]
        used += found
        counts[row], ends[row] = count, used
        minima_into(windows[:found], mixed, multipliers, addends, minhashes[row])
    return minhashes, hashes, counts, ends, shingles
