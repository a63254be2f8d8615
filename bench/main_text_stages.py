"""What each stage of the choice of main text costs, in compiled code."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import njit

from dustream.core.text.one_pass import MAIN, READ, scan_blocks
from dustream.core.text.scan_features import (
    FEATURES,
    MARGIN,
    MASKS,
    OWN_FEATURES,
    PLACES,
    SHAPES,
    SUMS,
    TILE,
    TOTALS,
    count_blocks,
    describe_tile,
    find_places,
    sum_up,
)
from dustream.core.text.scan_main import choose, join_into
from dustream.core.text.scan_model import model, score_tile
from dustream.core.text.scan_vectors import WIDTH

STAGES = ("own features", "sums of containers", "features of tiles", "trees", "choice and copy")
REPEATS, ROUNDS = 20, 5


@njit
def _run(
    stages: int, repeats: int, text: Any, blocks: Any, containers: Any, sums: Any, masks: Any, shapes: Any,
    totals: Any, own: Any, places: Any, seen: Any, tile: Any, questions: Any, answers: Any,
    scores: Any, chosen: Any, joined: Any,
) -> None:  # fmt: skip
    """The first stages, some times over."""
    for _ in range(repeats):
        if stages >= 1:
            count_blocks(text, blocks, containers, sums, totals, own)
        if stages >= 2:
            sum_up(containers, sums, masks, shapes)
            find_places(blocks, own, sums, places, tile)
        if stages >= 3:
            for start in range(0, blocks.shape[0], TILE):
                describe_tile(start, blocks, containers, sums, masks, shapes, totals, own, places, seen, tile)
                if stages >= 4:
                    score_tile(tile, questions, answers, scores[start : start + TILE])
        if stages >= 5:
            choose(blocks, containers, scores, chosen)
            join_into(text, blocks, chosen, joined)


def _arguments(page: bytes) -> tuple[Any, ...]:
    found = scan_blocks(page, READ | MAIN)
    count, around = len(found.blocks), len(found.containers)
    text = np.concatenate([found.text, np.zeros(WIDTH, dtype=np.uint8)])
    return (
        text, found.blocks, found.containers, np.zeros((around, SUMS), dtype=np.int32),
        np.zeros((around, MASKS), dtype=np.int32), np.zeros((around, SHAPES), dtype=np.uint8),
        np.zeros((count + 1, TOTALS), dtype=np.int32),
        np.zeros(len(OWN_FEATURES) * (count + 2 * MARGIN), dtype=np.uint8), np.zeros(PLACES, dtype=np.int64),
        np.zeros(2 * TILE, dtype=np.int32), np.zeros(len(FEATURES) * TILE, dtype=np.uint8), *model(),
        np.zeros(count + TILE, dtype=np.int16), np.zeros(count, dtype=np.bool_), np.zeros(text.size, dtype=np.uint8),
    )  # fmt: skip


def main_text_stages(pages: list[bytes]) -> dict[str, float]:
    """µs a page of each stage, the least of some rounds for each page, with warm caches. Each stage is the difference
    of two such times."""
    totals, blocks, containers = np.zeros(len(STAGES) + 1), 0, 0
    for page in pages:
        arguments = _arguments(page)
        blocks, containers = blocks + len(arguments[1]), containers + len(arguments[2])
        for stages in range(len(STAGES) + 1):
            _run(stages, 1, *arguments)
            best = float("inf")
            for _ in range(ROUNDS):
                started = time.perf_counter()
                _run(stages, REPEATS, *arguments)
                best = min(best, time.perf_counter() - started)
            totals[stages] += best / REPEATS
    us = np.diff(totals) / len(pages) * 1e6
    counts = {"blocks": blocks / len(pages), "containers": containers / len(pages)}
    return counts | dict(zip(STAGES, us.tolist(), strict=True))
