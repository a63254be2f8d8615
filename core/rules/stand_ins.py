"""What stands for a path part or host label that does not matter, so that rules lead to URLs that exist.

The tree takes the most frequent value of a whole node. Where all URLs that support a rule are in one corner of the
node, that value may not occur there. So the values are counted among the URLs that the rule is about. Of the values
with about as many URLs as the most frequent one, reasons choose (reasons.py): a few more pages must not turn the rule
round. In a sample, few URLs of one corner are known; there, values that are rare on the whole site, such as old
versions, are not chosen.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import numpy as np

from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.evidence import EvidenceIndex, Operations, rewritten_hashes
from dustream.core.rules.growth import ABSENT, ANY, IS, SOME, summary
from dustream.core.rules.joined import without
from dustream.core.rules.reasons import text_order
from dustream.core.rules.rewrite import Pattern, matching_rows
from dustream.core.rules.training import TrainingSet
from dustream.core.urls.keys import is_named

ABOUT_AS_MANY: Final = 0.95
SITE_ABOUT_AS_MANY: Final = 0.9
CHANCE_DEVIATIONS: Final = 2.0

Values = tuple[int, ...]


def with_stand_ins(
    index: EvidenceIndex, supporting: Ints, pattern: Pattern, operations: Operations, known_share: float
) -> Operations:
    """The operations with values that lead to URLs that exist; keys for which no such URL is known are left alone.

    `supporting`: the rows that support the rule. `known_share`: of the site's URLs.
    """
    training = index.training
    fixed = np.flatnonzero((operations.copied < 0) & (operations.fixed > 0)).tolist()
    ignored = [k for k in fixed if pattern.kinds[k] > IS and _stands_for_many(training.keys[k])]
    if not ignored:
        return operations
    existing = _existing(training, _alike(training, supporting, ignored), ignored, operations)
    there = Counter(map(tuple, training.values[ignored][:, existing].T.tolist()))
    if not there:
        return without(operations, ignored)
    chosen = min(_frequent(training, ignored, there, known_share), key=lambda values: _order(training, values))
    written = operations.fixed.copy()
    written[ignored] = chosen
    return Operations(operations.copied, written)


def _alike(training: TrainingSet, supporting: Ints, ignored: list[int]) -> Ints:
    """The rows with the pattern of the supporting ones, whatever their ignored keys; query keys may be missing."""
    kinds, codes = summary(training.values, supporting, training.decimal)
    for k, key in enumerate(training.keys):
        if k in ignored:
            kinds[k], codes[k] = SOME, 0
        elif is_named(key) and kinds[k] != ABSENT:
            kinds[k], codes[k] = ANY, 0
    return matching_rows(training, Pattern(kinds.tolist(), codes.tolist()))


def _stands_for_many(key: str) -> bool:
    return not is_named(key) and key != "scheme"


def _existing(training: TrainingSet, rows: Ints, ignored: list[int], operations: Operations) -> Ints:
    """The rows that the operations leave as they are if they leave the ignored keys alone: what others become."""
    copied, fixed = operations.copied.copy(), operations.fixed.copy()
    copied[ignored], fixed[ignored] = ignored, 0
    alive = rows[~training.avoid[rows]]
    same = rewritten_hashes(training, alive, Operations(copied, fixed)) == training.hashes[alive]
    existing: Ints = alive[same]
    return existing


def _frequent(training: TrainingSet, ignored: list[int], there: Counter[Values], known_share: float) -> list[Values]:
    """The values with about as many URLs as any has; in a sample, also on the whole site."""
    most = max(there.values())
    by_chance = CHANCE_DEVIATIONS * math.sqrt(most * (1 - known_share))
    frequent = [values for values, count in there.items() if count >= ABOUT_AS_MANY * most - by_chance]
    if known_share == 1 or len(frequent) == 1:
        return frequent
    on_site = {values: _count(training, ignored, values) for values in frequent}
    return [values for values in frequent if on_site[values] >= SITE_ABOUT_AS_MANY * max(on_site.values())]


def _count(training: TrainingSet, keys: list[int], values: Values) -> int:
    has = np.ones(training.size, np.bool_)
    for key, value in zip(keys, values, strict=True):
        has &= training.values[key] == value
    return int(np.count_nonzero(has))


def _order(training: TrainingSet, values: Values) -> tuple[object, ...]:
    return text_order(" ".join(map(training.text, values)))
