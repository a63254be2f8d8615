"""The model of main text: a score for each block of a page, from its features.

Boosted regression trees of three levels, over integers. A tree has seven questions ("is feature f above t?") and eight
answers; all seven are evaluated for 32 blocks at once, and masks select the answers, so that no branch depends on the
page. Scores are sums of integers, the same on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, intrinsic
from dustream.core.kernels.native import cgutils, ir, types
from dustream.core.text.main_model import ANSWERS, FEATURE_NAMES, QUESTIONS, SCALE
from dustream.core.text.scan_features import FEATURES, TILE
from dustream.core.text.scan_memory import borrowed

LEVELS = 3
QUESTIONS_PER_TREE, ANSWERS_PER_TREE = (1 << LEVELS) - 1, 1 << LEVELS

# Evaluation of a tile stops after so many trees if all its blocks are far below main text.
EARLY_TREES = 40
EARLY_SCORE_MAX = -3 * SCALE


class Model(NamedTuple):
    """Two bytes for each question (feature, threshold); a byte for each answer, in 1 / SCALE of a logit."""

    questions: NDArray[np.uint8]
    answers: NDArray[np.int8]


@cache
def model() -> Model:
    """The learned model, with features numbered as in this version of the code."""
    places = np.array([FEATURES.index(name) for name in FEATURE_NAMES], dtype=np.uint8)
    questions = np.frombuffer(bytes.fromhex(QUESTIONS), dtype=np.uint8).reshape(-1, 2).copy()
    questions[:, 0] = places[questions[:, 0]]
    return Model(questions.reshape(-1), np.frombuffer(bytes.fromhex(ANSWERS), dtype=np.int8).copy())


@intrinsic
def _ask_in(typing_context: Any, tile: Any, questions: Any, answers: Any, tree: Any, scores: Any) -> Any:
    """Add the answer of a tree for each block of the tile to the scores."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tile_at, questions_at, answers_at, scores_at = (
            cgutils.create_struct_proxy(signature.args[i])(context, builder, value=args[i]).data  # type: ignore[no-untyped-call]
            for i in (0, 1, 2, 4)
        )
        word, octets = ir.IntType(64), ir.VectorType(ir.IntType(8), TILE)
        totals = ir.VectorType(ir.IntType(16), TILE)

        def loaded(at: Any, first: Any, offset: int) -> Any:
            return builder.load(builder.gep(at, [builder.add(first, ir.Constant(word, offset))]))

        def everywhere(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(octets, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), TILE), [0] * TILE)
            return builder.shuffle_vector(one, ir.Constant(octets, ir.Undefined), lanes)

        first = builder.mul(args[3], ir.Constant(word, 2 * QUESTIONS_PER_TREE))
        is_above = []
        for question in range(QUESTIONS_PER_TREE):
            feature = builder.zext(loaded(questions_at, first, 2 * question), word)
            column = builder.gep(tile_at, [builder.mul(feature, ir.Constant(word, TILE))])
            values = builder.load(builder.bitcast(column, octets.as_pointer()), align=1)
            threshold = everywhere(loaded(questions_at, first, 2 * question + 1))
            is_above.append(builder.icmp_unsigned(">", values, threshold))
        first = builder.mul(args[3], ir.Constant(word, ANSWERS_PER_TREE))
        found = [everywhere(loaded(answers_at, first, answer)) for answer in range(ANSWERS_PER_TREE)]
        for level in range(LEVELS - 1, -1, -1):
            asked = is_above[(1 << level) - 1 : (2 << level) - 1]
            found = [builder.select(q, found[2 * i + 1], found[2 * i]) for i, q in enumerate(asked)]
        place = builder.bitcast(scores_at, totals.as_pointer())
        total = builder.add(builder.load(place, align=2), builder.sext(found[0], totals))
        builder.store(total, place, align=2)
        return context.get_dummy_value()

    return types.void(tile, questions, answers, types.int64, scores), codegen


_ask = cast("Callable[[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int8], int, NDArray[np.int16]], None]", _ask_in)


@inner
def score_tile(
    tile: NDArray[np.uint8], questions: NDArray[np.uint8], answers: NDArray[np.int8], scores: NDArray[np.int16]
) -> None:
    """The score of each block of a tile, in 1 / SCALE of a logit."""
    tile, questions, answers, scores = borrowed(tile), borrowed(questions), borrowed(answers), borrowed(scores)
    trees = answers.size // ANSWERS_PER_TREE
    for i in range(TILE):
        scores[i] = 0
    for tree in range(min(trees, EARLY_TREES)):
        _ask(tile, questions, answers, tree, scores)
    highest = scores[0]
    for i in range(1, TILE):
        highest = max(highest, scores[i])
    if highest <= EARLY_SCORE_MAX:
        return
    for tree in range(EARLY_TREES, trees):
        _ask(tile, questions, answers, tree, scores)
