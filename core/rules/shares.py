"""The duplicates of the nodes of a pattern tree, and how the duplicates differ in each key."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.arrays import stable_order
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.growth import DIGITS, END, START, Kinds
from dustream.core.rules.pattern_tree import Node, PatternTree

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

AT_ONCE_MAX: Final = 4_096
"""A node of up to so many URLs is looked at together with all below it, even if some of that is not asked for."""


class ClusterShares:
    """Clusters with two or more URLs; others share nothing."""

    def __init__(self, tree: PatternTree) -> None:
        self._tree = tree
        self._training = tree.training
        self._cluster_count = int(tree.training.clusters.max(initial=-1)) + 1
        self._seen = np.zeros(self._cluster_count, np.int32)
        self._counts = np.zeros(len(tree.training.codes), np.int32)
        self._from = self._to = 0
        self._frequent: dict[tuple[int, int], list[int]] = {}
        self._repeats: list[int] = []
        self._ratios: Floats = np.zeros((0, 0))

    def members(self, nodes: npt.NDArray[np.int64]) -> tuple[Ints, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows of these nodes that are in a cluster of two or more, by cluster; and by node where its own begin and
        end."""
        places, order, training = self._tree.grown.places, self._tree.grown.order, self._training
        starts, ends = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        distinct = np.unique(nodes)
        members: Ints = _members(
            order, self._tree.grown.bounds[distinct], training.clusters, training.repeated, self._cluster_count
        )
        ends[distinct] = np.cumsum(self.member_counts()[distinct])
        starts[distinct[1:]] = ends[distinct[:-1]]
        return members, starts, ends

    def member_counts(self) -> npt.NDArray[np.int64]:
        """How many members each node has."""
        places, order = self._tree.grown.places, self._tree.grown.order
        before = np.concatenate(([0], np.cumsum(self._training.repeated[order])))
        counts: npt.NDArray[np.int64] = before[places[:, END]] - before[places[:, START]]
        return counts

    def all_members(self) -> Ints:
        """The same of all rows, those of a cluster in their order."""
        return self._by_cluster(np.arange(self._training.size, dtype=np.int32))

    def _by_cluster(self, rows: Ints) -> Ints:
        ordered: Ints = _by_cluster(rows, self._training.clusters, self._training.repeated, self._cluster_count)
        return ordered

    def most_frequent(self, node: Node, key: int) -> list[int]:
        """The most frequent values of a key, equally frequent. URLs that redirect or are gone are not counted."""
        if (node.id, key) not in self._frequent:
            rows, training = self._tree.rows(node), self._training
            found: list[int] = _most_frequent(training.values[key], rows, training.avoid, self._counts).tolist()
            self._frequent[node.id, key] = found
        return self._frequent[node.id, key]

    def differences(self, node: Node) -> tuple[int, Floats]:
        """How many URLs fewer the node could have: N − C of its duplicate rate 1 − C / N (section 3). And per key: how
        often duplicates differ in it, by how often any two of these URLs do.

        0: the value decides the content, or is the same throughout. 1: it has no part in it. Wrong labels move the one
        towards the other only by their share.
        """
        if not self._from <= node.id < self._to:
            self._look_at(node)
        return self._repeats[node.id - self._from], self._ratios[node.id - self._from]

    def _look_at(self, node: Node) -> None:
        training = self._training
        bounds, kinds = np.array([[node.start, node.end]], np.int32), node.kinds.reshape(1, -1)
        order = self._tree.rows(node)
        if node.id:
            places, order = self._tree.grown.places, self._tree.grown.order
            last = node.id + 1
            if node.volume <= AT_ONCE_MAX:  # starts only grow in preorder: what starts behind the node is not below it
                last = int(np.searchsorted(places[:, START], node.end))
            bounds = self._tree.grown.bounds[node.id : max(last, node.id + 1)]
            kinds = self._tree.grown.kinds[node.id : node.id + len(bounds)]
        repeats, self._ratios = _differences(
            order, bounds, kinds, training.values, training.clusters, training.repeated,
            self._cluster_count, self._seen, self._counts,
        )  # fmt: skip
        self._repeats = repeats.tolist()
        self._from, self._to = node.id, node.id + len(bounds)


@kernel
def _by_cluster(rows: Ints, clusters: Ints, repeated: Bools, cluster_count: int) -> Ints:
    """A stable sort: by counting where there are enough rows for the number of clusters."""
    rows = rows[repeated[rows]]
    if 8 * len(rows) < cluster_count:
        return rows[stable_order(clusters[rows])]
    counts = np.zeros(cluster_count + 1, np.int32)
    for row in rows:
        counts[clusters[row] + 1] += 1
    free = np.cumsum(counts)
    ordered = np.empty_like(rows)
    for row in rows:
        ordered[free[clusters[row]]] = row
        free[clusters[row]] += 1
    return ordered


@kernel
def _members(order: Ints, bounds: Ints, clusters: Ints, repeated: Bools, cluster_count: int) -> Ints:
    """Of each slice of the order, the rows by cluster."""
    members, used = np.zeros((bounds[:, 1] - bounds[:, 0]).sum(), np.int32), 0
    for i in range(len(bounds)):
        rows = _by_cluster(order[bounds[i, 0] : bounds[i, 1]], clusters, repeated, cluster_count)
        members[used : used + len(rows)] = rows
        used += len(rows)
    return members[:used]


@kernel
def _most_frequent(column: Ints, rows: Ints, avoid: Bools, counts: Ints) -> Ints:
    """`counts` is all zero before and after."""
    alive = rows[~avoid[rows]]
    codes = column[alive if len(alive) else rows]
    best = 0
    for code in codes:
        counts[code] += 1
        best = max(best, counts[code])
    left = 0
    for code in codes:
        codes[left] = code
        left += counts[code] == best
        counts[code] = 0
    return codes[:left]


@kernel
def _differences(
    order: Ints,
    bounds: Ints,
    kinds: Kinds,
    values: Ints,
    clusters: Ints,
    repeated: Bools,
    cluster_count: int,
    seen: Ints,
    counts: Ints,
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Per node its repeats and the difference ratio of each key. `seen` and `counts` are all zero before and after."""
    repeats = np.zeros(len(bounds), np.int64)
    ratios = np.zeros(kinds.shape, np.float64)
    for node in range(len(bounds)):
        rows = order[bounds[node, 0] : bounds[node, 1]]
        repeats[node] = _repeats(rows, clusters, repeated, seen)
        if repeats[node] == 0:
            continue
        members = _by_cluster(rows, clusters, repeated, cluster_count)
        labels = clusters[members]
        for key in range(kinds.shape[1]):
            if kinds[node, key] >= DIGITS:
                ratios[node, key] = _difference_ratio(values[key][members], labels, counts)
    return repeats, ratios


@kernel
def _repeats(rows: Ints, clusters: Ints, repeated: Bools, seen: Ints) -> int:
    repeats = 0
    for row in rows:
        if repeated[row]:
            repeats += seen[clusters[row]]
            seen[clusters[row]] = 1
    for row in rows:
        if repeated[row]:
            seen[clusters[row]] = 0
    return repeats


@inner
def _difference_ratio(column: Ints, clusters: Ints, counts: Ints) -> float:
    inside, weight = 0.0, 0.0
    start = 0
    while start < len(column):
        end = start
        while end < len(column) and clusters[end] == clusters[start]:
            end += 1
        if end - start > 1:
            inside += (end - start) * _differing(column, start, end, counts)
            weight += end - start
        start = end
    if inside == 0.0:  # so it is for most keys: how often any two differ need not be counted
        return 0.0
    overall = _differing(column, 0, len(column), counts)
    return inside / weight / overall if overall > 0.0 else 0.0


@inner
def _differing(codes: Ints, start: int, end: int, counts: Ints) -> float:
    """The share of pairs with different values."""
    total = end - start
    if total < 2:
        return 0.0
    if total == 2:
        return 0.0 if codes[start] == codes[start + 1] else 1.0
    equal = 0
    for i in range(start, end):
        equal += 2 * counts[codes[i]]
        counts[codes[i]] += 1
    for i in range(start, end):
        counts[codes[i]] = 0
    return 1.0 - equal / (total * (total - 1.0))
