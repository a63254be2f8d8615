"""One pass over a page: its visible text, cut into blocks, and the tree of containers they stand in.

A block is a run of text that no block-level tag interrupts; it is one line of the text (more, where a line break or
preformatted text has them). Containers are the block-level elements in the order of their start tags, so a parent's
number is lower than its children's. Open elements are tracked as far as blocks need it (13.2.6): which end tag closes
which element, and which elements are closed without one. Misnested formatting elements are closed, not reopened.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inlined, inner, merged
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_references import put_reference
from dustream.core.text.scan_tables import (
    ATTRIBUTE,
    CONCEALED,
    KIND,
    NEGATION,
    TAG_DOMAIN,
    TAG_ID_SHIFT,
    TEMPLATE_TYPES,
    WORD_DOMAIN,
    mix,
    mix_word,
    name_hash,
    slot_of,
    word_hash,
)
from dustream.core.text.scan_tokenizer import (
    attributes,
    cdata_end,
    declaration_end,
    find,
    is_cdata,
    is_letter,
    is_space,
    last_word,
    raw_text_end,
    script_end,
    tag_name,
)
from dustream.core.text.scan_vectors import (
    ALL,
    LAST,
    WIDTH,
    WORD_BYTES,
    copy_vector,
    equal_mask,
    first_bit,
    mask_of,
    word_at,
)

OPEN_MAX = 512  # elements open at once, as in browsers; deeper ones are siblings
TAG_BYTES_MIN = 3  # each block and each container but the first takes a tag
WORDS_BYTES_MAX = 400  # of a class or id; the rest is ignored
COUNTS = 256  # of open elements, by the lowest bits of their names

# A cache row: weights, roles and length of a value, its last bytes, its whole words. Longer values are not cached.
MEMO_ROWS, MEMO_COLUMNS = 1024, 16
MEMO_BYTES_MAX = (MEMO_COLUMNS - 2) * 8 + 7
MEMO_LENGTHS, ROLES_MASK = (1 << 8) - 1, (1 << 24) - 1

BLOCK, VOID, RAW_TEXT = KIND["BLOCK"], KIND["VOID"], KIND["RAW_TEXT"]
SHOWN_RAW_TEXT, SCRIPT, TITLE, REFERENCED = KIND["SHOWN_RAW_TEXT"], KIND["SCRIPT"], KIND["TITLE"], KIND["REFERENCED"]
PLAINTEXT, HIDDEN, ANCHOR, LINE_BREAK = KIND["PLAINTEXT"], KIND["HIDDEN"], KIND["ANCHOR"], KIND["LINE_BREAK"]
HEADING, PARAGRAPH, LIST_ITEM, DESCRIPTION = KIND["HEADING"], KIND["PARAGRAPH"], KIND["LIST_ITEM"], KIND["DESCRIPTION"]
CELL, ROW, ROW_GROUP, TABLE, OPTION = KIND["CELL"], KIND["ROW"], KIND["ROW_GROUP"], KIND["TABLE"], KIND["OPTION"]
PREFORMATTED, FOREIGN, SCOPE, FORMATTING = KIND["PREFORMATTED"], KIND["FOREIGN"], KIND["SCOPE"], KIND["FORMATTING"]
CONTROL = KIND["CONTROL"]
SOFT, UNSTACKED, ROOT, META, LINK = KIND["SOFT"], KIND["UNSTACKED"], KIND["ROOT"], KIND["META"], KIND["LINK"]
BASE = KIND["BASE"]
TABLE_PARTS = CELL | ROW | ROW_GROUP
PARAGRAPH_SCOPE = SCOPE | CONTROL  # "in button scope"

CLASS, ID, ROLE_ATTRIBUTE, ITEMPROP = ATTRIBUTE["class"], ATTRIBUTE["id"], ATTRIBUTE["role"], ATTRIBUTE["itemprop"]
HREF, REL, LANG, XML_LANG = ATTRIBUTE["href"], ATTRIBUTE["rel"], ATTRIBUTE["lang"], ATTRIBUTE["xml:lang"]
HTTP_EQUIV, CONTENT, NAME, CHARSET = (
    ATTRIBUTE["http-equiv"], ATTRIBUTE["content"], ATTRIBUTE["name"], ATTRIBUTE["charset"],
)  # fmt: skip
HIDDEN_ATTRIBUTE, STYLE, TYPE = ATTRIBUTE["hidden"], ATTRIBUTE["style"], ATTRIBUTE["type"]

# Facts of the head: start and end in the page. The first few refreshes are noted, because one without a URL is ignored,
# and the first few robots, because the strictest counts.
REFRESHES_MAX = ROBOTS_MAX = 4
FACT_TITLE, FACT_LANG, FACT_XML_LANG, FACT_CANONICAL, FACT_BASE, FACT_CHARSET, FACT_CONTENT_TYPE, FACT_ROBOTS = range(8)
FACT_REFRESH = FACT_ROBOTS + ROBOTS_MAX
FACTS = FACT_REFRESH + REFRESHES_MAX

# Columns of the blocks (text range, bytes of it inside links, container), the containers and the stack.
START, END, LINK_BYTES, CONTAINER = range(4)
# WORDS is the sum of the weights of the words of a container's names; TAG is where its attributes start in the page.
PARENT, KINDS, ROLES, WORDS, DEPTH, TAG = range(6)
CONTAINER_COLUMNS = 6
STACK_NAME, STACK_KIND, STACK_CONTAINER, STACK_HIDDEN = range(4)

# The scan's own counters.
(
    AT_OUT, AT_BLOCK, AT_SPACE, AT_DEPTH, AT_BEYOND, AT_LINK, AT_LINK_BYTES, AT_CONTAINER, AT_HIDDEN, AT_PRE,
    AT_FOREIGN, AT_BLOCKS, AT_CONTAINERS, AT_REFRESHES, AT_NO_CONTROLS, AT_LEFT_OUT,
    AT_SHOW_TEMPLATES, AT_TEMPLATES, STATE,
) = range(19)  # fmt: skip
NO_SPACE, SPACE, NEW_LINE = range(3)
TAG_ROLES_MASK = (1 << TAG_ID_SHIFT) - 1

ORDINARY, BLANK, MARKUP, REFERENCE, NUL, LEAD_C2 = range(6)
_BYTE_CLASS = np.zeros(256, dtype=np.uint8)
_BYTE_CLASS[[0x20, 0x0A, 0x09, 0x0D, 0x0C]] = BLANK
_BYTE_CLASS[[0x3C, 0x26, 0x00, 0xC2]] = [MARKUP, REFERENCE, NUL, LEAD_C2]  # C2 A0 is a no-break space

_BLANKS = b" \n\t\r\f"
_blanks_mask = mask_of(_BLANKS)
_special_mask = mask_of(b"<&\0\xc2")

_REFRESH, _ROBOTS = word_hash("refresh", WORD_DOMAIN), word_hash("robots", WORD_DOMAIN)
_CONTENT_TYPE = word_hash("content-type", WORD_DOMAIN)
_CANONICAL, _NONE = word_hash("canonical", WORD_DOMAIN), word_hash("none", WORD_DOMAIN)
_PARAGRAPH_NAME = name_hash("p", TAG_DOMAIN)
_TEMPLATE_HASHES = np.array([word_hash(name, WORD_DOMAIN) for name in TEMPLATE_TYPES], dtype=np.uint64)


# --- words of attribute values


@inner
def _lower_hash(page: NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """The hash of a whole value as one word, without blanks around it."""
    h = np.uint64(WORD_DOMAIN)
    for at in range(start, min(end, start + WORDS_BYTES_MAX)):
        byte = np.int64(page[at])
        if not is_space(byte):
            h = mix(h, byte | 0x20 if 0x41 <= byte <= 0x5A else byte)
    return h


@inner
def _has_word(page: NDArray[np.uint8], start: int, end: int, word: np.uint64) -> bool:
    """Whether one of the value's blank-separated words is this one."""
    while start < end:
        stop = start
        while stop < end and not is_space(np.int64(page[stop])):
            stop += 1
        if _lower_hash(page, start, stop) == word:
            return True
        start = stop + 1
    return False


@inner
def word_roles(
    page: NDArray[np.uint8], start: int, end: int, keys: NDArray[np.uint64], values: NDArray[np.int64]
) -> tuple[int, int]:
    """(roles named by the words of a class, the sum of their weights). A class is cut at blanks, signs and capitals
    ("siteNav", "main-menu"). Only whole words count: the "ad" of a random "4fad71" does not."""
    page, keys, values = borrowed(page), borrowed(keys), borrowed(values)
    roles, of_name, is_negated, weights = np.int64(0), np.int64(0), False, np.int64(0)
    end = min(end, start + WORDS_BYTES_MAX)
    h, size, was_lower = np.uint64(WORD_DOMAIN), 0, False
    for at in range(start, end + 1):
        byte = np.int64(page[at]) if at < end else np.int64(0x20)
        is_capital = 0x41 <= byte <= 0x5A
        is_part = is_letter(byte) or 0x30 <= byte <= 0x39
        if size > 0 and (not is_part or (is_capital and was_lower)):
            slot = slot_of(keys, h)
            if slot >= 0:
                is_negated |= values[slot, 0] == NEGATION
                of_name |= values[slot, 0]
                weights += values[slot, 1]
            h, size = np.uint64(WORD_DOMAIN), 0
        if is_part:
            h = mix(h, byte | 0x20)
            size += 1
        elif is_space(byte):
            roles |= 0 if is_negated else of_name
            of_name, is_negated = np.int64(0), False
        was_lower = is_letter(byte) and not is_capital
    return roles & ~NEGATION, weights  # type: ignore[return-value]


@inner
def _known_roles(
    page: NDArray[np.uint8], start: int, end: int, memo: NDArray[np.uint64], keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> tuple[int, int]:  # fmt: skip
    """As `word_roles`, cached by value: a site has few values, each on many tags. A row of the cache holds the whole
    value, so that it cannot match another one."""
    length, whole = end - start, (end - start) // WORD_BYTES
    if length > MEMO_BYTES_MAX:
        return word_roles(page, start, end, keys, values)
    tail = last_word(page, np.uint64(start + whole * WORD_BYTES), np.uint64(length - whole * WORD_BYTES))
    h = mix_word(np.uint64(length), tail)
    for i in range(whole):
        h = mix_word(h, word_at(page, np.uint64(start + i * WORD_BYTES)))
    row = np.int64(h & np.uint64(MEMO_ROWS - 1))
    is_known = memo[row, 0] & np.uint64(MEMO_LENGTHS) == np.uint64(length + 1) and memo[row, 1] == tail
    for i in range(whole):
        is_known &= memo[row, 2 + i] == word_at(page, np.uint64(start + i * WORD_BYTES))
    if is_known:
        found = np.int64(memo[row, 0])
        return (found >> 8) & ROLES_MASK, found >> 32  # type: ignore[return-value]
    roles, weights = word_roles(page, start, end, keys, values)
    memo[row, 0] = np.uint64(weights << 32 | roles << 8 | (length + 1))
    memo[row, 1] = tail
    for i in range(whole):
        memo[row, 2 + i] = word_at(page, np.uint64(start + i * WORD_BYTES))
    return roles, weights


@inner
def _is_display_none(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether a style says display: none."""
    none = np.uint64(_NONE)
    at = start
    while at + 11 < end:
        is_display = (page[at] | 0x20) == 0x64 and (page[at + 3] | 0x20) == 0x70 and (page[at + 6] | 0x20) == 0x79
        if is_display and (page[at + 1] | 0x20) == 0x69:
            value = at + 7
            while value < end and (page[value] == 0x3A or is_space(np.int64(page[value]))):
                value += 1
            return bool(_lower_hash(page, value, min(end, value + 4)) == none)
        at += 1
    return False


# --- text


@inner
def _put_space(text: NDArray[np.uint8], out: int, block: int, space: int) -> int:
    if out > block and text[out - 1] != 0x0A:
        text[out] = 0x0A if space == NEW_LINE else 0x20
        return out + 1
    return out


@inner
def _put_preformatted(page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], out: int, block: int) -> int:
    """A blank of preformatted text. Lines end in one "\\n"; blanks at the block's start are dropped."""
    byte = page[at]
    if out == block or (byte == 0x0D and at + 1 < page.size and page[at + 1] == 0x0A):
        return out
    text[out] = 0x0A if byte == 0x0A or byte == 0x0D else 0x20
    return out + 1


@inlined
def _behind_blanks(page: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the next byte that is not a blank stands."""
    start, stop = np.uint64(at), np.uint64(end)
    while start + np.uint64(WIDTH) <= stop:
        others = _blanks_mask(page, start) ^ np.uint64(ALL)
        if others:
            return np.int64(start + first_bit(others))  # type: ignore[return-value]
        start += np.uint64(WIDTH)
    while start < stop and _BYTE_CLASS[page[start]] == BLANK:
        start += np.uint64(1)
    return np.int64(start)  # type: ignore[return-value]


@inlined
def _copy_ordinary(
    page: NDArray[np.uint8], at: int, end: int, is_pre: bool, text: NDArray[np.uint8], out: int
) -> tuple[int, int]:
    """Copy ordinary text, with single blanks as spaces: (where it ends, where the copy ends). In preformatted text,
    only spaces are such blanks."""
    start, stop, place = np.uint64(at), np.uint64(end), np.uint64(out)
    no_lines = np.uint64(ALL) if is_pre else np.uint64(0)
    while start + np.uint64(WIDTH) <= stop:
        special, blanks = _special_mask(page, start), equal_mask(page, start, np.uint8(0x20))
        lines = copy_vector(page, start, text, place)
        special |= lines & no_lines
        blanks |= lines
        # The last blank may be followed by another; then it is not single.
        ends = special | (blanks & ((special | blanks) >> np.uint64(1) | np.uint64(LAST)))
        if ends:
            length = first_bit(ends)
            return np.int64(start + length), np.int64(place + length)  # type: ignore[return-value]
        start += np.uint64(WIDTH)
        place += np.uint64(WIDTH)
    while start < stop and _BYTE_CLASS[page[start]] == ORDINARY:
        text[place] = page[start]
        start += np.uint64(1)
        place += np.uint64(1)
    return np.int64(start), np.int64(place)  # type: ignore[return-value]


@inlined
def _copy_text(
    page: NDArray[np.uint8],
    at: int,
    end: int,
    is_raw: bool,
    has_references: bool,
    text: NDArray[np.uint8],
    state: NDArray[np.int64],
    keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> int:
    """Append text up to the next "<" (raw: up to `end`), blanks collapsed, references resolved."""
    page, text, state, keys, values = borrowed(page), borrowed(text), borrowed(state), borrowed(keys), borrowed(values)
    out, space, block, is_pre = state[AT_OUT], state[AT_SPACE], state[AT_BLOCK], state[AT_PRE] > 0
    first = out
    while at < end:
        byte = page[at]
        kind = _BYTE_CLASS[byte]
        if kind == BLANK or (kind == LEAD_C2 and at + 1 < end and page[at + 1] == 0xA0):
            if is_pre:
                out = _put_preformatted(page, at, text, out, block)
            elif space == NO_SPACE:
                space = SPACE
            at += 1 + (kind == LEAD_C2)
            if not is_pre:
                at = _behind_blanks(page, at, end)
            continue
        if kind == MARKUP and not is_raw:
            break
        if kind == NUL:
            at += 1
            continue
        before, space_before = out, space
        if space != NO_SPACE:
            out = _put_space(text, out, block, space)
            space = NO_SPACE
        if kind == REFERENCE and has_references:
            char = out
            at, out = put_reference(page, at, end, text, out, False, keys, values)
            is_blank = _BYTE_CLASS[text[char]] == BLANK
            if is_blank or (out - char == 2 and text[char] == 0xC2 and text[char + 1] == 0xA0):
                out, space = before, max(space_before, SPACE)
            continue
        text[out] = byte
        at, out = _copy_ordinary(page, at + 1, end, is_pre, text, out + 1)
    if state[AT_LINK] > 0:
        state[AT_LINK_BYTES] += out - first
    state[AT_OUT], state[AT_SPACE] = out, space
    return at


@inlined
def _end_block(text: NDArray[np.uint8], blocks: NDArray[np.int32], state: NDArray[np.int64]) -> None:
    """The text written since the last block's end, if any, becomes a block. There is room for one more."""
    text, blocks, state = borrowed(text), borrowed(blocks), borrowed(state)
    first, out = state[AT_BLOCK], state[AT_OUT]
    while out > first and is_space(np.int64(text[out - 1])):
        out -= 1
    if out > first:
        row = state[AT_BLOCKS]
        blocks[row, START], blocks[row, END] = first, out
        blocks[row, LINK_BYTES], blocks[row, CONTAINER] = min(state[AT_LINK_BYTES], out - first), state[AT_CONTAINER]
        state[AT_BLOCKS] += 1
        text[out] = 0x0A
        state[AT_BLOCK] = out + 1
    state[AT_OUT] = state[AT_BLOCK]
    state[AT_LINK_BYTES] = 0
    state[AT_SPACE] = NO_SPACE


# --- open elements


@inlined
def _pop(to: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
    """Close open elements until `to` are left."""
    depth = state[AT_DEPTH]
    while depth > to:
        depth -= 1
        kind = stack[depth, STACK_KIND]
        counts[stack[depth, STACK_NAME] & 255] -= 1
        state[AT_HIDDEN] -= stack[depth, STACK_HIDDEN]
        state[AT_PRE] -= (kind & PREFORMATTED) != 0
        state[AT_FOREIGN] -= (kind & FOREIGN) != 0
        state[AT_CONTAINER] = stack[depth, STACK_CONTAINER]
    if state[AT_LINK] > depth:
        state[AT_LINK] = 0
    state[AT_DEPTH] = depth
    state[AT_BEYOND] = 0


@inlined
def _pop_last(last: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
    """As `_pop`, for the innermost element only; none is open beyond the stack."""
    kind = stack[last, STACK_KIND]
    counts[stack[last, STACK_NAME] & 255] -= 1
    state[AT_HIDDEN] -= stack[last, STACK_HIDDEN]
    state[AT_PRE] -= (kind & PREFORMATTED) != 0
    state[AT_FOREIGN] -= (kind & FOREIGN) != 0
    state[AT_CONTAINER] = stack[last, STACK_CONTAINER]
    state[AT_LINK] = 0 if state[AT_LINK] > last else state[AT_LINK]
    state[AT_DEPTH] = last


@inlined
def _push(
    name: np.uint64, kind: int, is_hidden: bool, stack: NDArray[np.int64], state: NDArray[np.int64],
    counts: NDArray[np.int32], container: int,
) -> None:  # fmt: skip
    depth = state[AT_DEPTH]
    if depth == OPEN_MAX:
        state[AT_BEYOND] += 1
        return
    stack[depth, STACK_NAME], stack[depth, STACK_KIND] = np.int64(name), kind
    stack[depth, STACK_CONTAINER], stack[depth, STACK_HIDDEN] = state[AT_CONTAINER], is_hidden
    counts[np.int64(name) & 255] += 1
    state[AT_HIDDEN] += is_hidden
    state[AT_PRE] += (kind & PREFORMATTED) != 0
    state[AT_FOREIGN] += (kind & FOREIGN) != 0
    state[AT_CONTAINER] = container
    state[AT_DEPTH] = depth + 1


@inner
def _take_out(at: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
    """Close one inline element and leave open what was opened inside ("adoption agency")."""
    counts[stack[at, STACK_NAME] & 255] -= 1
    state[AT_HIDDEN] -= stack[at, STACK_HIDDEN]
    for i in range(at, state[AT_DEPTH] - 1):
        for j in range(stack.shape[1]):
            stack[i, j] = stack[i + 1, j]
    state[AT_DEPTH] -= 1
    state[AT_LINK] = 0 if state[AT_LINK] == at + 1 else state[AT_LINK] - (state[AT_LINK] > at + 1)


@inner
def _close_nearest(
    kinds: int, barrier: int, soft: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]
) -> None:
    """Close the nearest open element of these kinds, unless one of the barrier's kinds (soft ones aside) is nearer."""
    stack, state, counts = borrowed(stack), borrowed(state), borrowed(counts)
    at = state[AT_DEPTH] - 1
    while at >= 0 and not stack[at, STACK_KIND] & kinds:
        if stack[at, STACK_KIND] & barrier and not stack[at, STACK_KIND] & soft:
            return
        at -= 1
    if at >= 0:
        _pop(at, stack, state, counts)


@inlined
def _close_implied(kind: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
    """Close the elements that the start tag of a block closes implicitly."""
    stack, state, counts = borrowed(stack), borrowed(state), borrowed(counts)
    kinds, barrier, soft = kind & (LIST_ITEM | DESCRIPTION | CELL | ROW | ROW_GROUP | OPTION), BLOCK | SCOPE, 0
    if kinds & (LIST_ITEM | DESCRIPTION):
        soft = SOFT
    elif kinds:
        barrier = TABLE | (ROW if kinds & CELL else kinds & 0)
    if kinds:
        _close_nearest(kinds, barrier, soft, stack, state, counts)
    kinds, barrier, soft = PARAGRAPH | kinds & 0, PARAGRAPH_SCOPE | kinds & 0, kinds & 0
    if counts[np.int64(np.uint64(_PARAGRAPH_NAME) & np.uint64(255))] > 0:
        _close_nearest(kinds, barrier, soft, stack, state, counts)


@inlined
def _find_open(name: np.uint64, kind: int, stack: NDArray[np.int64], depth: int) -> int:
    """Where the open element stands that this end tag closes; -1 if there is none in scope."""
    barrier = SCOPE
    if kind & (TABLE | HIDDEN):
        barrier = 0
    elif kind & TABLE_PARTS:
        barrier = TABLE
    elif not kind & (BLOCK | FORMATTING):
        barrier = SCOPE | BLOCK
    elif kind & PARAGRAPH:
        barrier = PARAGRAPH_SCOPE
    at = depth - 1
    while at >= 0 and stack[at, STACK_NAME] != np.int64(name):
        if stack[at, STACK_KIND] & barrier and not kind & stack[at, STACK_KIND] & HEADING:
            return -1
        at -= 1
    return at


@inlined
def _close(
    name: np.uint64, kind: int, stack: NDArray[np.int64], state: NDArray[np.int64], counts: NDArray[np.int32]
) -> None:
    """An end tag."""
    if state[AT_BEYOND] > 0:
        state[AT_BEYOND] -= 1
        return
    if kind & HEADING:  # closes the nearest heading, of whatever rank
        _close_nearest(kind & HEADING, SCOPE | kind & 0, kind & 0, stack, state, counts)
        return
    if counts[np.int64(name & np.uint64(255))] == 0:
        return
    at = _find_open(name, kind, stack, state[AT_DEPTH])
    if at < 0:
        return
    if kind & FORMATTING:
        for i in range(at + 1, state[AT_DEPTH]):
            if stack[i, STACK_KIND] & BLOCK:
                _take_out(at, stack, state, counts)
                return
    _pop(at, stack, state, counts)


# --- tags


@inlined
def _note_fact(facts: NDArray[np.int64], fact: int, start: int, end: int) -> None:
    if facts[fact, 0] < 0:
        facts[fact, 0], facts[fact, 1] = start, end


@inner
def _note_robots(facts: NDArray[np.int64], start: int, end: int) -> None:
    for fact in range(FACT_ROBOTS, FACT_ROBOTS + ROBOTS_MAX):
        if facts[fact, 0] < 0:
            facts[fact, 0], facts[fact, 1] = start, end
            return


@inlined
def _note_meta(
    page: NDArray[np.uint8], present: int, found: NDArray[np.int64], facts: NDArray[np.int64], state: NDArray[np.int64]
) -> None:
    if present >> CHARSET & 1:
        _note_fact(facts, FACT_CHARSET, found[CHARSET, 0], found[CHARSET, 1])
    if not present >> CONTENT & 1:
        return
    start, end = found[CONTENT, 0], found[CONTENT, 1]
    if present >> NAME & 1 and _lower_hash(page, found[NAME, 0], found[NAME, 1]) == np.uint64(_ROBOTS):
        _note_robots(facts, start, end)
    if not present >> HTTP_EQUIV & 1:
        return
    equivalent = _lower_hash(page, found[HTTP_EQUIV, 0], found[HTTP_EQUIV, 1])
    if equivalent == np.uint64(_CONTENT_TYPE):
        _note_fact(facts, FACT_CONTENT_TYPE, start, end)
    elif equivalent == np.uint64(_REFRESH) and state[AT_REFRESHES] < REFRESHES_MAX:
        _note_fact(facts, FACT_REFRESH + state[AT_REFRESHES], start, end)
        state[AT_REFRESHES] += 1


@inlined
def _note_facts(
    page: NDArray[np.uint8], kind: int, present: int, found: NDArray[np.int64], facts: NDArray[np.int64],
    state: NDArray[np.int64],
) -> None:  # fmt: skip
    """Note the facts of html, link, base and meta tags."""
    if kind & META:
        _note_meta(page, present, found, facts, state)
    elif kind & LINK and present >> REL & 1 and present >> HREF & 1:
        if _has_word(page, found[REL, 0], found[REL, 1], np.uint64(_CANONICAL)):
            _note_fact(facts, FACT_CANONICAL, found[HREF, 0], found[HREF, 1])
    elif kind & BASE and present >> HREF & 1:
        _note_fact(facts, FACT_BASE, found[HREF, 0], found[HREF, 1])
    elif kind & ROOT:
        if present >> LANG & 1:
            _note_fact(facts, FACT_LANG, found[LANG, 0], found[LANG, 1])
        if present >> XML_LANG & 1:
            _note_fact(facts, FACT_XML_LANG, found[XML_LANG, 0], found[XML_LANG, 1])


@inlined
def _roles(
    page: NDArray[np.uint8], present: int, found: NDArray[np.int64], memo: NDArray[np.uint64],
    keys: NDArray[np.uint64], values: NDArray[np.int64],
) -> tuple[int, int]:  # fmt: skip
    """(roles, weights) of the words of classes. An id counts only as a whole, because ids of headings are made of the
    words of their text."""
    roles, weights = np.int64(0), np.int64(0)
    if present >> ID & 1:
        slot = slot_of(keys, _lower_hash(page, found[ID, 0], found[ID, 1]))
        if slot >= 0:
            roles, weights = values[slot, 0] & ~NEGATION, values[slot, 1]
    for attribute in (CLASS, ROLE_ATTRIBUTE, ITEMPROP):
        if present >> attribute & 1:
            of_words, their_weights = _known_roles(page, found[attribute, 0], found[attribute, 1], memo, keys, values)
            roles |= of_words
            weights += their_weights
    if present >> STYLE & 1 and _is_display_none(page, found[STYLE, 0], found[STYLE, 1]):
        roles |= CONCEALED
    return roles, weights  # type: ignore[return-value]


@inlined
def _add_container(
    kind: int, roles: int, weights: int, tag: int, containers: NDArray[np.int32], state: NDArray[np.int64]
) -> int:
    """There is room for one more."""
    row, parent = state[AT_CONTAINERS], state[AT_CONTAINER]
    containers[row, PARENT], containers[row, KINDS], containers[row, ROLES] = parent, kind, roles
    containers[row, WORDS], containers[row, DEPTH], containers[row, TAG] = weights, state[AT_DEPTH], tag
    state[AT_CONTAINERS] += 1
    return int(row)


@inlined
def _raw_text(
    page: NDArray[np.uint8], at: int, name: np.uint64, kind: int, text: NDArray[np.uint8], state: NDArray[np.int64],
    facts: NDArray[np.int64], keys: NDArray[np.uint64], values: NDArray[np.int64],
) -> int:  # fmt: skip
    """Past the content of a raw text element, up to its end tag; shown if readers see it."""
    if kind & SCRIPT:
        end = script_end(page, at, name)
    else:
        end = page.size if kind & PLAINTEXT else raw_text_end(page, at, name)
    if kind & TITLE:
        _note_fact(facts, FACT_TITLE, at, end)
    if kind & SHOWN_RAW_TEXT and state[AT_HIDDEN] == 0:
        _copy_text(page, at, end, at < end, kind & REFERENCED != 0, text, state, keys, values)
    return end


@inner
def _is_template_type(page: NDArray[np.uint8], start: int, end: int) -> bool:
    h, is_known = _lower_hash(page, start, end), False
    for known in _TEMPLATE_HASHES:
        is_known |= h == known
    return is_known


@inlined
def _open(
    page: NDArray[np.uint8], tag: int, name: np.uint64, kind: int, roles: int, present: int, text: NDArray[np.uint8],
    blocks: NDArray[np.int32], containers: NDArray[np.int32], found: NDArray[np.int64], stack: NDArray[np.int64],
    counts: NDArray[np.int32], state: NDArray[np.int64], memo: NDArray[np.uint64], keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> None:  # fmt: skip
    """The start tag of an element that may contain something."""
    is_hidden = kind & (HIDDEN | TITLE) != 0 or present >> HIDDEN_ATTRIBUTE & 1 != 0
    is_hidden |= kind & CONTROL != 0 and state[AT_NO_CONTROLS] > 0
    container = state[AT_CONTAINER]
    if kind & BLOCK:
        _end_block(text, blocks, state)
        _close_implied(kind, stack, state, counts)
        of_words, weights = _roles(page, present, found, memo, keys, values)
        container = _add_container(kind, roles | of_words, weights, tag, containers, state)
    elif kind & ANCHOR and state[AT_LINK] > 0:
        _take_out(state[AT_LINK] - 1, stack, state, counts)
    _push(name, kind, is_hidden, stack, state, counts, container)
    if kind & ANCHOR and present >> HREF & 1 and state[AT_BEYOND] == 0:
        # A heading that links to itself does not count as a link.
        start = found[HREF, 0]
        is_own = containers[container, KINDS] & HEADING and start < found[HREF, 1] and page[start] == 0x23
        state[AT_LINK] = 0 if is_own else state[AT_DEPTH]


@merged
def _start_tag(
    page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], blocks: NDArray[np.int32], containers: NDArray[np.int32],
    facts: NDArray[np.int64], found: NDArray[np.int64], stack: NDArray[np.int64], counts: NDArray[np.int32],
    state: NDArray[np.int64], memo: NDArray[np.uint64], keys: NDArray[np.uint64], values: NDArray[np.int64],
) -> int:  # fmt: skip
    name, tag = tag_name(page, at + 1)
    at, present, slash = tag, 0, False
    if at < page.size and page[at] == 0x3E:
        at += 1
    else:
        at, present, slash = attributes(page, at, found, keys, values)
    if at > page.size:
        return page.size  # not closed: no tag
    slot = slot_of(keys, name)
    kind, roles = (values[slot, 0], values[slot, 1] & TAG_ROLES_MASK) if slot >= 0 else (0, 0)
    if kind & (META | LINK | BASE | ROOT):
        _note_facts(page, kind, present, found, facts, state)
    if kind & LINE_BREAK:
        state[AT_SPACE] = NEW_LINE
    if kind & (VOID | UNSTACKED) or (slash and state[AT_FOREIGN] > 0):
        if kind & BLOCK:
            _end_block(text, blocks, state)
        return at
    if kind & SCRIPT and present >> TYPE & 1 and _is_template_type(page, found[TYPE, 0], found[TYPE, 1]):
        state[AT_TEMPLATES] += 1
        kind = np.int64(BLOCK) if state[AT_SHOW_TEMPLATES] > 0 else kind
    is_raw = kind & RAW_TEXT and not (kind & TITLE and state[AT_FOREIGN] > 0)
    if not is_raw or kind & SHOWN_RAW_TEXT:
        _open(
            page,
            tag,
            name,
            kind,
            roles,
            present,
            text,
            blocks,
            containers,
            found,
            stack,
            counts,
            state,
            memo,
            keys,
            values,
        )
    if is_raw:
        return _raw_text(page, at, name, kind, text, state, facts, keys, values)
    return at


@merged
def _end_tag(
    page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], blocks: NDArray[np.int32], found: NDArray[np.int64],
    stack: NDArray[np.int64], counts: NDArray[np.int32], state: NDArray[np.int64], keys: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> int:  # fmt: skip
    name, at = tag_name(page, at + 2)
    at = attributes(page, at, found, keys, values)[0] if at < page.size and page[at] != 0x3E else at + 1
    if at > page.size:
        return page.size
    last = state[AT_DEPTH] - 1
    if last >= 0 and stack[last, STACK_NAME] == np.int64(name) and state[AT_BEYOND] == 0:
        # Nine of ten end tags close the innermost element, whose kind is on the stack: no other rule applies.
        if stack[last, STACK_KIND] & BLOCK:
            _end_block(text, blocks, state)
        _pop_last(last, stack, state, counts)
        return at
    slot = slot_of(keys, name)
    kind = values[slot, 0] if slot >= 0 else 0
    if kind & LINE_BREAK:
        state[AT_SPACE] = NEW_LINE
    if kind & BLOCK:
        _end_block(text, blocks, state)
    if not kind & (VOID | UNSTACKED):
        _close(name, kind, stack, state, counts)
    return at


@merged
def _step(
    page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], blocks: NDArray[np.int32], containers: NDArray[np.int32],
    facts: NDArray[np.int64], found: NDArray[np.int64], stack: NDArray[np.int64], counts: NDArray[np.int32],
    state: NDArray[np.int64], memo: NDArray[np.uint64], keys: NDArray[np.uint64], values: NDArray[np.int64],
) -> int:  # fmt: skip
    """One stretch of text or one piece of markup; adds at most one block and one container."""
    size = page.size
    is_text, end, behind = page[at] != 0x3C, size, 0
    following = np.int64(page[at + 1]) if at + 1 < size else np.int64(0)
    if not is_text:
        if is_letter(following):
            return _start_tag(
                page, at, text, blocks, containers, facts, found, stack, counts, state, memo, keys, values
            )
        if following == 0x2F and at + 2 < size:
            if is_letter(np.int64(page[at + 2])):
                return _end_tag(page, at, text, blocks, found, stack, counts, state, keys, values)
            return find(page, at, np.int64(0x3E)) + 1
        end = at + 1  # a "<" that is text, unless it starts a tag
        if following == 0x21 and state[AT_FOREIGN] > 0 and is_cdata(page, at):
            at += 9
            end, behind = cdata_end(page, at), 3
        elif following == 0x21 or following == 0x3F:
            return declaration_end(page, at)
    if state[AT_HIDDEN] > 0:
        following_at = find(page, at, np.int64(0x3C)) if is_text else end + behind
        state[AT_LEFT_OUT] += following_at - at
        return following_at
    if is_text and _BYTE_CLASS[page[at]] == BLANK and state[AT_PRE] == 0:  # the most common case
        state[AT_SPACE] = max(state[AT_SPACE], SPACE)
        return _behind_blanks(page, at, end)
    return _copy_text(page, at, end, not is_text, is_text, text, state, keys, values) + behind


@merged
def scan_into(
    page: NDArray[np.uint8], text: NDArray[np.uint8], blocks: NDArray[np.int32], containers: NDArray[np.int32],
    facts: NDArray[np.int64], found: NDArray[np.int64], stack: NDArray[np.int64], counts: NDArray[np.int32],
    state: NDArray[np.int64], memo: NDArray[np.uint64], keys: NDArray[np.uint64], values: NDArray[np.int64],
    no_controls: bool, show_templates: bool,
) -> None:  # fmt: skip
    """Scan a page into arrays that are large enough; `state` has the number of items in each. On request form controls
    are left out, and the markup in scripts that are templates is read as part of the page."""
    page, text, blocks, containers = borrowed(page), borrowed(text), borrowed(blocks), borrowed(containers)
    facts, found, stack, counts = borrowed(facts), borrowed(found), borrowed(stack), borrowed(counts)
    state, memo, keys, values = borrowed(state), borrowed(memo), borrowed(keys), borrowed(values)
    for i in range(FACTS):
        facts[i, 0] = facts[i, 1] = -1
    for i in range(counts.size):
        counts[i] = 0
    for i in range(STATE):
        state[i] = 0
    state[AT_NO_CONTROLS], state[AT_SHOW_TEMPLATES] = no_controls, show_templates
    at = state[AT_OUT]
    _add_container(at, at, at, at, containers, state)
    containers[0, PARENT] = -1
    while at < page.size:
        at = _step(page, at, text, blocks, containers, facts, found, stack, counts, state, memo, keys, values)
    _end_block(text, blocks, state)


def text_bytes_max(page_bytes: int) -> int:
    """Of the text of a page: "&nGt;" is five bytes and stands for six."""
    return page_bytes * 6 // 5 + 64


def rows_max(page_bytes: int) -> int:
    """Blocks or containers of a page."""
    return page_bytes // TAG_BYTES_MIN + 3
