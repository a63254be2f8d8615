"""Features of each block of a page: small integers for the model of main text.

All features are integers below LEVELS, so that a page has the same features on any machine: lengths and distances by
logarithm, shares in sixteenths. They describe a block's own text, the containers around it, its neighbours and its
place in the page. A *paragraph* is a block of prose: of some length, with a sentence end, with few links. The *best*
container is the one with the most paragraphs in it or a level or two below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inlined, inner
from dustream.core.text.scan_blocks import CONTAINER, DEPTH, END, KINDS, LINK_BYTES, PARENT, ROLES, START, WORDS
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_tables import FIRST_WEIGHT, KIND, ROLE, Int
from dustream.core.text.scan_vectors import ALL, WIDTH, bits_in, mask_of

LEVELS = 32  # every feature is smaller
SHARES = 16
LOG_MAX = LEVELS - 1

# Characters are counted in the first bytes of a block only.
SAMPLE_BYTES = 128

PARAGRAPH_BYTES_MIN = 60
PARAGRAPH_LINK_SHARE_MAX = 0.35
# The weight of a paragraph in the score of its container, of the next one up, and of the one above that.
NEARNESS = (12, 8, 5)
PARAGRAPH_BYTES_MAX = 1 << 16

HEADING, TOP_HEADING, SECOND_HEADING = KIND["HEADING"], KIND["TOP_HEADING"], KIND["SECOND_HEADING"]
LEAF = KIND["PARAGRAPH"] | KIND["LIST_ITEM"] | KIND["DESCRIPTION"] | HEADING | KIND["PREFORMATTED"] | KIND["CELL"]

# Kinds of a block, the first that matches. The first three are headings.
_BLOCK_KINDS = (
    TOP_HEADING, SECOND_HEADING, HEADING, KIND["PARAGRAPH"], KIND["LIST_ITEM"], KIND["DESCRIPTION"], KIND["CELL"],
    KIND["PREFORMATTED"], KIND["CONTROL"] | KIND["OPTION"],
)  # fmt: skip
HEADING_KINDS = 3

# Columns of the sums of each container, with all containers inside it; and the steps down to the best one from the
# innermost container around both.
BYTES, LINKED, IN_PARAGRAPHS, BLOCKS, SCORE, DOWN = range(6)
SUMS = 8
# Columns of the path of a container: roles and kinds of it and of all around it; the weights of words further up.
PATH_ROLES, PATH_KINDS, FAR_WORDS = range(3)
MASKS = 4
SHAPES = 8  # columns of the containers' own features
# Columns of the totals of all blocks before one.
TOTAL_BYTES, TOTAL_LINKED, TOTAL_IN_PARAGRAPHS = range(3)
TOTALS = 4

WINDOW_BLOCKS = 3  # on either side
PATH_SEEN = (
    "BOILERPLATE", "FOOTER", "NAVIGATION", "ASIDE", "ARTICLE", "MAIN", "COMMENT", "BYLINE", "RELATED", "CAPTION",
    "FORM", "LIST", "SHARE", "SECTION", "CONCEALED",
)  # fmt: skip
KINDS_SEEN = ("TABLE", "LIST_ITEM", "DESCRIPTION")

OWN_FEATURES = ("length", "link_share", "kind", "last_char", "first_char", "sentence_ends")
LINK_SHARE, BLOCK_KIND = 1, 2
PLACE_FEATURES = ("bytes_before", "heading_before", "heading_level", "top_heading", "down", "depth")
PAGE_FEATURES = ("page_links", "page_prose")
# Of the container of a block and of the three around it.
AROUND_FEATURES = (
    "c0_links", "c0_block_bytes", "c1_links", "c1_of_page", "c1_of_page_prose", "c2_links", "c2_of_page",
    "c2_of_page_prose", "c2_block_bytes", "c3_of_page",
)  # fmt: skip
WORD_FEATURES = ("words_near", "words_far", "words")
WINDOW_FEATURES = ("w3_links", "w3_prose")
NEIGHBOURS = (-2, -1, 1, 2)  # how many blocks behind
FEATURES = (
    *OWN_FEATURES,
    *PLACE_FEATURES,
    *PAGE_FEATURES,
    *AROUND_FEATURES,
    *WORD_FEATURES,
    *WINDOW_FEATURES,
    *(f"n{offset}_link_share" for offset in NEIGHBOURS),
    *(f"path_{role.lower()}" for role in PATH_SEEN),
    *(f"in_{kind.lower()}" for kind in KINDS_SEEN),
)
PLACE = len(OWN_FEATURES)
PAGE = PLACE + len(PLACE_FEATURES)
AROUND = PAGE + len(PAGE_FEATURES)
WINDOW = AROUND + len(AROUND_FEATURES) + len(WORD_FEATURES)
NEIGHBOUR = WINDOW + len(WINDOW_FEATURES)
PATH = NEIGHBOUR + len(NEIGHBOURS)
INSIDE = PATH + len(PATH_SEEN)
PATH_BITS = tuple(ROLE[name] for name in PATH_SEEN)
KIND_BITS = tuple(KIND[name] for name in KINDS_SEEN)
MISSING = LEVELS - 1
HALF_WEIGHT = FIRST_WEIGHT // 2
WORDS_NONE = LEVELS // 2  # words without weight; a step is a quarter of a logit

# Features of so many blocks at a time are computed, one column per feature, as the model reads them.
TILE = 32
MARGIN = TILE  # places before the first and behind the last block in the columns of own features

# EF leads the full-width forms, which are mostly commas of Chinese and Japanese.
_commas, _ends = mask_of(b",;\xef"), mask_of(b".!?")


def _log_table() -> NDArray[np.uint8]:
    """Half octaves: 0, 1, 2, 3 | 4–5, 6–7 | 8–11 …"""
    table = np.zeros(1 << 12, dtype=np.uint8)
    for value in range(1, table.size):
        exponent = value.bit_length() - 1
        half = (value >> (exponent - 1)) & 1 if exponent else 0
        table[value] = min(LOG_MAX, 2 * exponent + half + 1 if exponent else 1)
    return table


_LOGS = _log_table()
_LOG_BITS = 12


@inner
def log_of(value: Int) -> int:
    """Half octaves of a number, at most LOG_MAX."""
    if value < (1 << _LOG_BITS):
        return int(_LOGS[value])
    if value < (1 << (2 * _LOG_BITS)):
        return min(LOG_MAX, int(_LOGS[value >> 10]) + 20)
    return LOG_MAX


@inner
def share_of(part: Int, whole: Int) -> int:
    """A share in sixteenths, 0 to 16; 0 if the whole is empty."""
    return int(SHARES * part / whole) if whole > 0 else 0


@inlined
def _count_ends(text: NDArray[np.uint8], start: int, end: int, own: NDArray[np.uint8], at: int) -> bool:
    """Count sentence ends at a block's start: whether it may be prose. The text has room for a vector behind it."""
    ends = commas = np.uint64(0)
    place, stop = np.uint64(start), np.uint64(min(end, start + SAMPLE_BYTES))
    while place < stop:
        seen = np.uint64(ALL)
        if stop - place < np.uint64(WIDTH):
            seen = (np.uint64(1) << (stop - place)) - np.uint64(1)
        commas |= _commas(text, place) & seen
        ends += bits_in(_ends(text, place) & seen)
        place += np.uint64(WIDTH)
    own[at] = min(np.uint64(LOG_MAX), ends)
    return bool(commas | ends)


@inner
def _is_paragraph(length: int, linked: int, kind: int, may_be_prose: bool) -> bool:
    is_prose = length >= PARAGRAPH_BYTES_MIN and linked <= PARAGRAPH_LINK_SHARE_MAX * length
    return bool(is_prose and may_be_prose and not kind & HEADING)


# What a block ends with, or begins with.
_CHAR_CLASS = np.zeros(256, dtype=np.uint8)
for _class, _some in enumerate(
    (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789", b".!?", b":", b",;", b"\"')]}"), 1
):
    _CHAR_CLASS[list(_some)] = _class
_CHAR_CLASS[0x80:] = 8
_SENTENCE_END, _CLOSING = 4, 7


@inner
def _last_class(text: NDArray[np.uint8], start: int, end: int) -> int:
    """The class of the last character, closing quotes and brackets aside."""
    if end - start >= 3 and text[end - 1] >= 0x80:
        a, b, c = text[end - 3], text[end - 2], text[end - 1]
        if (a == 0xE3 and b == 0x80 and c == 0x82) or (a == 0xEF and b == 0xBC and (c == 0x81 or c == 0x9F)):
            return _SENTENCE_END
        return int(_CHAR_CLASS[c])
    found = int(_CHAR_CLASS[text[end - 1]])
    if found == _CLOSING and end - start >= 2 and _CHAR_CLASS[text[end - 2]] == _SENTENCE_END:
        return _SENTENCE_END
    return found


@inner
def _kind_of(kind: int) -> int:
    for i in range(len(_BLOCK_KINDS)):
        if kind & _BLOCK_KINDS[i]:
            return i
    return len(_BLOCK_KINDS)


@inlined
def _describe_own(
    text: NDArray[np.uint8], start: int, end: int, linked: int, kind: int, own: NDArray[np.uint8], at: int, stride: int
) -> bool:
    """The features of a block's own text, to place `at` of each column: whether it may be prose."""
    own[at] = log_of(end - start)
    own[at + LINK_SHARE * stride] = share_of(linked, end - start)
    own[at + BLOCK_KIND * stride] = _kind_of(kind)
    own[at + 3 * stride] = _last_class(text, start, end)
    own[at + 4 * stride] = _CHAR_CLASS[text[start]]
    return _count_ends(text, start, end, own, at + 5 * stride)


@inner
def _add_paragraph(
    containers: NDArray[np.int32], container: int, kind: int, length: int, sums: NDArray[np.int32]
) -> None:
    sums[container, IN_PARAGRAPHS] += length
    around = containers[container, PARENT] if kind & LEAF and container > 0 else container
    for nearness in NEARNESS:
        if around >= 0:
            sums[around, SCORE] += nearness * min(length, PARAGRAPH_BYTES_MAX) // 64
            around = containers[around, PARENT]


@inner
def count_blocks(
    text: NDArray[np.uint8], blocks: NDArray[np.int32], containers: NDArray[np.int32], sums: NDArray[np.int32],
    totals: NDArray[np.int32], own: NDArray[np.uint8],
) -> None:  # fmt: skip
    """The blocks' own features, the totals before each, and the sums of each container without those inside it."""
    text, blocks, containers, sums = borrowed(text), borrowed(blocks), borrowed(containers), borrowed(sums)
    totals, own = borrowed(totals), borrowed(own)
    count = blocks.shape[0]
    stride = count + 2 * MARGIN
    for i in range(containers.shape[0]):
        for j in range(SUMS):
            sums[i, j] = 0
    for i in range(len(OWN_FEATURES)):
        for j in range(MARGIN):
            own[i * stride + j] = own[(i + 1) * stride - 1 - j] = MISSING
    totals[0, TOTAL_BYTES] = totals[0, TOTAL_LINKED] = totals[0, TOTAL_IN_PARAGRAPHS] = 0
    for i in range(count):
        start, end, linked, container = blocks[i, START], blocks[i, END], blocks[i, LINK_BYTES], blocks[i, CONTAINER]
        kind = containers[container, KINDS]
        may_be_prose = _describe_own(text, start, end, linked, kind, own, MARGIN + i, stride)
        sums[container, BYTES] += end - start
        sums[container, LINKED] += linked
        sums[container, BLOCKS] += 1
        is_paragraph = _is_paragraph(end - start, linked, kind, may_be_prose)
        if is_paragraph:
            _add_paragraph(containers, container, kind, end - start, sums)
        totals[i + 1, TOTAL_BYTES] = totals[i, TOTAL_BYTES] + (end - start)
        totals[i + 1, TOTAL_LINKED] = totals[i, TOTAL_LINKED] + linked
        totals[i + 1, TOTAL_IN_PARAGRAPHS] = totals[i, TOTAL_IN_PARAGRAPHS] + (end - start if is_paragraph else 0)


@inlined
def _words_level(weights: Int) -> int:
    """Weights are eighths of a logit; two of them are a step."""
    return int(min(LEVELS - 1, max(0, ((weights + 1) >> 1) + WORDS_NONE)))


@inlined
def _describe_container(
    sums: NDArray[np.int32], i: int, of_page: float, of_page_prose: float, near: Int, far: Int,
    shapes: NDArray[np.uint8],
) -> None:  # fmt: skip
    size, prose = sums[i, BYTES], sums[i, IN_PARAGRAPHS]
    shapes[i, 0], shapes[i, 1] = share_of(sums[i, LINKED], size), np.int64(of_page * size)
    shapes[i, 2], shapes[i, 3] = np.int64(of_page_prose * prose), max(0, log_of(size) - log_of(sums[i, BLOCKS]))
    # Both sums have two weights for each word. Near words count by the first, words further up by the second.
    near = (near + HALF_WEIGHT) // FIRST_WEIGHT
    far = ((far + HALF_WEIGHT) & (FIRST_WEIGHT - 1)) - HALF_WEIGHT
    shapes[i, 4], shapes[i, 5], shapes[i, 6] = _words_level(near), _words_level(far), _words_level(near + far)


@inlined
def _around(container: np.uint64, containers: NDArray[np.int32]) -> np.uint64:
    """The parent of a container; the root is its own parent."""
    return np.uint64(max(np.int32(0), containers[container, PARENT]))


@inner
def sum_up(
    containers: NDArray[np.int32], sums: NDArray[np.int32], masks: NDArray[np.int32], shapes: NDArray[np.uint8]
) -> None:
    """The sums of each container, its distance from the best one, the roles on its path, and its features."""
    containers, sums, masks, shapes = borrowed(containers), borrowed(sums), borrowed(masks), borrowed(shapes)
    best = 0
    for i in range(containers.shape[0] - 1, 0, -1):
        parent = containers[i, PARENT]
        for j in range(SCORE):
            sums[parent, j] += sums[i, j]
        best = i if sums[i, SCORE] >= sums[best, SCORE] else best
        sums[i, DOWN] = -1
    down = 0
    while best >= 0:
        sums[best, DOWN] = down
        best, down = containers[best, PARENT], down + 1
    of_page = SHARES / max(np.int32(1), sums[0, BYTES])
    of_page_prose = SHARES / max(np.int32(1), sums[0, IN_PARAGRAPHS])
    for i in range(containers.shape[0]):
        parent, near, far = containers[i, PARENT], containers[i, WORDS], np.int64(0)
        masks[i, PATH_ROLES], masks[i, PATH_KINDS] = containers[i, ROLES], containers[i, KINDS]
        if parent >= 0:
            grandparent = max(np.int32(0), containers[parent, PARENT])
            further = max(np.int32(0), containers[grandparent, PARENT])
            near += containers[parent, WORDS] + containers[grandparent, WORDS]
            far = masks[parent, FAR_WORDS] + containers[further, WORDS]
            masks[i, PATH_ROLES] |= masks[parent, PATH_ROLES]
            masks[i, PATH_KINDS] |= masks[parent, PATH_KINDS]
            if sums[i, DOWN] < 0:
                sums[i, DOWN] = sums[parent, DOWN]
        masks[i, FAR_WORDS] = far
        if sums[i, BYTES] > 0:
            _describe_container(sums, i, of_page, of_page_prose, near, far, shapes)


# Places in a page: those of the whole page, and those found so far, which go on from tile to tile.
TOP, LAST_HEADING, HEADING_LEVEL, PLACES = range(4)


@inner
def find_places(
    blocks: NDArray[np.int32], own: NDArray[np.uint8], sums: NDArray[np.int32], places: NDArray[np.int64],
    tile: NDArray[np.uint8],
) -> None:  # fmt: skip
    """Find the page's first h1, and write the features of the page as a whole."""
    count = blocks.shape[0]
    kinds = MARGIN + BLOCK_KIND * (count + 2 * MARGIN)
    top = 0
    while top < count and own[kinds + top] != 0:
        top += 1
    places[TOP], places[LAST_HEADING], places[HEADING_LEVEL] = top if top < count else -1, -1, 0
    links, prose = share_of(sums[0, LINKED], sums[0, BYTES]), share_of(sums[0, IN_PARAGRAPHS], sums[0, BYTES])
    for at in range(PAGE * TILE, (PAGE + 1) * TILE):
        tile[at], tile[at + TILE] = links, prose


@inlined
def _describe_place(
    i: int, lane: np.uint64, container: np.uint64, containers: NDArray[np.int32], sums: NDArray[np.int32],
    totals: NDArray[np.int32], places: NDArray[np.int64], of_bytes: float, tile: NDArray[np.uint8],
) -> None:  # fmt: skip
    top = places[TOP]
    from_top = MISSING
    if top >= 0:
        from_top = 15 - min(15, log_of(top - i)) if i <= top else min(30, 15 + log_of(i - top))
    at = np.uint64(PLACE * TILE) + lane
    tile[at] = np.int64(of_bytes * totals[np.uint64(i), TOTAL_BYTES])
    tile[at + np.uint64(TILE)] = log_of(i - places[LAST_HEADING]) if places[LAST_HEADING] >= 0 else MISSING
    tile[at + np.uint64(2 * TILE)], tile[at + np.uint64(3 * TILE)] = places[HEADING_LEVEL], from_top
    tile[at + np.uint64(4 * TILE)] = min(np.int32(LOG_MAX), sums[container, DOWN])
    tile[at + np.uint64(5 * TILE)] = min(np.int32(LOG_MAX), containers[container, DEPTH])


@inlined
def _describe_around(
    lane: np.uint64, container: np.uint64, containers: NDArray[np.int32], shapes: NDArray[np.uint8],
    tile: NDArray[np.uint8],
) -> None:  # fmt: skip
    """The containers around a block."""
    at = np.uint64(AROUND * TILE) + lane
    words = at + np.uint64(len(AROUND_FEATURES) * TILE)
    tile[at], tile[at + np.uint64(TILE)] = shapes[container, 0], shapes[container, 3]
    for j in range(len(WORD_FEATURES)):
        tile[words + np.uint64(j * TILE)] = shapes[container, 4 + j]
    container = _around(container, containers)
    for j in range(3):
        tile[at + np.uint64((2 + j) * TILE)] = shapes[container, j]
    container = _around(container, containers)
    for j in range(4):
        tile[at + np.uint64((5 + j) * TILE)] = shapes[container, j]
    container = _around(container, containers)
    tile[at + np.uint64(9 * TILE)] = shapes[container, 1]


@inlined
def _describe_window(i: int, lane: np.uint64, count: int, totals: NDArray[np.int32], tile: NDArray[np.uint8]) -> None:
    """The blocks around a block."""
    at = np.uint64(WINDOW * TILE) + lane
    low, high = np.uint64(max(0, i - WINDOW_BLOCKS)), np.uint64(min(count, i + WINDOW_BLOCKS + 1))
    size = totals[high, TOTAL_BYTES] - totals[low, TOTAL_BYTES]
    tile[at] = share_of(totals[high, TOTAL_LINKED] - totals[low, TOTAL_LINKED], size)
    tile[at + np.uint64(TILE)] = log_of(totals[high, TOTAL_IN_PARAGRAPHS] - totals[low, TOTAL_IN_PARAGRAPHS])


@inner
def _describe_masks(
    start: int, stop: int, blocks: NDArray[np.int32], masks: NDArray[np.int32], seen: NDArray[np.int32],
    tile: NDArray[np.uint8],
) -> None:  # fmt: skip
    """The features that are bits of a mask, each for the whole tile at once. `seen` has room for the masks."""
    for i in range(start, stop):
        container, lane = blocks[i, CONTAINER], np.uint64(i - start)
        seen[lane] = masks[container, PATH_ROLES]
        seen[lane + np.uint64(TILE)] = masks[container, PATH_KINDS]
    for j in range(len(PATH_SEEN)):
        _describe_bit(seen, 0, np.int32(PATH_BITS[j]), PATH + j, tile)
    for j in range(len(KINDS_SEEN)):
        _describe_bit(seen, TILE, np.int32(KIND_BITS[j]), INSIDE + j, tile)


@inlined
def _describe_bit(seen: NDArray[np.int32], first: int, bit: np.int32, feature: int, tile: NDArray[np.uint8]) -> None:
    source, target = np.uint64(first), np.uint64(feature * TILE)
    for lane in range(np.uint64(TILE)):
        tile[target + lane] = np.uint8(seen[source + lane] & bit != 0)


@inner
def describe_tile(
    start: int, blocks: NDArray[np.int32], containers: NDArray[np.int32], sums: NDArray[np.int32],
    masks: NDArray[np.int32], shapes: NDArray[np.uint8], totals: NDArray[np.int32], own: NDArray[np.uint8],
    places: NDArray[np.int64], seen: NDArray[np.int32], tile: NDArray[np.uint8],
) -> None:  # fmt: skip
    """The features of the blocks from `start` on, as many as a tile has."""
    blocks, containers, sums, masks = borrowed(blocks), borrowed(containers), borrowed(sums), borrowed(masks)
    shapes, totals, own = borrowed(shapes), borrowed(totals), borrowed(own)
    places, seen, tile = borrowed(places), borrowed(seen), borrowed(tile)
    count = blocks.shape[0]
    stop, stride = min(count, start + TILE), count + 2 * MARGIN
    for j in range(len(OWN_FEATURES)):
        for lane in range(np.uint64(TILE)):
            tile[np.uint64(j * TILE) + lane] = own[np.uint64(j * stride + MARGIN + start) + lane]
    for number in range(len(NEIGHBOURS)):
        at = np.uint64((NEIGHBOUR + number) * TILE)
        source = np.uint64(LINK_SHARE * stride + MARGIN + start + NEIGHBOURS[number])
        for lane in range(np.uint64(TILE)):
            tile[at + lane] = own[source + lane]
    of_bytes = SHARES / max(np.int32(1), sums[0, BYTES])
    for i in range(start, stop):
        in_tile, container = np.uint64(i - start), np.uint64(blocks[np.uint64(i), CONTAINER])
        _describe_place(i, in_tile, container, containers, sums, totals, places, of_bytes, tile)
        _describe_around(in_tile, container, containers, shapes, tile)
        _describe_window(i, in_tile, count, totals, tile)
        kind = own[BLOCK_KIND * stride + MARGIN + i]
        if kind < HEADING_KINDS:
            places[LAST_HEADING], places[HEADING_LEVEL] = i, kind + 1
    _describe_masks(start, stop, blocks, masks, seen, tile)
