"""Why two pages are in one group: a path of matches between them, along the edges that connect the group.

The edges are those of tier 2's forests: enough to connect the group, not all matches. Which ones they are may differ
between runs; that there is a path does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec import Struct

from dustream.core.vertex import END, url_of
from dustream.streams.questions.state import ReadableState, task_table

VERTICES_VISITED_MAX = 1_000_000

Neighbours = Callable[[str], Iterator[str]]


class Link(Struct, frozen=True):
    """A match: two pages at least as similar as the threshold."""

    one: str
    other: str
    similarity: float


class EvidencePath(Struct, frozen=True):
    """A shortest path from one page to another, and its weakest link."""

    path: list[Link]
    weakest: Link


def evidence(state: ReadableState, group: str, one: str, other: str) -> EvidencePath | None:
    """The path between two vertices of a group (by its key); None if there is none, or it is too long to search for."""
    edges = task_table(state, "groups", group, "edges")

    def neighbours(vertex: str) -> Iterator[str]:
        prefix = f"{group}{END}{vertex}{END}"
        return (key[len(prefix) :] for key in edges.names(prefix))

    way = shortest_way(one, other, neighbours)
    if len(way) < 2:
        return None
    links = []
    for here, there in pairwise(way):
        edge = edges.get(f"{group}{END}{here}{END}{there}")
        assert edge is not None
        links.append(Link(url_of(here), url_of(there), edge.similarity))
    return EvidencePath(links, min(links, key=lambda link: link.similarity))


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
