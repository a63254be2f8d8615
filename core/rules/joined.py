"""Which parts of a rule have evidence of their own.

A candidate of the tree joins all keys of a node that seem not to matter. Together they may have the evidence of many
pages where one of them has that of a single page: an error page under many `?q=` beside articles under many `?sid=`.
If a path part is set to a constant, URLs that already have that constant support the other writes, not this one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.candidates import CandidateSettings
from dustream.core.rules.evidence import EvidenceIndex, Operations, rewritten_hashes
from dustream.core.rules.growth import ABSENT, IS
from dustream.core.rules.landing import MEETS, counted, row_ways
from dustream.core.rules.rewrite import Pattern, matching_rows
from dustream.core.rules.training import TrainingSet

PAGES_MIN: Final = 2
"""One page under many URLs may be an error page that is sent with status 200."""

VALUES_MAX: Final = 16
"""Values of one key for which a rule is tried by itself."""
VALUE_PAGES_MIN: Final = 5
"""Pages with that value that support it: a rule per page is no rule."""


class OneValue(NamedTuple):
    """A key that a rule sets to a constant, and the only other value (0: absent) that it was seen to replace."""

    key: int
    code: int


def unsupported_keys(training: TrainingSet, supporting: Ints, operations: Operations) -> list[list[int]]:
    """The keys that a rule must not drop or set, because a single page supports each; empty if the rule may stay as it
    is. If no key has more than one page: the keys to leave alone in a rule for each page.

    `supporting`: the rows that the rule brings together with a duplicate of theirs.
    """
    keys = np.flatnonzero(operations.copied < 0)
    differs = training.values[keys[:, None], supporting] != operations.fixed[keys, None]
    pages = {
        key: frozenset(training.clusters[supporting[changed]].tolist())
        for key, changed in zip(keys.tolist(), differs, strict=True)
        if changed.any()
    }
    few = [key for key, supporters in pages.items() if len(supporters) < PAGES_MIN]
    if len(few) < len(pages):
        return [few] if few else []
    alone = list(dict.fromkeys(pages.values()))
    return [[key for key in few if pages[key] != page] for page in alone] if len(alone) > 1 else []


def one_value_replaced(
    training: TrainingSet, supporting: Ints, pattern: Pattern, operations: Operations
) -> OneValue | None:
    """The first key that is set to a constant, has it already in some rows, and in all others one and the same value.

    Schemes are not looked at: pages have but two of them.
    """
    for key in np.flatnonzero((operations.copied < 0) & (operations.fixed > 0)).tolist():
        if pattern.kinds[key] <= IS or training.keys[key] == "scheme":
            continue
        values = training.values[key][supporting]
        others = np.unique(values[values != operations.fixed[key]])
        if len(others) == 1 and (values == operations.fixed[key]).any():
            return OneValue(key, int(others[0]))
    return None


def hosts_replaced(training: TrainingSet, supporting: Ints, pattern: Pattern, operations: Operations) -> list[OneValue]:
    """The values, seen with a duplicate, of the first part of a host that may have any value and is written; the most
    frequent ones first."""
    for key in np.flatnonzero(operations.copied != np.arange(len(operations.copied))).tolist():
        if pattern.kinds[key] <= IS or not training.keys[key].startswith("host_"):
            continue
        values = training.values[key][supporting]
        counts = Counter(values[(operations.copied[key] >= 0) | (values != operations.fixed[key])].tolist())
        often = sorted(counts, key=lambda code: (-counts[code], training.text(code)))
        return [OneValue(key, code) for code in often[:VALUES_MAX]]
    return []


def narrowed(pattern: Pattern, only: OneValue) -> Pattern:
    """The pattern with a test for that one value."""
    kinds, codes = list(pattern.kinds), list(pattern.codes)
    kinds[only.key], codes[only.key] = IS if only.code else ABSENT, only.code
    return Pattern(kinds, codes, pattern.excluded)


def without(operations: Operations, keys: list[int]) -> Operations:
    """The operations, but these keys keep their values."""
    copied, fixed = operations.copied.copy(), operations.fixed.copy()
    copied[keys], fixed[keys] = keys, 0
    return Operations(copied, fixed)


def landing_values(
    index: EvidenceIndex, pattern: Pattern, operations: Operations, settings: CandidateSettings
) -> list[Pattern]:
    """If a rule leads too many URLs to unknown ones: the pattern for single values of one key for which it lands. Of
    all keys, the one whose values let the most URLs meet their duplicates."""
    training = index.training
    rows = matching_rows(training, pattern)
    becomes = rewritten_hashes(training, rows, operations)
    changed = becomes != training.hashes[rows]
    rows, becomes = rows[changed], becomes[changed]
    ways = row_ways(index, rows, becomes, index.rows_at(becomes))
    best: list[tuple[int, str, OneValue]] = []
    for key in [key for key, kind in enumerate(pattern.kinds) if kind > IS]:
        values = training.values[key][rows]
        frequent = [code for code, count in Counter(values.tolist()).items() if code and count >= VALUE_PAGES_MIN]
        landed = {code: counted(ways[values == code]) for code in frequent}
        found = [
            (-landing.meets, training.text(code), OneValue(key, code))
            for code, landing in landed.items()
            if landing.is_safe(settings.landing)
            and len(np.unique(training.clusters[rows[(values == code) & (ways == MEETS)]])) >= VALUE_PAGES_MIN
        ]
        best = min(best, sorted(found)[:VALUES_MAX], key=lambda each: sum(meets for meets, _, _ in each))
    return [narrowed(pattern, value) for _, _, value in best]
