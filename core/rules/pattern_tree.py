"""The pattern tree of a site (Lei, section 5.1, Algorithm 1).

Each node is a group of URLs and the pattern that describes them; a split is by the key with the smallest entropy
(eq. 4) into its salient values, the rest of them (`*`), and the URLs that lack the key: absence is a value of its own,
so that a node's URLs end up with one syntax structure. A key with one value throughout is part of the pattern and never
splits. Algorithm 1 stops when the best key's values are all trivial; here the next key is tried first, because a key of
larger entropy may still tell structures apart by its absence.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dustream.core.rules.decompose import compose, index_of
from dustream.core.rules.training import ABSENT, Ints, TrainingSet

NODES_MAX: Final = 2_048
SPLIT_ROWS_MIN: Final = 4
SPLIT_SHARE_MIN: Final = 1 / 1_000
"""A node with fewer of the site's URLs is a leaf: a rule for so few is no rule."""
SALIENT_FREQUENCY_MIN: Final = 5
"""A value seen less often seldom appears in other URLs, whatever the curve looks like."""
DROP_MIN: Final = math.log(2)
"""A decline at which the frequency does not even halve is no decline."""


class Kind(IntEnum):
    """What a pattern says of one key."""

    ABSENT = 0  # no URL has it
    IS = 1  # all have the same value
    DIGITS = 2  # all have it, with differing numbers
    SOME = 3  # all have it, with differing values
    ANY = 4  # some have it


@dataclass(frozen=True)
class Node:
    """`order[start:end]` of the tree are its rows. `kinds[key]`, `codes[key]` (for IS) are its pattern.

    `excluded` are (key, value) pairs: where the way down took the trivial branch, the salient values beside it. Without
    them the pattern would take in the URLs of its siblings.
    """

    id: int
    parent: int
    depth: int
    start: int
    end: int
    kinds: npt.NDArray[np.int8]
    codes: Ints
    excluded: tuple[tuple[int, int], ...]
    split_key: int
    children: tuple[int, ...]

    @property
    def volume(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class PatternTree:
    """Nodes in preorder: a node's descendants follow it, their rows are slices of its rows."""

    training: TrainingSet
    nodes: tuple[Node, ...]
    order: Ints

    @property
    def height(self) -> int:
        return 1 + max((node.depth for node in self.nodes), default=-1)

    def rows(self, node: Node) -> Ints:
        return self.order[node.start : node.end]

    def is_ancestor(self, above: Node, below: Node) -> bool:
        """Whether `above` is a proper ancestor of `below`."""
        return above.id < below.id and above.start <= below.start and below.end <= above.end


def entropy(frequencies: npt.NDArray[np.int64]) -> float:
    """Lei eq. 4: H(k) = Σ −(v_i / N) log(v_i / N)."""
    shares = frequencies[frequencies > 0] / frequencies.sum()
    return float(-(shares * np.log(shares)).sum())


def salient_count(frequencies: list[int], total: int) -> int:
    """How many of the values, by descending frequency, stand before the largest drop (Lei eq. 5).

    A curve that just ends has its drop at the end, down to 1. Only the first √N values are looked at: what has more
    salient values than that is no list of directories and functions, and each of its nodes would hold nothing.
    """
    best, best_drop = 0, DROP_MIN
    for i, frequency in enumerate(frequencies[: math.isqrt(total)]):
        if frequency < SALIENT_FREQUENCY_MIN:
            break
        drop = math.log(frequency / (frequencies[i + 1] if i + 1 < len(frequencies) else 1))
        if drop >= best_drop:
            best, best_drop = i + 1, drop
    return best


def build_pattern_tree(training: TrainingSet) -> PatternTree:
    """Algorithm 1, depth first. Deterministic: ties go to the first key in alphabetical order."""
    builder = _Builder(training)
    if training.size:
        builder.build(-1, 0, 0, training.size, np.zeros(len(training.keys), np.bool_), ())
    return PatternTree(training, tuple(node for node in builder.nodes if node is not None), builder.order)


class _Split(NamedTuple):
    """Labels are 0 for rows without the key, then 1 … for the salient values, then one more for all trivial ones."""

    key: int
    salient: list[int]
    labels: Ints


class _Builder:
    """The recursion of Algorithm 1, over one permutation of the rows."""

    def __init__(self, training: TrainingSet) -> None:
        self._values = training.values
        self._decimal = training.decimal
        self._scratch = np.zeros(len(training.texts), np.int64)
        self.order = np.arange(training.size, dtype=np.int32)
        self.nodes: list[Node | None] = []

    def build(
        self,
        parent: int,
        depth: int,
        start: int,
        end: int,
        done: npt.NDArray[np.bool_],
        excluded: tuple[tuple[int, int], ...],
    ) -> int:
        node_id = len(self.nodes)
        self.nodes.append(None)
        rows = self.order[start:end]
        kinds, codes = summary(self._values, rows, self._decimal)
        split = self._split(rows, kinds, done)
        children = () if split is None else self._build_children(node_id, depth, start, end, split, done, excluded)
        key = -1 if split is None else split.key
        self.nodes[node_id] = Node(node_id, parent, depth, start, end, kinds, codes, excluded, key, children)
        return node_id

    def _build_children(
        self,
        node_id: int,
        depth: int,
        start: int,
        end: int,
        split: _Split,
        done: npt.NDArray[np.bool_],
        excluded: tuple[tuple[int, int], ...],
    ) -> tuple[int, ...]:
        labels = split.labels
        by_label = np.argsort(labels, kind="stable")
        self.order[start:end] = self.order[start:end][by_label]
        bounds = np.flatnonzero(np.diff(labels[by_label])) + 1
        done_below = done.copy()
        done_below[split.key] = True
        beside = (*excluded, *((split.key, code) for code in split.salient))
        edges = [0, *bounds.tolist(), end - start]
        return tuple(
            self.build(node_id, depth + 1, start + low, start + high, done_below, beside if trivial else excluded)
            for low, high in pairwise(edges)
            for trivial in (labels[by_label[low]] > len(split.salient),)
        )

    def _split(self, rows: Ints, kinds: npt.NDArray[np.int8], done: npt.NDArray[np.bool_]) -> _Split | None:
        """The key to split by, and how; None if the node is a leaf."""
        if len(rows) < max(SPLIT_ROWS_MIN, SPLIT_SHARE_MIN * len(self.order)) or len(self.nodes) >= NODES_MAX:
            return None
        keys = np.flatnonzero(~done & (kinds >= Kind.DIGITS)).astype(np.int32)
        entropies = _entropies(self._values, rows, keys, self._scratch)
        for i in np.argsort(entropies, kind="stable"):
            split = self._labels(int(keys[i]), rows)
            if split is not None:
                return split
        return None

    def _labels(self, key: int, rows: Ints) -> _Split | None:
        """None if all rows would go to one child."""
        column = self._values[key][rows]
        codes, counts = np.unique(column, return_counts=True)
        present = codes != ABSENT
        codes, counts = codes[present], counts[present]
        by_count = np.lexsort((codes, -counts))
        salient = codes[by_count[: salient_count(counts[by_count[: math.isqrt(len(rows)) + 1]].tolist(), len(rows))]]
        if len(salient) == 0 and present.all():
            return None
        labels = np.where(column == ABSENT, 0, len(salient) + 1).astype(np.int32)
        for i, code in enumerate(salient):
            labels[column == code] = i + 1
        return _Split(key, salient.tolist(), labels) if labels.min() != labels.max() else None


@njit(cache=True)
def summary(values: Ints, rows: Ints, digits: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int8], Ints]:
    """The pattern of a group: per key what it is (see Kind), and its value if there is only one."""
    kinds = np.zeros(values.shape[0], np.int8)
    codes = np.zeros(values.shape[0], np.int32)
    for key in range(values.shape[0]):
        first = values[key, rows[0]]
        same, absent, decimal = True, False, True
        for row in rows:
            code = values[key, row]
            same &= code == first
            absent |= code == 0
            decimal &= digits[code]
        if same:
            kinds[key] = 0 if first == 0 else 1
            codes[key] = first
        else:
            kinds[key] = 4 if absent else (2 if decimal else 3)
    return kinds, codes


@njit(cache=True)
def _entropies(values: Ints, rows: Ints, keys: Ints, scratch: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Eq. 4 for each key, counting in `scratch`, which is all zero before and after."""
    found = np.zeros(len(keys), np.float64)
    total = len(rows)
    for i in range(len(keys)):
        for row in rows:
            scratch[values[keys[i], row]] += 1
        h = 0.0
        for row in rows:
            count = scratch[values[keys[i], row]]
            if count > 0:
                share = count / total
                h -= share * np.log(share)
                scratch[values[keys[i], row]] = 0
        found[i] = h
    return found


def node_pattern(tree: PatternTree, node: Node) -> list[tuple[str, str]]:
    """The pattern as key–value pairs; `*` stands for differing values, `*?` where some URLs lack the key."""
    signs = {Kind.DIGITS: "*", Kind.SOME: "*", Kind.ANY: "*?"}
    texts = tree.training.texts
    pairs = []
    for key, kind, code in zip(tree.training.keys, node.kinds, node.codes, strict=True):
        if kind != Kind.ABSENT:
            pairs.append((key, texts[code] if kind == Kind.IS else signs[Kind(kind)]))
    return sorted(pairs, key=lambda pair: url_position(pair[0]))


def node_regex(tree: PatternTree, node: Node) -> str:
    """The regular expression of a node (Algorithm 1, line 2), for people: matching is done by key."""
    classes = {Kind.DIGITS: r"\d+", Kind.SOME: "[^/?&;#]*", Kind.ANY: "[^/?&;#]*"}
    pairs: list[tuple[str, str]] = []
    holes: dict[str, str] = {}
    for key, kind, code in zip(tree.training.keys, node.kinds, node.codes, strict=True):
        if kind == Kind.IS:
            pairs.append((key, tree.training.texts[code]))
        elif kind != Kind.ABSENT:
            mark = f"\x01{len(holes)}\x02"
            holes[mark] = classes[Kind(kind)] if kind != Kind.ANY else f"(?:{classes[Kind.ANY]})?"
            pairs.append((key, mark))
    text = re.escape(compose(tuple(sorted(pairs, key=lambda pair: url_position(pair[0])))))
    for mark, hole in holes.items():
        text = text.replace(re.escape(mark), hole)
    return text


def url_position(key: str) -> tuple[int, int, str]:
    """Where a key stands in a URL; named keys among themselves by name."""
    if key.startswith("host_"):
        return 2, index_of(key), ""
    if key.startswith("path_"):
        return 4, index_of(key), ""
    places = {"scheme": 0, "userinfo": 1, "port": 3, "ext": 5, ";": 6, "?": 7, "#": 8}
    return places[key if key in places else key[0]], 0, key
