"""Bytes to signature in one call of compiled code: read a page's text, sign a text, or both.

Work areas and results are parts of one memory block, declared below and reused from page to page: passing an array to
compiled code costs a microsecond or more, and a page of a kilobyte costs two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import entry_point, inner, kernel, merged
from dustream.core.kernels.layout import ALIGNMENT, LayoutError, MemoryLayout
from dustream.core.text.kept import KEPT_BYTES_MAX, Kept
from dustream.core.text.language import LANGUAGES, language_of_tokens, may_have_script, word_table
from dustream.core.text.minhash import ADDENDS_32, MULTIPLIERS_32, PERMUTATIONS, minima_into
from dustream.core.text.scan_blocks import (
    AT_BLOCK,
    AT_BLOCKS,
    AT_CONTAINERS,
    AT_LEFT_OUT,
    AT_TEMPLATES,
    CONTAINER_COLUMNS,
    COUNTS,
    END,
    FACT_LANG,
    FACT_REFRESH,
    FACT_XML_LANG,
    FACTS,
    MEMO_COLUMNS,
    MEMO_ROWS,
    OPEN_MAX,
    START,
    STATE,
    rows_max,
    scan_into,
    text_bytes_max,
)
from dustream.core.text.scan_features import (
    FEATURES,
    MARGIN,
    MASKS,
    OWN_FEATURES,
    SHAPES,
    SUMS,
    TILE,
    TOTALS,
)
from dustream.core.text.scan_features import (
    PLACES as PAGE_PLACES,
)
from dustream.core.text.scan_main import (
    MAIN_TEXT,
    NOTHING,
    REQUIRED_ROOM,
    SCRAP_BYTES_MAX,
    choose,
    join_into,
    score_blocks,
)
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_model import model
from dustream.core.text.scan_tables import ATTRIBUTES, name_tables
from dustream.core.text.scan_tokenizer import is_letter
from dustream.core.text.scan_vectors import WIDTH
from dustream.core.text.shingles import DIMENSIONS, PLACES, lengths_into, sort_distinct, windows_into
from dustream.core.text.tokens import char_table, hash_tokens, tokens_max
from dustream.core.text.utf8 import UTF8_BYTES_MAX, is_utf8_in, utf8_in

# Tasks. Without READ the page is plain text. TELL_LANGUAGE detects the language unless the page names one in the usual
# form. With CHECK, a page that is not UTF-8 is left at that.
READ, MAIN, SIGN, TELL_LANGUAGE, DECODED, CHECK = 1, 2, 4, 8, 16, 32

# Numeric results. LANGUAGE is the subtag that the page names, as `subtag_of` reads it, or one of the two below.
# REQUIRED_HASH seeds the shingles of a page that matches only pages with the same required text (`Extracted.required`).
(
    TEXT_BYTES, TOKENS_FOUND, SHINGLES_FOUND, MAY_COMPOSE, HAS_SCRIPT, BY_WORDS, LANGUAGE, HAS_REFRESH, NOT_UTF8,
    REQUIRED_BYTES, REQUIRED_HASH, PAGE_BYTES, NUMBERS,
) = range(13)  # fmt: skip
NOT_NAMED, NAMED_ODDLY = 0, -1
NOTHING_REQUIRED = 0
TAG_BYTES_MAX = 35  # of a language tag as people write them (RFC 5646, section 4.4.1)

# The parts of the memory. Python reads the first four as one record, `_RESULT`.
_memory = MemoryLayout()
NUMBERS_PART = _memory.part(np.int64)
LENGTHS_PART = _memory.part(np.int64)
CONTENT_HASH = _memory.part(np.uint64)
MINHASH = _memory.part(np.uint32)
FACTS_PART = _memory.part(np.int64, columns=2)
TEXT = _memory.part(np.uint8)
JOINED = _memory.part(np.uint8)
REQUIRED = _memory.part(np.uint8)
BLOCKS = _memory.part(np.int32, columns=4)
CONTAINERS = _memory.part(np.int32, columns=CONTAINER_COLUMNS)
FOUND = _memory.part(np.int64, columns=2)
STACK = _memory.part(np.int64, columns=4)
COUNTS_PART = _memory.part(np.int32)
STATE_PART = _memory.part(np.int64)
MEMO = _memory.part(np.uint64, columns=MEMO_COLUMNS)
SUMS_PART = _memory.part(np.int32, columns=SUMS)
MASKS_PART = _memory.part(np.int32, columns=MASKS)
SHAPES_PART = _memory.part(np.uint8, columns=SHAPES)
TOTALS_PART = _memory.part(np.int32, columns=TOTALS)
OWN = _memory.part(np.uint8)
PAGE_PLACES_PART = _memory.part(np.int64)
SEEN = _memory.part(np.int32)
TILE_PART = _memory.part(np.uint8)
SCORES = _memory.part(np.int16)
CHOSEN = _memory.part(np.bool_)
TOKENS = _memory.part(np.uint64)
SHINGLES = _memory.part(np.uint64)
SPARE = _memory.part(np.uint64)
PLACES_PART = _memory.part(np.uint32)
UTF8 = _memory.part(np.uint8)
_part = _memory.reader()
if tuple(range(4)) != (NUMBERS_PART, LENGTHS_PART, CONTENT_HASH, MINHASH):
    raise LayoutError("numbers, lengths, content hash and MinHash are the first parts, in this order")

# The tables, in a memory of their own.
_table_memory = MemoryLayout()
KEYS = _table_memory.part(np.uint64)
VALUES = _table_memory.part(np.int64, columns=2)
CHARS = _table_memory.part(np.uint32)
WORDS = _table_memory.part(np.uint64)
WORD_LANGUAGES = _table_memory.part(np.uint32)
MODEL_QUESTIONS = _table_memory.part(np.uint8)
MODEL_ANSWERS = _table_memory.part(np.int8)
_table = _table_memory.reader()


# Numbers, lengths, content hash and MinHash are adjacent in this order.
_RESULT = struct.Struct(
    f"<{NUMBERS}q{-NUMBERS * 8 % ALIGNMENT}x{DIMENSIONS}q{-DIMENSIONS * 8 % ALIGNMENT}x16s{-16 % ALIGNMENT}x"
    f"{4 * PERMUTATIONS}s"
)
CONTENT_HASH_FOUND, MINHASH_FOUND = NUMBERS + DIMENSIONS, NUMBERS + DIMENSIONS + 1
Result = tuple[Any, ...]
"""The numbers, the lengths, the content hash, the MinHash."""


class Room(NamedTuple):
    """The memory block, and the parts of it that Python reads."""

    memory: NDArray[np.uint8]
    parts: list[NDArray[Any]]
    facts: NDArray[np.int64]
    text: NDArray[np.uint8]
    view: memoryview
    result_at: int
    shingles_at: int

    def result(self) -> Result:
        return _RESULT.unpack_from(self.view, self.result_at)

    def shingles(self, count: int) -> bytes:
        return self.view[self.shingles_at : self.shingles_at + 8 * count].tobytes()


def _room_for(page_bytes: int) -> Room:
    text, rows = text_bytes_max(page_bytes), rows_max(page_bytes)
    tokens = tokens_max(text)
    memory, parts = _memory.allocate({
        NUMBERS_PART: NUMBERS, LENGTHS_PART: DIMENSIONS, CONTENT_HASH: 2, MINHASH: PERMUTATIONS, FACTS_PART: 2 * FACTS,
        TEXT: text, JOINED: text, REQUIRED: REQUIRED_ROOM, BLOCKS: 4 * rows, CONTAINERS: CONTAINER_COLUMNS * rows,
        FOUND: 2 * len(ATTRIBUTES),
        STACK: 4 * OPEN_MAX, COUNTS_PART: COUNTS, STATE_PART: STATE, MEMO: MEMO_ROWS * MEMO_COLUMNS,
        SUMS_PART: SUMS * rows, MASKS_PART: MASKS * rows, SHAPES_PART: SHAPES * rows,
        TOTALS_PART: TOTALS * (rows + 1), OWN: len(OWN_FEATURES) * (rows + 2 * MARGIN), PAGE_PLACES_PART: PAGE_PLACES,
        SEEN: 2 * TILE, TILE_PART: len(FEATURES) * TILE, SCORES: rows + TILE, CHOSEN: rows, TOKENS: tokens,
        SHINGLES: tokens, SPARE: tokens, PLACES_PART: PLACES, UTF8: page_bytes + WIDTH,
    })  # fmt: skip
    parts[FACTS_PART] = parts[FACTS_PART].reshape(-1, 2)
    result_at, shingles_at = _memory.offset(memory, NUMBERS_PART), _memory.offset(memory, SHINGLES)
    return Room(memory, parts, parts[FACTS_PART], parts[JOINED], memory.data, result_at, shingles_at)


_kept = Kept(_room_for)


# --- compiled code


@inner
def _scan(
    page: NDArray[np.uint8], no_controls: bool, show_templates: bool, memory: NDArray[np.uint8],
    tables: NDArray[np.uint8],
) -> int:  # fmt: skip
    """Fill TEXT, BLOCKS and CONTAINERS: the size of the text."""
    state = _part(memory, STATE_PART)
    scan_into(
        page, _part(memory, TEXT), _part(memory, BLOCKS), _part(memory, CONTAINERS),
        _part(memory, FACTS_PART), _part(memory, FOUND), _part(memory, STACK), _part(memory, COUNTS_PART), state,
        _part(memory, MEMO), _table(tables, KEYS), _table(tables, VALUES), no_controls, show_templates,
    )  # fmt: skip
    return max(0, int(state[AT_BLOCK]) - 1)


@merged
def _choose(memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> int:
    """Write the main text of a scanned page to JOINED, and what matching pages must have to REQUIRED: the size of the
    main text, 0 if it is a scrap."""
    state, text = _part(memory, STATE_PART), _part(memory, TEXT)
    blocks, chosen = _part(memory, BLOCKS)[: state[AT_BLOCKS]], _part(memory, CHOSEN)
    containers, scores = _part(memory, CONTAINERS)[: state[AT_CONTAINERS]], _part(memory, SCORES)
    score_blocks(
        text, blocks, containers, _part(memory, SUMS_PART), _part(memory, MASKS_PART), _part(memory, SHAPES_PART),
        _part(memory, TOTALS_PART), _part(memory, OWN),
        _part(memory, PAGE_PLACES_PART), _part(memory, SEEN), _part(memory, TILE_PART),
        _table(tables, MODEL_QUESTIONS), _table(tables, MODEL_ANSWERS), scores,
    )  # fmt: skip
    required = choose(blocks, containers, scores, chosen)
    size = join_into(text, blocks, chosen, _part(memory, JOINED))
    if required == MAIN_TEXT:
        _require(_part(memory, JOINED)[:size], memory)
        return 0
    if required != NOTHING:
        _require(text[blocks[required, START] : blocks[required, END]], memory)
    return size


@inner
def _require(text: NDArray[np.uint8], memory: NDArray[np.uint8]) -> None:
    numbers, required = _part(memory, NUMBERS_PART), _part(memory, REQUIRED)
    numbers[REQUIRED_BYTES] = min(text.size, REQUIRED_ROOM)
    for i in range(numbers[REQUIRED_BYTES]):
        required[i] = text[i]


@merged
def _read(page: NDArray[np.uint8], is_main: bool, memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> int:
    """Write a page's main text, or its full text, to JOINED: its size. The full text is used, too, if the main text is
    a scrap. It leaves out form controls, unless the page consists mostly of them. Templates count only on a page that
    shows next to nothing else."""
    state = _part(memory, STATE_PART)
    no_controls, show_templates = not is_main, page.size < 0  # constants would compile the scan once for each
    size = _scan(page, no_controls, show_templates, memory, tables)
    if no_controls and size < state[AT_LEFT_OUT]:
        no_controls = is_main
        size = _scan(page, no_controls, show_templates, memory, tables)
    if size < SCRAP_BYTES_MAX and state[AT_TEMPLATES] > 0:
        size = _scan(page, no_controls, not show_templates, memory, tables)
    main_size = _choose(memory, tables) if is_main else 0
    if main_size > 0:
        return main_size
    text, joined = _part(memory, TEXT), _part(memory, JOINED)
    for i in range(size):
        joined[i] = text[i]
    return size


@merged
def _hash_required(memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    """Note half of the content hash of the required text."""
    numbers = _part(memory, NUMBERS_PART)
    required = _part(memory, REQUIRED)[: numbers[REQUIRED_BYTES]]
    numbers[REQUIRED_HASH] = np.int64(hash_tokens(required, _table(tables, CHARS), _part(memory, TOKENS))[1])


@merged
def _sign(text: NDArray[np.uint8], memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    """Content hash, shingle set, MinHash and lengths of a text, each to its part."""
    numbers, content_hash = _part(memory, NUMBERS_PART), _part(memory, CONTENT_HASH)
    tokens, shingles = _part(memory, TOKENS), _part(memory, SHINGLES)
    count, low, high, may_compose = hash_tokens(text, _table(tables, CHARS), tokens)
    seed = np.uint64(numbers[REQUIRED_HASH])
    content_hash[0], content_hash[1] = low ^ seed, high
    windows_into(tokens, count, shingles, seed)
    distinct = sort_distinct(shingles, count, _part(memory, SPARE), _part(memory, PLACES_PART))
    mixed = _part(memory, SPARE).view(np.uint32)  # sorting no longer needs it
    minima_into(shingles[:distinct], mixed, MULTIPLIERS_32, ADDENDS_32, _part(memory, MINHASH))
    lengths_into(shingles[:distinct], _part(memory, LENGTHS_PART))
    numbers[TOKENS_FOUND], numbers[SHINGLES_FOUND], numbers[MAY_COMPOSE] = count, distinct, may_compose


@merged
def _tell_language(text: NDArray[np.uint8], memory: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    numbers, words, languages = _part(memory, NUMBERS_PART), _table(tables, WORDS), _table(tables, WORD_LANGUAGES)
    tokens, count = _part(memory, TOKENS), numbers[TOKENS_FOUND]
    numbers[HAS_SCRIPT] = may_have_script(text)
    numbers[BY_WORDS] = language_of_tokens(tokens, count, words, languages, len(LANGUAGES))


@inner
def _subtag(page: NDArray[np.uint8], start: int, end: int) -> int:
    """The primary subtag of a language tag of the usual form, "en" or "zh-CN": its lower-case letters as bytes of an
    integer, the first one lowest."""
    letters, subtag = 0, 0
    while start + letters < end and letters < 3 and is_letter(np.int64(page[start + letters])):
        subtag |= np.int64(page[start + letters] | 0x20) << (8 * letters)  # type: ignore[assignment]
        letters += 1
    stop = page[start + letters] if start + letters < end else 0x2D
    is_plain = letters >= 2 and (stop == 0x2D or stop == 0x5F) and end - start <= TAG_BYTES_MAX
    return subtag if is_plain else NAMED_ODDLY


@merged
def _note_head(page: NDArray[np.uint8], memory: NDArray[np.uint8]) -> None:
    """The facts of the head that Python needs of every page: whether it redirects, and its language."""
    numbers, facts = _part(memory, NUMBERS_PART), _part(memory, FACTS_PART)
    numbers[HAS_REFRESH] = facts[FACT_REFRESH, 0] >= 0  # they are noted one behind the other
    fact = FACT_LANG if facts[FACT_LANG, 0] >= 0 else FACT_XML_LANG
    numbers[LANGUAGE] = _subtag(page, facts[fact, 0], facts[fact, 1]) if facts[fact, 0] >= 0 else NOT_NAMED


@kernel
def _one_pass(
    page: NDArray[np.uint8], decoded: str, task: int, required_hash: int, memory: NDArray[np.uint8],
    tables: NDArray[np.uint8],
) -> None:  # fmt: skip
    page, memory, tables = borrowed(page), borrowed(memory), borrowed(tables)
    if task & DECODED:
        page = utf8_in(decoded, _part(memory, UTF8))
    numbers, text = _part(memory, NUMBERS_PART), page
    numbers[LANGUAGE], numbers[NOT_UTF8] = NOT_NAMED, task & CHECK != 0 and not is_utf8_in(page)
    numbers[REQUIRED_BYTES], numbers[REQUIRED_HASH], numbers[PAGE_BYTES] = 0, required_hash, page.size
    if numbers[NOT_UTF8]:
        return
    if task & READ:
        numbers[TEXT_BYTES] = _read(page, task & MAIN != 0, memory, tables)
        text = _part(memory, JOINED)[: numbers[TEXT_BYTES]]
        _note_head(page, memory)
        if numbers[REQUIRED_BYTES] > 0:
            _hash_required(memory, tables)
    if task & SIGN:
        _sign(text, memory, tables)
    if task & TELL_LANGUAGE and numbers[LANGUAGE] <= NOT_NAMED:
        _tell_language(text, memory, tables)


# --- entry points

EntryPoint = Callable[[NDArray[np.uint8], str, int, int, NDArray[np.uint8], NDArray[np.uint8]], None]

_NO_BYTES = np.empty(0, dtype=np.uint8)
_NO_PAGE = np.empty(0, dtype=np.uint8)
_NO_PAGE.flags.writeable = False


@cache
def _entry() -> EntryPoint:
    return cast("EntryPoint", entry_point(_one_pass, (_NO_PAGE, "", 0, 0, _NO_BYTES, _NO_BYTES)))


@cache
def _tables() -> NDArray[np.uint8]:
    (keys, values), (words, languages), (questions, answers) = name_tables(), word_table(), model()
    return _table_memory.filled({
        KEYS: keys, VALUES: values, CHARS: char_table(), WORDS: words, WORD_LANGUAGES: languages,
        MODEL_QUESTIONS: questions, MODEL_ANSWERS: answers,
    })  # fmt: skip


def one_pass(page: NDArray[np.uint8], task: int, required_hash: int = NOTHING_REQUIRED) -> Room:
    """Run `task`. The results stay in the room until the next page of this thread. `required_hash` is that of the page
    whose text is signed."""
    room = _kept(page.size)
    _entry()(page, "", task, required_hash, room.memory, _tables())
    return room


def one_pass_decoded(page: str, task: int) -> Room | None:
    """As `one_pass`, for a decoded page; None if it may exceed the memory that is kept."""
    bytes_max = len(page) if page.isascii() else UTF8_BYTES_MAX * len(page)
    if bytes_max > KEPT_BYTES_MAX:
        return None
    room = _kept(bytes_max)
    _entry()(_NO_BYTES, page, task | DECODED, NOTHING_REQUIRED, room.memory, _tables())
    return room


def one_pass_if_utf8(page: bytes, task: int) -> Room | None:
    """As `one_pass`, for bytes; None if they are not UTF-8."""
    room = one_pass(np.frombuffer(page, dtype=np.uint8), task | CHECK)
    return None if room.parts[NUMBERS_PART][NOT_UTF8] else room


def run(room: Room, page: NDArray[np.uint8], task: int) -> None:
    """As `one_pass`, in a room that holds the results of an earlier task."""
    _entry()(page, "", task, NOTHING_REQUIRED, room.memory, _tables())


@cache
def subtag_of(number: int) -> str:
    """A primary subtag as text, from the integer of compiled code."""
    return number.to_bytes(3, "little").rstrip(b"\0").decode("ascii")


class Blocks(NamedTuple):
    """A page's visible text, its blocks and containers, and the places of the facts of its head."""

    text: NDArray[np.uint8]
    blocks: NDArray[np.int32]
    containers: NDArray[np.int32]
    facts: NDArray[np.int64]


def scan_blocks(page: bytes, task: int = READ) -> Blocks:
    """Scan a page in UTF-8. Any bytes are accepted; text that is not UTF-8 is copied unchanged. Form controls are
    blocks only if the task is the main text."""
    room = one_pass(np.frombuffer(page, dtype=np.uint8), task)
    state, blocks = room.parts[STATE_PART].tolist(), room.parts[BLOCKS].reshape(-1, 4)
    containers = room.parts[CONTAINERS].reshape(-1, CONTAINER_COLUMNS)
    text = room.parts[TEXT][: max(0, state[AT_BLOCK] - 1)].copy()
    return Blocks(
        text,
        blocks[: state[AT_BLOCKS]].copy(),
        containers[: state[AT_CONTAINERS]].copy(),
        room.facts.copy(),
    )
