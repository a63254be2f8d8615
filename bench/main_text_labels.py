"""Blocks of pages with their features and labels, for learning and judging the model of main text."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from main_text_truth import ARTICLES, MARK, SEGMENTS, Truth, marked, plain
from numba import njit

from dustream.core.text.encoding import decode_to_utf8
from dustream.core.text.one_pass import MAIN, READ, Blocks, scan_blocks
from dustream.core.text.scan_blocks import CONTAINER, END, KINDS, START, TAG, WORDS, WORDS_BYTES_MAX
from dustream.core.text.scan_features import (
    FEATURES,
    MARGIN,
    MASKS,
    OWN_FEATURES,
    PLACES,
    SHAPES,
    SUMS,
    TILE,
    TOP_HEADING,
    TOTALS,
    count_blocks,
    describe_tile,
    find_places,
    sum_up,
)
from dustream.core.text.scan_main import MAIN_TEXT, choose
from dustream.core.text.scan_vectors import WIDTH
from dustream.core.text.tokens import explain_tokens

UNKNOWN, LEFT, KEPT = -1, 0, 1
SHORT_TOKENS = 4  # a block with fewer is known by its whole line
INSIDE_SHARE_MIN, OUTSIDE_SHARE_MAX = 0.7, 0.2
SEGMENT_CHARS_MIN = 20


class Described(NamedTuple):
    """A page's blocks: their text, the words of their containers, and labels by people and by other extractors."""

    texts: list[str]
    found: Blocks
    words: list[list[str]]  # of each container's class, id, role and itemprop
    labels: np.ndarray
    agreed: np.ndarray


@njit
def _describe(text: Any, blocks: Any, containers: Any) -> Any:
    """The features of each block, as the compiled pass computes them tile by tile."""
    count, around = blocks.shape[0], containers.shape[0]
    masks, sums = np.zeros((around, MASKS), dtype=np.int32), np.zeros((around, SUMS), dtype=np.int32)
    shapes = np.zeros((around, SHAPES), dtype=np.uint8)
    totals = np.zeros((count + 1, TOTALS), dtype=np.int32)
    own = np.zeros(len(OWN_FEATURES) * (count + 2 * MARGIN), dtype=np.uint8)
    places, tile = np.zeros(PLACES, dtype=np.int64), np.zeros(len(FEATURES) * TILE, dtype=np.uint8)
    seen = np.zeros(2 * TILE, dtype=np.int32)
    rows = np.zeros((count, len(FEATURES)), dtype=np.uint8)
    count_blocks(text, blocks, containers, sums, totals, own)
    sum_up(containers, sums, masks, shapes)
    find_places(blocks, own, sums, places, tile)
    for start in range(0, count, TILE):
        describe_tile(start, blocks, containers, sums, masks, shapes, totals, own, places, seen, tile)
        for i in range(start, min(count, start + TILE)):
            for j in range(len(FEATURES)):
                rows[i, j] = tile[j * TILE + i - start]
    return rows


def rows_of(found: Blocks, words: np.ndarray) -> np.ndarray:
    """The features of each block, where the words of the containers have these weights."""
    containers = found.containers.copy()
    containers[:, WORDS] = words
    text = np.concatenate([found.text, np.zeros(WIDTH, dtype=np.uint8)])
    return _describe(text, found.blocks, containers)


_NAMES = re.compile(rb"""\s(class|id|role|itemprop)\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.I)
_WORD = re.compile(r"(?:[A-Z0-9]|[a-z](?![A-Z]))*[A-Za-z0-9]")


def container_words(page: bytes, found: Blocks) -> list[list[str]]:
    """The words of each container's names, cut as the scanner cuts them; an id is a word as a whole."""
    words: list[list[str]] = []
    for start in found.containers[:, TAG].tolist():
        names = dict(reversed([(n.lower(), v) for n, v in _NAMES.findall(page[start : page.find(b">", start)])]))
        texts = {
            name: value.strip(b"\"'").decode("utf-8", "replace")[:WORDS_BYTES_MAX] for name, value in names.items()
        }
        whole = "".join(texts.pop(b"id", "").lower().split())
        found_words = [word.lower() for value in texts.values() for word in _WORD.findall(value)]
        words.append([*found_words, whole] if whole else found_words)
    return words


@njit
def _choose(blocks: Any, containers: Any, scores: Any) -> Any:
    chosen = np.zeros(blocks.shape[0], dtype=np.bool_)
    if choose(blocks, containers, scores, chosen) == MAIN_TEXT:
        chosen[:] = True
    return chosen


def chosen_of(page: Described, scores: np.ndarray) -> np.ndarray:
    """Which blocks are compared by their scores: those of the main text, or all if it is a scrap."""
    return _choose(page.found.blocks, page.found.containers, scores)


def block_texts(found: Blocks) -> list[str]:
    data = found.text.tobytes()
    return [plain(data[start:end].decode("utf-8", "replace")) for start, end in found.blocks[:, [START, END]].tolist()]


def described(truth: Truth, peers: list[str]) -> Described:
    """A page as the scanner sees it. `peers` are the main texts other extractors found, if they were asked."""
    page = decode_to_utf8(truth.page, None)
    found = scan_blocks(page, READ | MAIN)
    words = container_words(bytes(page), found)
    texts = block_texts(found)
    is_top = (found.containers[found.blocks[:, CONTAINER], KINDS] & TOP_HEADING) != 0
    agreed = np.full(len(texts), UNKNOWN)
    if peers:
        sides = np.array([_inside(texts, peer) for peer in peers])
        agreed = np.where((sides == KEPT).all(0), KEPT, np.where((sides == LEFT).all(0), LEFT, UNKNOWN))
    return Described(texts, found, words, _labels(truth, texts, is_top), agreed)


def _labels(truth: Truth, texts: list[str], is_top: np.ndarray) -> np.ndarray:
    if truth.collection == SEGMENTS:
        return _by_segments(truth, texts)
    if truth.collection == ARTICLES:  # of which people left out the headline
        return np.where(is_top, UNKNOWN, _inside(texts, truth.body))
    return _by_body(truth, texts) if truth.body else np.full(len(texts), UNKNOWN)


def _by_segments(truth: Truth, texts: list[str]) -> np.ndarray:
    labels = np.full(len(texts), UNKNOWN)
    for segments, label in ((truth.kept, KEPT), (truth.left, LEFT)):
        for segment in map(plain, segments):
            for i, text in enumerate(texts):
                if segment in text or (len(text) >= SEGMENT_CHARS_MIN and text in segment):
                    labels[i] = label
    return labels


def _inside(texts: list[str], body: str) -> np.ndarray:
    """Which blocks are in a text, by their shingles; short ones by whole lines."""
    words = explain_tokens(body)
    known = {tuple(words[i : i + SHORT_TOKENS]) for i in range(len(words))}
    lines, whole = {plain(line) for line in body.splitlines()}, f" {' '.join(words)} "
    labels = np.full(len(texts), UNKNOWN)
    for i, text in enumerate(texts):
        tokens = explain_tokens(text)
        if len(tokens) < SHORT_TOKENS:
            is_there = f" {' '.join(tokens)} " in whole
            labels[i] = KEPT if text in lines else UNKNOWN if is_there else LEFT
            continue
        shingles = [tuple(tokens[j : j + SHORT_TOKENS]) for j in range(len(tokens) - SHORT_TOKENS + 1)]
        share = sum(shingle in known for shingle in shingles) / len(shingles)
        labels[i] = KEPT if share >= INSIDE_SHARE_MIN else LEFT if share <= OUTSIDE_SHARE_MAX else UNKNOWN
    return labels


def _by_body(truth: Truth, texts: list[str]) -> np.ndarray:
    """By the blocks between two marks; nothing is known where these make other blocks of the page."""
    inside, labels = False, []
    for text in block_texts(scan_blocks(marked(truth), READ | MAIN)):
        if text == MARK:
            inside = not inside
        else:
            labels.append(KEPT if inside else LEFT)
    return np.array(labels) if len(labels) == len(texts) else np.full(len(texts), UNKNOWN)
