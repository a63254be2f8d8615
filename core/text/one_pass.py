"""Bytes to signature in one call of compiled code: read a page's text, sign a text, or both.

What the code works in and what it gives stands in one memory that is kept from page to page, cut into parts: each array
that goes through the door of compiled code costs a microsecond or more, a page of a kilobyte costs two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from dustream.core.text.compiled import inner, merged
from dustream.core.text.kept import Kept
from dustream.core.text.language import LANGUAGES, language_of_tokens, may_have_script, word_table
from dustream.core.text.minhash import ADDENDS_32, MULTIPLIERS_32, PERMUTATIONS, minima_into
from dustream.core.text.scan_blocks import (
    AT_BLOCK,
    AT_BLOCKS,
    AT_CONTAINERS,
    AT_LEFT_OUT,
    COUNTS,
    FACTS,
    MEMO_COLUMNS,
    MEMO_ROWS,
    OPEN_MAX,
    STATE,
    rows_max,
    scan_into,
    text_bytes_max,
)
from dustream.core.text.scan_main import choose, join_into
from dustream.core.text.scan_memory import borrowed, laid_out, part_of
from dustream.core.text.scan_tables import ATTRIBUTES, name_tables
from dustream.core.text.shingles import DEFAULT_TABLE, DIMENSIONS, PLACES, sort_distinct, windows_into
from dustream.core.text.tokens import char_table, count_into, hash_tokens, tokens_max

# What is to be done. Without READ the page is the text.
READ, MAIN, SIGN, TELL_LANGUAGE = 1, 2, 4, 8

# What comes out as numbers.
TEXT_BYTES, TOKENS_FOUND, SHINGLES_FOUND, MAY_COMPOSE, HAS_SCRIPT, BY_WORDS, NUMBERS = range(7)

_bytes, _bools, _int32s, _uint32s, _int64s, _uint64s = (
    part_of(types.uint8), part_of(types.boolean), part_of(types.int32), part_of(types.uint32), part_of(types.int64),
    part_of(types.uint64),
)  # fmt: skip
_rows32, _rows64, _pairs, _memo = (
    part_of(types.int32, 4), part_of(types.int64, 4), part_of(types.int64, 2), part_of(types.uint64, MEMO_COLUMNS),
)  # fmt: skip

# The parts of the memory, and of that of the tables.
(
    NUMBERS_PART, LENGTHS_PART, FACTS_PART, TEXT, JOINED, BLOCKS, CONTAINERS, FOUND, STACK, COUNTS_PART, STATE_PART,
    MEMO, PROSE, WEIGHED, SUMS, IS_OUT, INSIDE, CHOSEN, TOKENS, SHINGLES, SPARE, PLACES_PART, CONTENT_HASH, MINHASH,
) = range(24)  # fmt: skip
KEYS, VALUES, CHARS, WORDS, WORD_LANGUAGES = range(5)


class Room(NamedTuple):
    """The memory, and what Python reads of it."""

    memory: NDArray[np.uint8]
    parts: list[NDArray[Any]]
    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    facts: NDArray[np.int64]
    text: NDArray[np.uint8]
    shingles: NDArray[np.uint64]
    content_hash: NDArray[np.uint64]
    minhash: NDArray[np.uint32]


def _room_for(page_bytes: int) -> Room:
    text, rows = text_bytes_max(page_bytes), rows_max(page_bytes)
    tokens = tokens_max(text)
    memory, parts = laid_out([
        (NUMBERS, "<i8"), (DIMENSIONS, "<i8"), (2 * FACTS, "<i8"), (text, "u1"), (text, "u1"), (4 * rows, "<i4"),
        (4 * rows, "<i4"), (2 * len(ATTRIBUTES), "<i8"), (4 * OPEN_MAX, "<i8"), (COUNTS, "<i4"), (STATE, "<i8"),
        (MEMO_ROWS * MEMO_COLUMNS, "<u8"), (rows, "<i8"), (rows, "<i8"), (rows, "<i8"), (rows, "?"), (rows, "?"),
        (rows, "?"), (tokens, "<u8"), (tokens, "<u8"), (tokens, "<u8"), (PLACES, "<u4"), (2, "<u8"),
        (PERMUTATIONS, "<u4"),
    ])  # fmt: skip
    parts[FACTS_PART] = parts[FACTS_PART].reshape(-1, 2)
    read = (NUMBERS_PART, LENGTHS_PART, FACTS_PART, JOINED, SHINGLES, CONTENT_HASH, MINHASH)
    return Room(memory, parts, *(parts[number] for number in read))


_kept = Kept(_room_for)


# --- compiled code


@inner
def _scan(page: NDArray[np.uint8], no_controls: bool, memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> int:
    """Fill TEXT, BLOCKS and CONTAINERS: the size of the text."""
    state = _int64s(memory, STATE_PART)
    scan_into(
        page, _bytes(memory, TEXT), _rows32(memory, BLOCKS), _rows32(memory, CONTAINERS), _pairs(memory, FACTS_PART),
        _pairs(memory, FOUND), _rows64(memory, STACK), _int32s(memory, COUNTS_PART), state, _memo(memory, MEMO),
        _uint64s(tables, KEYS), _pairs(tables, VALUES), no_controls,
    )  # fmt: skip
    return max(0, int(state[AT_BLOCK]) - 1)


@merged
def _choose(memory: NDArray[np.uint8]) -> int:
    """Write the main text of a scanned page to JOINED: its size."""
    state = _int64s(memory, STATE_PART)
    blocks, chosen = _rows32(memory, BLOCKS)[: state[AT_BLOCKS]], _bools(memory, CHOSEN)
    choose(
        blocks, _rows32(memory, CONTAINERS)[: state[AT_CONTAINERS]], _int64s(memory, PROSE), _int64s(memory, WEIGHED),
        _int64s(memory, SUMS), _bools(memory, IS_OUT), _bools(memory, INSIDE), chosen,
    )  # fmt: skip
    return join_into(_bytes(memory, TEXT), blocks, chosen, _bytes(memory, JOINED))


@merged
def _read(page: NDArray[np.uint8], is_main: bool, memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> int:
    """Write a page's main text, or all of it, to JOINED: its size. All of it is without controls of forms, unless the
    page is mostly these."""
    size = _scan(page, not is_main, memory, tables)
    if not is_main and size < _int64s(memory, STATE_PART)[AT_LEFT_OUT]:
        size = _scan(page, False, memory, tables)
    main_size = _choose(memory) if is_main else 0
    if main_size > 0:
        return main_size
    text, joined = _bytes(memory, TEXT), _bytes(memory, JOINED)
    for i in range(size):
        joined[i] = text[i]
    return size


@merged
def _sign(text: NDArray[np.uint8], memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    """Content hash, shingle set, MinHash and lengths of a text, each to its part."""
    numbers, content_hash = _int64s(memory, NUMBERS_PART), _uint64s(memory, CONTENT_HASH)
    tokens, shingles = _uint64s(memory, TOKENS), _uint64s(memory, SHINGLES)
    count, low, high, may_compose = hash_tokens(text, _uint32s(tables, CHARS), tokens)
    content_hash[0], content_hash[1] = low, high
    windows_into(tokens, count, shingles)
    distinct = sort_distinct(shingles, count, _uint64s(memory, SPARE), _uint32s(memory, PLACES_PART))
    minima_into(shingles[:distinct], MULTIPLIERS_32, ADDENDS_32, _uint32s(memory, MINHASH))
    count_into(shingles[:distinct], DEFAULT_TABLE, _int64s(memory, LENGTHS_PART))
    numbers[TOKENS_FOUND], numbers[SHINGLES_FOUND], numbers[MAY_COMPOSE] = count, distinct, may_compose


@merged
def _tell_language(text: NDArray[np.uint8], memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    numbers, words, languages = _int64s(memory, NUMBERS_PART), _uint64s(tables, WORDS), _uint32s(tables, WORD_LANGUAGES)
    tokens, count = _uint64s(memory, TOKENS), numbers[TOKENS_FOUND]
    numbers[HAS_SCRIPT] = may_have_script(text)
    numbers[BY_WORDS] = language_of_tokens(tokens, count, words, languages, len(LANGUAGES))


@njit(cache=True)
def _one_pass(page: NDArray[np.uint8], task: int, memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    page, memory, tables = borrowed(page), borrowed(memory), borrowed(tables)
    numbers, text = _int64s(memory, NUMBERS_PART), page
    if task & READ:
        numbers[TEXT_BYTES] = _read(page, task & MAIN != 0, memory, tables)
        text = _bytes(memory, JOINED)[: numbers[TEXT_BYTES]]
    if task & SIGN:
        _sign(text, memory, tables)
    if task & TELL_LANGUAGE:
        _tell_language(text, memory, tables)


# --- its door

Door = Callable[[NDArray[np.uint8], int, NDArray[np.uint8], NDArray[np.uint8]], None]

_ARRAY = types.Array(types.uint8, 1, "C")
_TYPES = (_ARRAY, types.int64, _ARRAY, _ARRAY)


@cache
def _entry() -> Door:
    """The compiled code itself: numba's dispatcher takes long to find out what is known here."""
    _one_pass.compile(_TYPES)
    compiled: Any = _one_pass.overloads[_TYPES]
    return cast("Door", compiled.entry_point)


@cache
def _tables() -> NDArray[np.uint8]:
    tables = [table.reshape(-1) for table in (*name_tables(), char_table(), *word_table())]
    memory, parts = laid_out([(table.size, table.dtype.str) for table in tables])
    for part, table in zip(parts, tables, strict=True):
        part[:] = table
    return memory


def one_pass(page: NDArray[np.uint8], task: int) -> Room:
    """Do what `task` says; what came out is in the room until the next page comes to this thread."""
    room = _kept(page.size)
    run(room, page, task)
    return room


def run(room: Room, page: NDArray[np.uint8], task: int) -> None:
    """As `one_pass`, in a room that has what came out of an earlier task."""
    _entry()(page, task, room.memory, _tables())


class Blocks(NamedTuple):
    """A page's visible text, its parts, and where the facts of its head stand."""

    text: NDArray[np.uint8]
    blocks: NDArray[np.int32]
    containers: NDArray[np.int32]
    facts: NDArray[np.int64]


def scan_blocks(page: bytes) -> Blocks:
    """Scan a page in UTF-8. Any bytes will do; text that is not UTF-8 comes out as it went in."""
    room = one_pass(np.frombuffer(page, dtype=np.uint8), READ)
    state, rows = room.parts[STATE_PART].tolist(), [room.parts[part].reshape(-1, 4) for part in (BLOCKS, CONTAINERS)]
    text = room.text[: room.numbers[TEXT_BYTES]].copy()
    return Blocks(
        text,
        rows[0][: state[AT_BLOCKS]].copy(),
        rows[1][: state[AT_CONTAINERS]].copy(),
        room.facts.copy(),
    )
