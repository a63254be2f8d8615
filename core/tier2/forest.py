"""The spanning forest of one partition's match graph.

Only forest edges are sent to the groups: one per local component that a vertex matches. When a vertex leaves,
replacement edges are searched from the smaller pieces. So a clique of n pages costs about n edges, and connectivity
stays exact.

Edges are stored in rows, one each, and in memory, where they are traversed (adjacency.py). Labels of components are
derived from them when the task opens; the value of a label does not matter. The search knows the labels too: it stops
at the first match in a component, so its cost does not grow with the size of a bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.processor import Table, TaskState
from dustream.core.tier2.adjacency import Adjacency
from dustream.core.tier2.cleared import Cleared
from dustream.core.tier2.pieces import smaller_pieces
from dustream.core.tier2.rows import VertexRow, row_key
from dustream.core.tier2.search_protocol import Match, Query
from dustream.core.tier2.vertices import Present, Vertices

REPAIRS_MAX = 256  # vertices compared again in one step
_LABELS_PER_WALK = 2_000  # labels scanned in the time of one step of a forest walk

EdgeFound = Callable[[str, int, float], None]
"""Called with each new forest edge: a vertex, the number of another one, and their similarity."""


class ForestRow(Struct, frozen=True, array_like=True):
    """Table `forest`, by two numbers, the smaller one first."""

    similarity: float


class RepairRow(Struct, frozen=True, array_like=True):
    """Table `repairs`, by number: a vertex still to be compared again."""


class Forest:
    """Edges by row and in memory; labels and component sizes in memory."""

    def __init__(
        self, state: TaskState, vertices: Vertices, present: Present, on_edge: EdgeFound, repairs_max: int
    ) -> None:
        self._edges: Table[ForestRow] = state.table("forest")
        self._adjacency = Adjacency()
        self._repairs: Table[RepairRow] = state.table("repairs")
        self._vertices = vertices
        self._present = present
        self._on_edge = on_edge
        self._repairs_max = repairs_max
        self._labels: NDArray[np.int64] = np.full(64, -1, dtype=np.int64)
        self._sizes: dict[int, int] = {}
        self._next_label = 0
        self._repaired = Cleared()
        self.needs_repair = any(True for _ in self._repairs.scan())
        self._derive_labels()

    def label(self, number: int) -> int:
        """The component of a vertex present."""
        return int(self._labels[number])

    def add(self, number: int, vertex: str, query: Query, matches: list[Match]) -> None:
        """Add a vertex, linked to one vertex of each component that it matches."""
        if not matches:
            label = self._own_label(number)
        else:
            label = max([match.component for match in matches], key=self._sizes.__getitem__)
            self._join(number, label)
        self._present.insert(number, query, label)
        for match in matches:
            self._link(number, vertex, match)

    def remove(self, number: int) -> None:
        """Remove a vertex. The pieces that it connected are compared again, at once or, if large, later (`repair`)."""
        seeds = self._adjacency.remove(number)
        for other in seeds:
            self._edges.delete(_edge_key(number, other))
        if self.needs_repair:
            self._repairs.delete(row_key(number))
        self._present.remove(number)
        self._forget(number)
        lost = smaller_pieces(seeds, self._adjacency.neighbours)
        for piece in lost:
            self._split_off(piece)
        again = [each for piece in lost for each in piece]
        for each in again[self._repairs_max :]:
            self._repairs.put(row_key(each), RepairRow())
            self._repaired.written(row_key(each))
            self.needs_repair = True
        for each in again[: self._repairs_max]:
            self._repair(each)

    def repair(self) -> None:
        """Compare some more of the vertices due for it."""
        due = [key for key, _ in islice(self._repairs.scan("", self._repaired.after("")), self._repairs_max)]
        self.needs_repair = len(due) == self._repairs_max
        for key in due:
            self._repairs.delete(key)
            self._repaired.deleted("", key)
            self._repair(int(key, 16))

    def _repair(self, number: int) -> None:
        """Find replacement edges to other components. Two visitors are not compared: one of a pair must be an entry."""
        query, row = self._present.query(number), self._vertices.row(number)
        for search in self._present.met_by(number):
            for match in search.first_match_per_component(query, order_key(row.vertex), self.label(number)):
                self._link(number, row.vertex, match)
        for other, similarity in self._vertices.same_as(row, query.signature) if row.same else ():
            if self.label(other) != self.label(number):
                self._link(number, row.vertex, Match(other, similarity, self.label(other)))

    def with_decided(self, row: VertexRow, query: Query, matches: list[Match]) -> list[Match]:
        """The matches of a new vertex by similarity, and of the other components one each that it matches because an
        operator decided so. Entries only."""
        found = {match.component: match for match in matches}
        for number, similarity in self._vertices.same_as(row, query.signature):
            if self._vertices.is_entry[number]:
                found.setdefault(self.label(number), Match(number, similarity, self.label(number)))
        return list(found.values())

    def _link(self, number: int, vertex: str, match: Match) -> None:
        self._edges.put(_edge_key(number, match.number), ForestRow(match.similarity))
        self._adjacency.link(number, match.number)
        if self._labels[number] != match.component:
            self._unite(number, match.number)
        self._on_edge(vertex, match.number, match.similarity)

    # Labels

    def _derive_labels(self) -> None:
        """One label per tree of the stored forest, by union-find."""
        parent = {number: number for number in self._vertices.numbers()}
        for key, _ in self._edges.scan():
            numbers = int(key[:8], 16), int(key[8:], 16)
            self._adjacency.link(*numbers)
            one, other = _root(parent, numbers[0]), _root(parent, numbers[1])
            parent[max(one, other)] = min(one, other)
        for number in parent:
            root = _root(parent, number)
            if root == number:
                self._own_label(number)
            else:  # the root is the smallest number of its tree, so it has its label already
                self._join(number, self.label(root))

    def _own_label(self, number: int) -> int:
        label = self._next_label
        self._sizes[label] = 0
        self._join(number, label)
        self._next_label += 1
        return label

    def _join(self, number: int, label: int) -> None:
        while number >= len(self._labels):
            self._labels = np.concatenate([self._labels, np.full_like(self._labels, -1)])
        self._labels[number] = label
        self._sizes[label] += 1

    def _unite(self, one: int, other: int) -> None:
        """The smaller component takes the label of the larger: a vertex is relabelled at most log n times."""
        small, large = int(self._labels[one]), int(self._labels[other])
        if small == large:
            return
        start = one
        if self._sizes[small] > self._sizes[large]:
            small, large, start = large, small, other
        self._relabel(start, small, large)
        self._sizes[large] += self._sizes.pop(small)

    def _relabel(self, start: int, label: int, new_label: int) -> None:
        found = self._labelled(start, label)
        self._labels[found] = new_label
        self._present.relabel(found.tolist(), new_label)

    def _labelled(self, start: int, label: int) -> NDArray[np.int64]:
        """All vertices of a component: by walking the forest if they are few, else by scanning the labels."""
        size = self._sizes[label]
        if size * _LABELS_PER_WALK > len(self._labels):
            return np.flatnonzero(self._labels == label) if size > 1 else np.array([start])
        found = [start]
        seen = {start}
        for each in found:  # grows during the loop
            linked = self._adjacency.neighbours(each)
            more = [number for number in linked if number not in seen and self.label(number) == label]
            seen.update(more)
            found += more
        return np.array(found)

    def _split_off(self, piece: list[int]) -> None:
        self._sizes[self.label(piece[0])] -= len(piece)
        self._labels[np.array(piece, dtype=np.int64)] = self._next_label
        self._present.separate(piece, self._next_label)
        self._sizes[self._next_label] = len(piece)
        self._next_label += 1

    def _forget(self, number: int) -> None:
        label = int(self._labels[number])
        self._labels[number] = -1
        self._sizes[label] -= 1
        if not self._sizes[label]:
            del self._sizes[label]


def _edge_key(one: int, other: int) -> str:
    return row_key(min(one, other)) + row_key(max(one, other))


def _root(parent: dict[int, int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def order_key(vertex: str) -> int:
    """Where the search starts in a component: a hash of the name, so that no vertex becomes a hub of edges, not even
    among exact copies."""
    return zlib.crc32(vertex.encode())
