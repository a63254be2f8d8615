"""The fan-out method (Dasgupta, Kumar, Sasturkar), as Lei describes it in sections 2 and 6.1: the baseline.

From pairs upwards: two duplicates that differ in exactly one key are a raw rule; rules that differ in exactly one key
are induced to one with a wildcard there, if that key takes at least `fan_out` values among them; and so on until
nothing can be induced any more. A smaller fan-out gives subtler rules, and more of them.

Written to be as fast as this can be: pairs are compared in compiled code where a second difference ends it at once, and
each induction is one sort of hashes from which the key's own part has been taken away, not a comparison of all rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import Hashes, Ints
from dustream.core.rules import growth
from dustream.core.rules.candidates import (
    CandidateSettings,
    is_qualified,
)
from dustream.core.rules.evidence import Evidence, EvidenceIndex, Operations
from dustream.core.rules.rewrite import Pattern
from dustream.core.rules.training import TrainingSet, pair_hash, row_hashes
from dustream.core.urls.keys import is_named

PAIRS_MAX: Final = 20_000_000
RULES_MAX: Final = 200_000
SOME: Final = -1
ANY: Final = -2
"""Wildcards: present with differing values; present or absent."""


@dataclass(frozen=True)
class FanoutRule:
    """A pattern (a value, SOME or ANY per key), the one key that is rewritten, and to what (0: it is dropped)."""

    pattern: Ints
    key: int
    value: int
    evidence: Evidence


class FanoutFindings(NamedTuple):
    """Counts and rules, as in Lei Table 3."""

    raw: int
    qualified: list[FanoutRule]


def fanout_rules(training: TrainingSet, fan_out: int, settings: CandidateSettings | None = None) -> FanoutFindings:
    """All rules that can be induced, and those that pass the false-positive filter."""
    settings = settings or CandidateSettings()
    pairs = _pairs(training)
    keys, patterns, values = _induced(training, pairs, fan_out)
    index = EvidenceIndex(training)
    qualified = []
    for i, rows in _matching_rows(training, patterns):
        operations = _operations(len(training.keys), int(keys[i]), int(values[i]))
        evidence = index.evidence(rows, operations)
        if is_qualified(evidence, settings):
            qualified.append(FanoutRule(patterns[i], int(keys[i]), int(values[i]), evidence))
    return FanoutFindings(len(keys), qualified)


def _operations(key_count: int, key: int, value: int) -> Operations:
    copied = np.arange(key_count, dtype=np.int32)
    fixed = np.zeros(key_count, np.int32)
    copied[key] = -1
    fixed[key] = value
    return Operations(copied, fixed)


# ---------------------------------------------------------------- pairs


def _pairs(training: TrainingSet) -> Ints:
    """(row, other row, key) for all ordered pairs of duplicates that differ in one key."""
    known = np.flatnonzero(training.clusters >= 0).astype(np.int32)
    rows = known[np.argsort(training.clusters[known], kind="stable")]
    by_row = np.ascontiguousarray(training.values.T)
    return _single_differences(by_row, rows, training.clusters[rows], PAIRS_MAX)


@kernel
def _single_differences(by_row: Ints, rows: Ints, clusters: Ints, pairs_max: int) -> Ints:
    room = 1 << 16
    found = np.zeros((room, 3), np.int32)
    used = 0
    start = 0
    while start < len(rows):
        end = start
        while end < len(rows) and clusters[end] == clusters[start]:
            end += 1
        for i in range(start, end):
            for j in range(start, end):
                if i == j:
                    continue
                differing = -1
                for key in range(by_row.shape[1]):
                    if by_row[rows[i], key] != by_row[rows[j], key]:
                        if differing >= 0:
                            differing = -2
                            break
                        differing = key
                if differing < 0:
                    continue
                if used == room:
                    if used >= pairs_max:
                        return found
                    found = np.concatenate((found, np.zeros_like(found)))
                    room *= 2
                found[used, 0], found[used, 1], found[used, 2] = rows[i], rows[j], differing
                used += 1
        start = end
    return found[:used]


# ---------------------------------------------------------------- induction


def _induced(training: TrainingSet, pairs: Ints, fan_out: int) -> tuple[Ints, Ints, Ints]:
    """Keys, patterns and values of all induced rules, level by level."""
    ignoring = _ignoring(training, pairs, fan_out)
    replacing = _replacing(training, pairs, fan_out)
    keys, patterns, values = (np.concatenate(both) for both in zip(ignoring, replacing, strict=True))
    all_keys, all_patterns, all_values = [ignoring[0]], [ignoring[1]], [ignoring[2]]
    while len(keys):
        keys, patterns, values = _level(keys, patterns, values, fan_out)
        all_keys.append(keys)
        all_patterns.append(patterns)
        all_values.append(values)
        if sum(map(len, all_keys)) > RULES_MAX:
            break
    return np.concatenate(all_keys), np.concatenate(all_patterns), np.concatenate(all_values)


def _ignoring(training: TrainingSet, pairs: Ints, fan_out: int) -> tuple[Ints, Ints, Ints]:
    """Raw rules of one context whose key takes many values: the key does not matter there."""
    rows, keys = pairs[:, 0], pairs[:, 2]
    contexts = training.hashes[rows] - _own_parts(training.values, rows, keys)
    own = training.values[keys, rows]
    first, wild = _wide_groups(contexts ^ (keys.astype(np.uint64) << np.uint64(56)), own, fan_out)
    patterns = np.ascontiguousarray(training.values[:, rows[first]].T)
    patterns[np.arange(len(first)), keys[first]] = wild
    return keys[first], patterns, _stand_ins(training, keys[first])


def _replacing(training: TrainingSet, pairs: Ints, fan_out: int) -> tuple[Ints, Ints, Ints]:
    """Raw rules "this value becomes that value" that occur in many contexts; one by one they are full URLs."""
    rows, others, keys = pairs[:, 0], pairs[:, 1], pairs[:, 2]
    before, after = training.values[keys, rows], training.values[keys, others]
    changes = _changes(keys, before, after)
    _, inverse, counts = np.unique(changes, return_inverse=True, return_counts=True)
    frequent = np.flatnonzero(counts[inverse] >= fan_out)[:RULES_MAX]
    patterns = np.ascontiguousarray(training.values[:, rows[frequent]].T)
    return keys[frequent], patterns, after[frequent]


@kernel
def _changes(keys: Ints, before: Ints, after: Ints) -> Hashes:
    changes = np.zeros(len(keys), np.uint64)
    for i in range(len(keys)):
        changes[i] = pair_hash(keys[i] + 1, before[i] + 1) * np.uint64(31) + pair_hash(keys[i] + 1000, after[i] + 1)
    return changes


def _level(keys: Ints, patterns: Ints, values: Ints, fan_out: int) -> tuple[Ints, Ints, Ints]:
    """One more wildcard per rule: for each key, rules that agree in all others and take many values in this one."""
    total = row_hashes(np.ascontiguousarray(patterns.T))
    rewritten = _changes(keys, values, values)
    out_keys, out_patterns, out_values, out_hashes = [], [], [], []
    for key in range(patterns.shape[1]):
        column = patterns[:, key]
        eligible = np.flatnonzero((column >= 0) & (keys != key)).astype(np.int32)
        if len(eligible) == 0:
            continue
        rest = (total[eligible] - _column_parts(column[eligible], key)) ^ rewritten[eligible]
        first, wild = _wide_groups(rest, column[eligible], fan_out)
        made = patterns[eligible[first]].copy()
        made[:, key] = wild
        out_keys.append(keys[eligible[first]])
        out_patterns.append(made)
        out_values.append(values[eligible[first]])
        out_hashes.append(
            row_hashes(np.ascontiguousarray(made.T)) ^ _changes(out_keys[-1], out_values[-1], out_values[-1])
        )
    if not out_keys:
        return keys[:0], patterns[:0], values[:0]
    _, distinct = np.unique(np.concatenate(out_hashes), return_index=True)
    return (
        np.concatenate(out_keys)[distinct],
        np.concatenate(out_patterns)[distinct],
        np.concatenate(out_values)[distinct],
    )


@kernel
def _own_parts(values: Ints, rows: Ints, keys: Ints) -> Hashes:
    parts = np.zeros(len(rows), np.uint64)
    for i in range(len(rows)):
        parts[i] = pair_hash(keys[i], values[keys[i], rows[i]])
    return parts


@kernel
def _column_parts(column: Ints, key: int) -> Hashes:
    parts = np.zeros(len(column), np.uint64)
    for i in range(len(column)):
        parts[i] = pair_hash(key, column[i])
    return parts


def _wide_groups(groups: Hashes, values: Ints, fan_out: int) -> tuple[npt.NDArray[np.int64], Ints]:
    """The first entry of each group with at least `fan_out` distinct values, and its wildcard."""
    order = np.lexsort((values, groups))
    return _wide_runs(groups[order], values[order], order, fan_out)


@kernel
def _wide_runs(
    groups: Hashes, values: Ints, order: npt.NDArray[np.int64], fan_out: int
) -> tuple[npt.NDArray[np.int64], Ints]:
    first = np.zeros(len(order), np.int64)
    wild = np.zeros(len(order), np.int32)
    used = 0
    start = 0
    while start < len(order):
        end = start
        distinct = 0
        while end < len(order) and groups[end] == groups[start]:
            distinct += end == start or values[end] != values[end - 1]
            end += 1
        if distinct >= fan_out:
            first[used] = order[start]
            wild[used] = -2 if values[start] == 0 else -1
            used += 1
        start = end
    return first[:used], wild[:used]


def _stand_ins(training: TrainingSet, keys: Ints) -> Ints:
    """What is written for an ignored key: nothing where it can be dropped, else the site's most frequent value."""
    chosen = np.zeros(len(training.keys), np.int32)
    for key in np.unique(keys).tolist():
        if not is_named(training.keys[key]):
            codes, counts = np.unique(training.values[key], return_counts=True)
            chosen[key] = codes[np.argmax(counts)]
    return chosen[keys]


# ---------------------------------------------------------------- matching and selection


def _matching_rows(training: TrainingSet, patterns: Ints) -> list[tuple[int, Ints]]:
    """The rows of every pattern: all patterns with wildcards in the same places are looked up together."""
    found: list[tuple[int, Ints]] = []
    masks: dict[bytes, list[int]] = {}
    for i, pattern in enumerate(patterns):
        masks.setdefault((pattern < 0).tobytes(), []).append(i)
    for members in masks.values():
        fixed = np.flatnonzero(patterns[members[0]] >= 0)
        row_keys = _masked_hashes(training.values, fixed)
        order = np.argsort(row_keys, kind="stable").astype(np.int32)
        ordered = row_keys[order]
        rule_keys = _masked_hashes(np.ascontiguousarray(patterns[members].T), fixed)
        low, high = np.searchsorted(ordered, rule_keys), np.searchsorted(ordered, rule_keys, side="right")
        for i, start, end in zip(members, low.tolist(), high.tolist(), strict=True):
            rows = order[start:end]
            present = np.flatnonzero(patterns[i] == SOME)
            found.append((i, rows[(training.values[present][:, rows] != 0).all(axis=0)]))
    return [(i, rows) for i, rows in found if len(rows)]


@kernel
def _masked_hashes(values: Ints, keys: npt.NDArray[np.int64]) -> Hashes:
    hashes = np.zeros(values.shape[1], np.uint64)
    for key in keys:
        for row in range(values.shape[1]):
            hashes[row] += pair_hash(key, values[key, row])
    return hashes


def select_naively(rules: list[FanoutRule]) -> list[FanoutRule]:
    """S_naive over patterns, not nodes: (a) one rule per source, (b) none that a broader one covers, (c) no circle."""
    per_source: dict[bytes, FanoutRule] = {}
    for rule in sorted(rules, key=lambda rule: (rule.evidence.false_positive_rate, -rule.evidence.support)):
        per_source.setdefault(rule.pattern.tobytes(), rule)
    masks = {(rule.pattern < 0).tobytes(): rule.pattern < 0 for rule in per_source.values()}
    kept = [rule for rule in per_source.values() if not _is_covered(rule, per_source, list(masks.values()))]
    return _without_circles(kept)


def _is_covered(rule: FanoutRule, per_source: dict[bytes, FanoutRule], masks: list[npt.NDArray[np.bool_]]) -> bool:
    own = rule.pattern < 0
    for mask in masks:
        if (mask & ~own).any() and not (own & ~mask).any():
            for wild in (SOME, ANY):
                if np.where(mask & ~own, wild, rule.pattern).astype(np.int32).tobytes() in per_source:
                    return True
    return False


def _without_circles(rules: list[FanoutRule]) -> list[FanoutRule]:
    by_source = {rule.pattern.tobytes(): rule for rule in rules}
    for rule in sorted(rules, key=lambda rule: (rule.evidence.support, rule.pattern.tobytes())):
        seen = {rule.pattern.tobytes()}
        following = by_source.get(_target(rule))
        while following is not None and following.pattern.tobytes() not in seen:
            seen.add(following.pattern.tobytes())
            following = by_source.get(_target(following))
        if following is rule and _target(rule) != rule.pattern.tobytes():
            del by_source[rule.pattern.tobytes()]
    return list(by_source.values())


def _target(rule: FanoutRule) -> bytes:
    after = rule.pattern.copy()
    if after[rule.key] >= 0:
        after[rule.key] = rule.value
    return after.tobytes()


def pattern_of(rule: FanoutRule) -> Pattern:
    """The pattern in the terms of the pattern tree."""
    asked = [rule.pattern == ANY, rule.pattern == SOME, rule.pattern == 0]
    kinds = np.select(asked, [growth.ANY, growth.SOME, growth.ABSENT], growth.IS)
    return Pattern(kinds.tolist(), np.maximum(rule.pattern, 0).tolist())
