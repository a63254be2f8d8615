"""Algorithm 1 as compiled code: the pattern tree grows over one table of numbers, no object per node.

A node is a slice of the rows. A split moves the rows of each child together, in `order` and in the columns that still
differ within the node: whatever is read afterwards of a node lies side by side. What is the same throughout a node is
the same below it and is never looked at again.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.arrays import ascending, copy_into, largest
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import Ints

SALIENT_FREQUENCY_MIN: Final = 5
"""A value seen less often seldom appears in other URLs, whatever the curve looks like."""
DROP_MIN: Final = math.log(2)
"""A decline at which the frequency does not even halve is no decline."""
FEW: Final = 64
"""Frequencies below this are so common among values that their part of the entropy is worked out once."""

PARENT, DEPTH, START, END, TRIVIAL, SPLIT_KEY, SALIENT_START, SALIENT_END = range(8)
ABSENT, IS, DIGITS, SOME, ANY = range(5)
"""What a pattern says of one key: no URL has it; all have the same value; all have it, with differing numbers; all have
it, with differing values; some have it."""

Bools = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]


class Grown(NamedTuple):
    """Nodes in preorder. `places[node]`: its parent, depth, rows `order[start:end]`, whether it is the trivial branch
    of its parent, the key it is split by (−1: a leaf), and where in `salient` the values are that have children of
    their own. `kinds[node, key]` and `codes[node, key]` are the patterns."""

    places: Ints
    kinds: Kinds
    codes: Ints
    salient: Ints
    order: Ints

    @property
    def bounds(self) -> Ints:
        """Where in `order` the rows of each node start and end; side by side in memory, as kernels expect it."""
        bounds: Ints = np.ascontiguousarray(self.places[:, [START, END]])
        return bounds


@kernel
def entropy(frequencies: npt.NDArray[np.int64]) -> float:
    """Lei eq. 4: H(k) = Σ −(v_i / N) log(v_i / N)."""
    total = frequencies.sum()
    parts = np.zeros(FEW, np.float64)
    h = 0.0
    for frequency in frequencies:
        if frequency < FEW:
            if parts[frequency] == 0.0:
                parts[frequency] = frequency / total * np.log(frequency / total)
            h -= parts[frequency]
        else:
            h -= frequency / total * np.log(frequency / total)
    return h


@kernel
def salient_count(frequencies: npt.NDArray[np.int64], total: int) -> int:
    """How many of the values, by descending frequency, stand before the largest drop (Lei eq. 5).

    A curve that just ends has its drop at the end, down to 1. Only the first √N values are looked at: what has more
    salient values than that is no list of directories and functions, and each of its nodes would hold nothing.
    """
    best, best_drop = 0, DROP_MIN
    for i in range(min(len(frequencies), _looked_at(total))):
        if frequencies[i] < SALIENT_FREQUENCY_MIN:
            break
        following = frequencies[i + 1] if i + 1 < len(frequencies) else 1
        drop = math.log(frequencies[i] / following)
        if drop >= best_drop:
            best, best_drop = i + 1, drop
    return best


@inner
def _looked_at(total: int) -> int:
    root = int(math.sqrt(total))
    return root - 1 if root * root > total else root


@kernel
def summary(values: Ints, rows: Ints, decimal: Bools) -> tuple[Kinds, Ints]:
    """The pattern of a group: per key what it is, and its value if there is only one."""
    kinds = np.zeros(values.shape[0], np.int8)
    codes = np.zeros(values.shape[0], np.int32)
    for key in range(values.shape[0]):
        column = values[key] if len(rows) == values.shape[1] else values[key][rows]
        kinds[key], codes[key] = _kind(column, decimal)
    return kinds, codes


@inner
def _kind(column: Ints, decimal: Bools) -> tuple[int, int]:
    first = column[0]
    at = 1
    while at < len(column) and column[at] == first:
        at += 1
    if at == len(column):
        return (ABSENT if first == 0 else IS), first
    for code in column:
        if code == 0:
            return ANY, 0
    for code in column:
        if not decimal[code]:
            return SOME, 0
    return DIGITS, 0


@kernel
def grow(values: Ints, decimal: Bools, rows_min: float, nodes_max: int) -> tuple[Ints, Kinds, Ints, Ints, Ints]:
    """The fields of Grown. Depth first; ties between keys go to the first."""
    key_count, size = values.shape
    columns, order = values.copy(), np.arange(size).astype(np.int32)
    places, salient = np.zeros((256, 8), np.int32), np.zeros(256, np.int32)
    kinds, codes = np.zeros((256, key_count), np.int8), np.zeros((256, key_count), np.int32)
    done = np.zeros((256, key_count), np.bool_)
    counts, found = np.zeros(len(decimal), np.int32), np.zeros(size + 1, np.int32)
    frequencies, chosen = np.zeros(size + 1, np.int64), np.zeros(_looked_at(size) + 1, np.int32)
    waiting = np.zeros((256, 5), np.int32)
    waiting[0, 0], waiting[0, 3] = -1, size
    left, node, salient_used = 1, 0, 0
    while left:
        left -= 1
        if node == len(places):
            places, kinds, codes, done = _doubled(places), _doubled(kinds), _doubled(codes), _doubled(done)
        copy_into(places[node], waiting[left])
        parent, start, end = places[node, PARENT], places[node, START], places[node, END]
        _describe(columns[:, start:end], decimal, kinds, codes, node, parent)
        if parent >= 0:
            copy_into(done[node], done[parent])
            done[node, places[parent, SPLIT_KEY]] = True
        key, chosen_count = -1, 0
        if end - start >= rows_min and node + 1 < nodes_max:
            key, chosen_count = _split(
                columns[:, start:end], kinds[node], done[node], counts, found, frequencies, chosen
            )
        while salient_used + chosen_count > len(salient):
            salient = np.concatenate((salient, np.zeros_like(salient)))
        copy_into(salient[salient_used:], chosen[:chosen_count])
        places[node, SPLIT_KEY], places[node, SALIENT_START] = key, salient_used
        salient_used += chosen_count
        places[node, SALIENT_END] = salient_used
        if key >= 0:
            while left + chosen_count + 2 > len(waiting):
                waiting = _doubled(waiting)
            sizes = _partition(columns[:, start:end], order[start:end], kinds[node], key, chosen[:chosen_count], counts)
            left = _push(waiting, left, sizes, node, places[node, DEPTH] + 1, end)
        node += 1
    return places[:node], kinds[:node], codes[:node], salient[:salient_used], order


@inner
def _doubled(array: npt.NDArray[Any]) -> Any:
    return np.concatenate((array, np.zeros_like(array)))


@inner
def _describe(columns: Ints, decimal: Bools, kinds: Kinds, codes: Ints, node: int, parent: int) -> None:
    for key in range(len(columns)):
        if parent >= 0 and kinds[parent, key] <= IS:
            kinds[node, key], codes[node, key] = kinds[parent, key], codes[parent, key]
        else:
            kinds[node, key], codes[node, key] = _kind(columns[key], decimal)


@inner
def _split(
    columns: Ints,
    kinds: Kinds,
    done: Bools,
    counts: Ints,
    found: Ints,
    frequencies: npt.NDArray[np.int64],
    chosen: Ints,
) -> tuple[int, int]:
    """The key of the smallest entropy that splits at all, and how many of its values are salient (they go to
    `chosen`); −1 if none does. A key that some rows lack always splits, another one if it has a salient value."""
    entropies = np.full(len(columns), np.inf)
    for key in range(len(columns)):
        if kinds[key] >= DIGITS and not done[key]:
            distinct = _count(columns[key], counts, found, frequencies)
            if kinds[key] == ANY or largest(frequencies[:distinct]) >= SALIENT_FREQUENCY_MIN:
                entropies[key] = entropy(frequencies[:distinct])
    while True:
        key = int(np.argmin(entropies))
        if entropies[key] == np.inf:
            return -1, 0
        distinct = _count(columns[key], counts, found, frequencies)
        salient = _salient(found[:distinct], frequencies[:distinct], columns.shape[1], chosen)
        if salient or kinds[key] == ANY:
            return key, salient
        entropies[key] = np.inf


@kernel
def _count(column: Ints, counts: Ints, found: Ints, frequencies: npt.NDArray[np.int64]) -> int:
    """How many distinct values there are: which in `found`, how often in `frequencies`. `counts` is all zero before and
    after."""
    distinct = 0
    for code in column:
        found[distinct] = code
        distinct += counts[code] == 0
        counts[code] += 1
    for i in range(distinct):
        frequencies[i] = counts[found[i]]
        counts[found[i]] = 0
    return distinct


@inner
def _salient(found: Ints, frequencies: npt.NDArray[np.int64], total: int, chosen: Ints) -> int:
    """How many values are salient; they go to `chosen`, the most frequent first, equals by their numbers."""
    frequent = np.zeros(total // SALIENT_FREQUENCY_MIN, np.int64)
    used, following = 0, 0
    for i in range(len(found)):
        if found[i] != 0 and frequencies[i] >= SALIENT_FREQUENCY_MIN:
            frequent[used] = (-frequencies[i] << 32) + found[i]
            used += 1
        elif found[i] != 0:
            following = max(following, frequencies[i])
    ordered = ascending(frequent[:used])[: _looked_at(total) + 1]
    curve = np.zeros(len(ordered) + 1, np.int64)
    for i in range(len(ordered)):
        curve[i] = -(ordered[i] >> 32)
    curve[len(ordered)] = following
    salient = salient_count(curve if following and len(ordered) == used else curve[: len(ordered)], total)
    for i in range(salient):
        chosen[i] = ordered[i] & 0xFFFFFFFF
    return salient


@inner
def _partition(columns: Ints, order: Ints, kinds: Kinds, key: int, salient: Ints, labels: Ints) -> Ints:
    """The rows without the key first, then those of each salient value, then the rest; the sizes of these parts.

    `labels` is all zero before and after."""
    column = columns[key]
    trivial = len(salient) + 1
    for i in range(len(salient)):
        labels[salient[i]] = i + 1
    sizes = np.zeros(trivial + 1, np.int32)
    target = np.zeros(len(column), np.int32)
    for i in range(len(column)):
        label = labels[column[i]]
        target[i] = label if label or column[i] == 0 else trivial
        sizes[target[i]] += 1
    labels[salient] = 0
    free = np.zeros(len(sizes), np.int32)
    for label in range(trivial):
        free[label + 1] = free[label] + sizes[label]
    for i in range(len(column)):
        label = target[i]
        target[i] = free[label]
        free[label] += 1
    _move(order, target)
    for each in range(len(columns)):
        if kinds[each] >= DIGITS:
            _move(columns[each], target)
    return sizes


@inner
def _move(column: Ints, target: Ints) -> None:
    moved = np.empty_like(column)
    for i in range(len(column)):
        moved[target[i]] = column[i]
    copy_into(column, moved)


@inner
def _push(waiting: Ints, left: int, sizes: Ints, node: int, depth: int, end: int) -> int:
    """The parts that are not empty wait to become nodes, the first on top."""
    for label in range(len(sizes) - 1, -1, -1):
        if sizes[label]:
            start = end - sizes[label]
            waiting[left, 0], waiting[left, 1], waiting[left, 2], waiting[left, 3] = node, depth, start, end
            waiting[left, 4] = label == len(sizes) - 1
            left += 1
            end = start
    return left
