"""The adjacency lists of a forest in memory, 32 bytes per edge.

An edge is a pair of half-edges, at an even index and the next one. The half-edges of a vertex form a doubly linked
list, so an edge is removed without scanning the other edges of its ends.
"""

from __future__ import annotations

from array import array

NONE = -1
VERTICES_MIN = 64


class Adjacency:
    """Edges between vertices, which are identified by small numbers."""

    def __init__(self) -> None:
        self._first = array("i")  # by vertex
        self._other = array("i")  # by half-edge, as are the next two
        self._next = array("i")
        self._previous = array("i")
        self._free = NONE  # the first free pair; free pairs are chained by `_next`

    def neighbours(self, number: int) -> list[int]:
        """In ascending order, so the order of insertion does not matter."""
        found, others, following = [], self._other, self._next
        half = self._first[number] if number < len(self._first) else NONE
        while half != NONE:
            found.append(others[half])
            half = following[half]
        found.sort()
        return found

    def link(self, one: int, other: int) -> None:
        pair = self._free
        if pair == NONE:
            pair = len(self._other)
            for column in (self._other, self._next, self._previous):
                column.extend((NONE, NONE))
        else:
            self._free = self._next[pair]
        self._chain(one, pair, other)
        self._chain(other, pair + 1, one)

    def remove(self, number: int) -> list[int]:
        """Remove a vertex and return its former neighbours, ascending."""
        found = self.neighbours(number)
        half = self._first[number] if found else NONE
        while half != NONE:
            following = self._next[half]
            self._unchain(self._other[half], half ^ 1)
            pair = half & ~1
            self._next[pair], self._free = self._free, pair
            half = following
        if found:
            self._first[number] = NONE
        return found

    def _chain(self, number: int, half: int, other: int) -> None:
        first = self._first
        while number >= len(first):
            first.extend([NONE] * max(VERTICES_MIN, len(first)))
        following = first[number]
        self._other[half], self._next[half], self._previous[half] = other, following, NONE
        if following != NONE:
            self._previous[following] = half
        first[number] = half

    def _unchain(self, number: int, half: int) -> None:
        before, after = self._previous[half], self._next[half]
        if before == NONE:
            self._first[number] = after
        else:
            self._next[before] = after
        if after != NONE:
            self._previous[after] = before
