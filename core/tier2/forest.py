"""The spanning forest of one partition's match graph.

Only forest edges are sent to the groups: one per local component that a vertex matches. When a vertex goes, replacement
edges are looked for from the smaller pieces. So a clique of n pages costs about n edges, and connectivity stays exact.

Labels of components are derived from the edges when the task opens; which number a label has decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.groups.pieces import smaller_pieces
from dustream.core.processor import Table, TaskState
from dustream.core.tier2.search_protocol import Search
from dustream.core.tier2.vertices import Vertices, row_key
from dustream.schemas.signature import PageSignature

REPAIRS_MAX = 256  # vertices compared again in one step
_COMPARED_AT_ONCE = 8  # of more candidates one is compared first: a clique needs no more
_COMPARED_GROWTH = 8
_MIX = np.uint64(0x9E3779B97F4A7C15)

EdgeFound = Callable[[int, int, float], None]
"""Told of each new forest edge: two numbers and their similarity."""


class ForestRow(Struct, frozen=True, array_like=True):
    """Table `forest`, by two numbers, in both directions."""

    similarity: float


class RepairRow(Struct, frozen=True, array_like=True):
    """Table `repairs`, by number: a vertex that must still be compared again."""


class Forest:
    """Edges by row; labels and component sizes in memory."""

    def __init__(
        self, state: TaskState, vertices: Vertices, search: Search, threshold: float, on_edge: EdgeFound
    ) -> None:
        self._edges: Table[ForestRow] = state.table("forest")
        self._repairs: Table[RepairRow] = state.table("repairs")
        self._vertices = vertices
        self._search = search
        self._threshold = threshold
        self._on_edge = on_edge
        self._labels: NDArray[np.int64] = np.full(64, -1, dtype=np.int64)
        self._sizes: dict[int, int] = {}
        self._next_label = 0
        self.compared: dict[int, float] = {}  # similarities that the last search worked out
        self.needs_repair = any(True for _ in self._repairs.scan())
        self._derive_labels()

    def matches(
        self, content: PageSignature, candidates: NDArray[np.int64], label: int | None = None
    ) -> list[tuple[int, float]]:
        """The first match in each component but `label`'s, in an order that depends on the pair of contents.

        A component that is matched needs no more comparing, so a clique does not go quadratic in comparisons; and since
        the order is mixed by content, no vertex of it becomes the hub of all edges."""
        self.compared = {}
        labels = self._labels[candidates]
        if label is not None:
            keep = labels != label
            candidates, labels = candidates[keep], labels[keep]
        found: list[tuple[int, float]] = []
        if not len(candidates):
            return found
        shingles = np.frombuffer(content.shingles, dtype="<u8")
        seed = np.uint64(int.from_bytes(content.content_hash[:8], "little"))
        order = (candidates.astype(np.uint64) ^ seed) * _MIX
        matched: set[int] = set()
        count = _COMPARED_AT_ONCE if len(candidates) <= _COMPARED_AT_ONCE else 1
        while len(candidates):
            first = _smallest(order, count)
            numbers = candidates[first]
            similarities = self._search.similarities(shingles, content.content_hash, numbers)
            for number, its_label, similarity in zip(
                numbers.tolist(), labels[first].tolist(), similarities.tolist(), strict=True
            ):
                self.compared[number] = similarity
                if similarity >= self._threshold and its_label not in matched:
                    matched.add(its_label)
                    found.append((number, similarity))
            if len(first) == len(candidates):
                break
            keep = np.ones(len(candidates), dtype=np.bool_)
            keep[first] = False
            for each in matched:
                keep &= labels != each
            candidates, labels, order = candidates[keep], labels[keep], order[keep]
            count *= _COMPARED_GROWTH
        return found

    def add(self, number: int, matches: list[tuple[int, float]]) -> None:
        """A new vertex, linked to one vertex of each component it matches."""
        self._own_label(number)
        for other, similarity in matches:
            self._link(number, other, similarity)

    def remove(self, number: int) -> None:
        """A vertex goes; what hung on it alone is compared again, at once or, if it is much, later (`repair`)."""
        seeds = list(self._neighbours(number))
        for other in seeds:
            self._edges.delete(row_key(number) + row_key(other))
            self._edges.delete(row_key(other) + row_key(number))
        self._repairs.delete(row_key(number))
        self._forget(number)
        lost = smaller_pieces(seeds, self._neighbours)
        for piece in lost:
            self._split_off(piece)
        again = [each for piece in lost for each in piece]
        for each in again[REPAIRS_MAX:]:
            self._repairs.put(row_key(each), RepairRow())
            self.needs_repair = True
        for each in again[:REPAIRS_MAX]:
            self._repair(each)

    def repair(self) -> None:
        """Compare some more of the vertices that wait for it."""
        due: list[int] = []
        for key, _ in self._repairs.scan():
            if len(due) == REPAIRS_MAX:
                break
            due.append(int(key, 16))
        else:
            self.needs_repair = False
        for number in due:
            self._repairs.delete(row_key(number))
            self._repair(number)

    def _repair(self, number: int) -> None:
        """Replacement edges to other components. Two visitors meet elsewhere: one of a pair must be at home here."""
        content = self._vertices.content(number)
        minhash = np.frombuffer(content.minhash, dtype="<u4")
        candidates = self._search.candidates(content.content_hash, minhash)
        if not self._vertices.is_entry[number]:
            candidates = candidates[self._vertices.is_entry[candidates]]
        for other, similarity in self.matches(content, candidates, int(self._labels[number])):
            self._link(number, other, similarity)

    def _link(self, one: int, other: int, similarity: float) -> None:
        self._edges.put(row_key(one) + row_key(other), ForestRow(similarity))
        self._edges.put(row_key(other) + row_key(one), ForestRow(similarity))
        self._unite(one, other)
        self._on_edge(one, other, similarity)

    def _neighbours(self, number: int) -> Iterator[int]:
        for key, _ in self._edges.scan(row_key(number)):
            yield int(key[8:], 16)

    # Labels

    def _derive_labels(self) -> None:
        """One label per tree of the stored forest, by union-find."""
        parent = {number: number for number in self._vertices.numbers()}
        for key, _ in self._edges.scan():
            one, other = _root(parent, int(key[:8], 16)), _root(parent, int(key[8:], 16))
            parent[max(one, other)] = min(one, other)
        for number in parent:
            self._own_label(number)
            root = _root(parent, number)
            if root != number:  # the root is the smallest of its tree, so it has its label already
                self._take_label(number, int(self._labels[root]))

    def _take_label(self, number: int, label: int) -> None:
        del self._sizes[int(self._labels[number])]
        self._labels[number] = label
        self._sizes[label] += 1

    def _own_label(self, number: int) -> None:
        while number >= len(self._labels):
            self._labels = np.concatenate([self._labels, np.full_like(self._labels, -1)])
        self._labels[number] = self._next_label
        self._sizes[self._next_label] = 1
        self._next_label += 1

    def _unite(self, one: int, other: int) -> None:
        """The smaller component takes the label of the larger: a vertex is relabelled log n times at most."""
        small, large = int(self._labels[one]), int(self._labels[other])
        if small == large:
            return
        start = one
        if self._sizes[small] > self._sizes[large]:
            small, large, start = large, small, other
        self._relabel(start, small, large)
        self._sizes[large] += self._sizes.pop(small)

    def _relabel(self, start: int, label: int, new_label: int) -> None:
        """All vertices of `label`, by walking the forest from one of them."""
        self._labels[start] = new_label
        if self._sizes[label] == 1:
            return
        waiting = [start]
        while waiting:
            for number in self._neighbours(waiting.pop()):
                if self._labels[number] == label:
                    self._labels[number] = new_label
                    waiting.append(number)

    def _split_off(self, piece: list[int]) -> None:
        self._sizes[int(self._labels[piece[0]])] -= len(piece)
        self._labels[np.array(piece, dtype=np.int64)] = self._next_label
        self._sizes[self._next_label] = len(piece)
        self._next_label += 1

    def _forget(self, number: int) -> None:
        label = int(self._labels[number])
        self._labels[number] = -1
        self._sizes[label] -= 1
        if not self._sizes[label]:
            del self._sizes[label]


def _root(parent: dict[int, int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def _smallest(values: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """Positions of the `count` smallest values, in ascending order of value."""
    if count == 1:
        return np.array([np.argmin(values)], dtype=np.intp)
    if count < len(values):
        first = np.argpartition(values, count)[:count]
    else:
        first = np.arange(len(values))
    return first[np.argsort(values[first], kind="stable")]
