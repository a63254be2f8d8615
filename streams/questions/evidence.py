"""Why two pages are in one group: a path of matches between them, along the edges that connect the group.

The edges are those of tier 2's forests: enough to connect the group, not all matches. Which ones they are may differ
between runs; that there is a path does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Protocol, runtime_checkable

from msgspec import Struct

from dustream.core.groups.rows import EdgeRow
from dustream.core.vertex import END, url_of
from dustream.streams.questions.state import ReadableState, RowReader, task_table

VERTICES_VISITED_MAX = 1_000_000
READ_SINGLY_MAX = 200  # vertices; then the rest of the group is read at once, which is ten times as fast
EDGES_READ_MAX = 500_000  # at once: a tenth of a gigabyte

Neighbours = Callable[[str], Iterable[str]]


class Link(Struct, frozen=True):
    """A match: two pages at least as similar as the threshold."""

    one: str
    other: str
    similarity: float


class EvidencePath(Struct, frozen=True):
    """A shortest path from one page to another, and its weakest link."""

    path: list[Link]
    weakest: Link


@runtime_checkable
class SearchesElsewhere(Protocol):
    """A state whose groups may be on other machines: the search reads many rows, so it runs where the group is."""

    def evidence(self, group: str, one: str, other: str) -> EvidencePath | None: ...


def evidence(state: ReadableState, group: str, one: str, other: str) -> EvidencePath | None:
    """The path between two vertices of a group (by its key); None if there is none, or it is too long to search for."""
    if isinstance(state, SearchesElsewhere):
        return state.evidence(group, one, other)
    return search_evidence(state, group, one, other)


def search_evidence(state: ReadableState, group: str, one: str, other: str) -> EvidencePath | None:
    """The same, from rows that can be read here."""
    edges = GroupEdges(task_table(state, "groups", group, "edges"), group)
    way = shortest_way(one, other, edges.of)
    if len(way) < 2:
        return None
    links = []
    for here, there in pairwise(way):
        similarity = edges.of(here).get(there)
        if similarity is None:  # the group is changing
            return None
        links.append(Link(url_of(here), url_of(there), similarity))
    return EvidencePath(links, min(links, key=lambda link: link.similarity))


class GroupEdges:
    """The edges of a group, read vertex by vertex; after some vertices, all that are left at once, unless they are too
    many."""

    def __init__(self, rows: RowReader[EdgeRow], group: str) -> None:
        self._rows = rows
        self._prefix = group + END
        self._known: dict[str, dict[str, float]] = {}
        self._is_read_singly = True

    def of(self, vertex: str) -> Mapping[str, float]:
        """The vertices that match this one, and their similarities."""
        found = self._known.get(vertex)
        if found is None and self._is_read_singly and len(self._known) == READ_SINGLY_MAX:
            self._read_all()
            found = self._known.get(vertex)
        if found is None:
            prefix = f"{self._prefix}{vertex}{END}"
            found = {key[len(prefix) :]: row.similarity for key, row in self._rows.scan(prefix)}
            self._known[vertex] = found
        return found

    def _read_all(self) -> None:
        self._is_read_singly = False
        found: dict[str, dict[str, float]] = {}
        start = len(self._prefix)
        for count, (key, row) in enumerate(self._rows.scan(self._prefix)):
            if count == EDGES_READ_MAX:
                return
            one, _, other = key[start:].partition(END)
            found.setdefault(one, {})[other] = row.similarity
        self._known = found


def shortest_way(one: str, other: str, neighbours: Neighbours) -> list[str]:
    """Bidirectional breadth-first search, one level at a time; empty if the sides do not meet."""
    if one == other:
        return [one]
    before: tuple[dict[str, str], dict[str, str]] = ({one: one}, {other: other})
    rings = (deque([one]), deque([other]))
    while rings[0] and rings[1] and len(before[0]) + len(before[1]) < VERTICES_VISITED_MAX:
        side = 0 if len(rings[0]) <= len(rings[1]) else 1
        meeting = _next_ring(rings[side], before[side], before[1 - side], neighbours)
        if meeting is not None:
            return [*reversed(_walk(before[0], meeting)), *_walk(before[1], meeting)[1:]]
    return []


def _next_ring(ring: deque[str], before: dict[str, str], met: dict[str, str], neighbours: Neighbours) -> str | None:
    """Expand one level; returns the first vertex that the other side has reached."""
    for _ in range(len(ring)):
        vertex = ring.popleft()
        for each in neighbours(vertex):
            if each not in before:
                before[each] = vertex
                ring.append(each)
                if each in met:
                    return each
    return None


def _walk(before: dict[str, str], vertex: str) -> list[str]:
    """The path from a vertex back to the start of its side."""
    way = [vertex]
    while before[vertex] != vertex:
        vertex = before[vertex]
        way.append(vertex)
    return way
