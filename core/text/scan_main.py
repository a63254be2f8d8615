"""The choice of main text: the blocks with high enough scores (scan_features, scan_model)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner
from dustream.core.text.main_model import SCALE
from dustream.core.text.scan_blocks import CONTAINER, END, KINDS, LINK_BYTES, START
from dustream.core.text.scan_features import TILE, TOP_HEADING, count_blocks, describe_tile, find_places, sum_up
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_model import score_tile

# Blocks from this score on are main text. Where no block reaches it, as on pages without prose, blocks not far below
# the best one are.
SCORE_MIN = SCALE // 2
BELOW_BEST_MAX = 3 * SCALE
# Blocks between two blocks of main text have a lower limit. A change elsewhere on the page, which moves scores a
# little, then puts fewer of them in or out.
BETWEEN_MAX = 5 * SCALE // 4

# A shorter main text, and a smaller share of the visible text, is a scrap: it does not represent the page.
SCRAP_BYTES_MAX = 200
SCRAP_SHARE_MAX = 0.05
# A main text with a larger share in links may be a menu.
MENU_LINKS_MIN = 0.8

# What other pages must have, too, to match the page: nothing, its main text, or the block of this number.
NOTHING, MAIN_TEXT = -1, -2
REQUIRED_ROOM = 3 * SCRAP_BYTES_MAX  # for a scrap with a line break behind each byte, and the beginning of a headline


@inner
def score_blocks(
    text: NDArray[np.uint8], blocks: NDArray[np.int32], containers: NDArray[np.int32], sums: NDArray[np.int32],
    masks: NDArray[np.int32], shapes: NDArray[np.uint8], totals: NDArray[np.int32], own: NDArray[np.uint8],
    places: NDArray[np.int64], seen: NDArray[np.int32], tile: NDArray[np.uint8], questions: NDArray[np.uint8],
    answers: NDArray[np.int8], scores: NDArray[np.int16],
) -> None:  # fmt: skip
    """The score of each block, in 1 / SCALE of a logit. `scores` has room for a whole last tile."""
    count_blocks(text, blocks, containers, sums, totals, own)
    sum_up(containers, sums, masks, shapes)
    find_places(blocks, own, sums, places, tile)
    for start in range(0, blocks.shape[0], TILE):
        describe_tile(start, blocks, containers, sums, masks, shapes, totals, own, places, seen, tile)
        score_tile(tile, questions, answers, scores[start : start + TILE])


@inner
def choose(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], scores: NDArray[np.int16], chosen: NDArray[np.bool_]
) -> int:
    """Write to `chosen` whether each block is main text: what other pages must have, too, to match the page."""
    blocks, containers, scores, chosen = borrowed(blocks), borrowed(containers), borrowed(scores), borrowed(chosen)
    count = blocks.shape[0]
    least = np.int64(SCORE_MIN)
    if count > 0:
        highest = np.int64(scores[0])
        for i in range(1, count):
            highest = max(highest, np.int64(scores[i]))
        least = min(least, highest - BELOW_BEST_MAX)
    _choose_runs(scores, least, chosen, count)
    first, main_bytes, link_bytes, visible_bytes = -1, 0, 0, 0
    for i in range(count):
        length = blocks[i, END] - blocks[i, START]
        first = i if chosen[i] and first < 0 else first
        main_bytes += length if chosen[i] else 0
        link_bytes += blocks[i, LINK_BYTES] if chosen[i] else 0
        visible_bytes += length
    headline = _headline(blocks, containers, first)
    if headline >= 0:
        chosen[headline] = True
    if main_bytes < SCRAP_BYTES_MAX and main_bytes < SCRAP_SHARE_MAX * visible_bytes:
        return MAIN_TEXT
    if link_bytes > MENU_LINKS_MIN * main_bytes:
        return _first_headline(blocks, containers, count)
    return NOTHING


@inner
def _choose_runs(scores: NDArray[np.int16], least: np.int64, chosen: NDArray[np.bool_], count: int) -> None:
    """Choose the blocks with high enough scores, and runs between two of them in which none is far below."""
    between = -1  # where a run of these starts
    for i in range(count):
        chosen[i] = scores[i] >= least
        if not chosen[i]:
            between = between if scores[i] >= least - BETWEEN_MAX else -1
            continue
        if between >= 0:
            for j in range(between, i):
                chosen[j] = True
        between = i + 1


@inner
def _headline(blocks: NDArray[np.int32], containers: NDArray[np.int32], first: int) -> int:
    """The last h1 before the main text; -1 if there is none.

    It counts wherever it stands, even in a separate header, so that two layouts of an article give the same text.
    """
    for i in range(first - 1, -1, -1):
        if containers[blocks[i, CONTAINER], KINDS] & TOP_HEADING:
            return i
    return -1


@inner
def _first_headline(blocks: NDArray[np.int32], containers: NDArray[np.int32], count: int) -> int:
    """The first h1 of the page; NOTHING if there is none."""
    for i in range(count):
        if containers[blocks[i, CONTAINER], KINDS] & TOP_HEADING:
            return i
    return NOTHING


@inner
def join_into(
    text: NDArray[np.uint8], blocks: NDArray[np.int32], chosen: NDArray[np.bool_], joined: NDArray[np.uint8]
) -> int:
    """Write the chosen blocks, a line each, to `joined`, which has room for the text: their size."""
    text, blocks, chosen, joined = borrowed(text), borrowed(blocks), borrowed(chosen), borrowed(joined)
    out = np.uint64(0)  # unsigned: the compiler then copies whole vectors
    for i in range(blocks.shape[0]):
        if chosen[i]:
            first, length = np.uint64(blocks[i, START]), np.uint64(blocks[i, END] - blocks[i, START])
            for j in range(length):
                joined[out + np.uint64(j)] = text[first + np.uint64(j)]
            joined[out + length] = 0x0A
            out += length + np.uint64(1)
    return max(np.int64(0), np.int64(out) - np.int64(1))  # type: ignore[return-value]
