"""Memberships and edges, one row each: the cost of a step depends on the rows it touches, not on the size of the group.

Memberships are stored under a *place*: a group's key, or the key of a transfer that is still arriving. Edges are
stored in both directions. Edges to vertices of other groups (half-edges) are stored too, so they are present when the
vertex arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from dustream.core.groups.rows import EdgeRow, MembershipRow
from dustream.core.processor import Table, TaskState, rows_after
from dustream.core.vertex import END
from dustream.schemas.groups import EdgeRecord, MembershipRecord

ARRIVING = "\1"


def arrival_place(group: str, source: str) -> str:
    return f"{group}{ARRIVING}{source}"


class Members:
    """The memberships and edges of all places of a task."""

    def __init__(self, state: TaskState) -> None:
        self.memberships: Table[MembershipRow] = state.table("memberships")
        self._edges: Table[EdgeRow] = state.table("edges")

    def membership(self, place: str, vertex: str) -> MembershipRow | None:
        return self.memberships.get(f"{place}{END}{vertex}")

    def put_membership(self, place: str, vertex: str, row: MembershipRow) -> None:
        self.memberships.put(f"{place}{END}{vertex}", row)

    def delete_membership(self, place: str, vertex: str) -> None:
        self.memberships.delete(f"{place}{END}{vertex}")

    def holds(self, place: str, vertex: str) -> bool:
        return self.memberships.get(f"{place}{END}{vertex}") is not None

    def vertices(self, place: str) -> Iterator[str]:
        prefix = place + END
        for key, _ in self.memberships.scan(prefix):
            yield key[len(prefix) :]

    def eldest(self, place: str) -> str:
        """The vertex with the smallest (first seen, URL); '' if the place is empty."""
        return next(self.vertices(place), "")

    def has_edge(self, place: str, vertex: str, other: str) -> bool:
        return self._edges.get(f"{place}{END}{vertex}{END}{other}") is not None

    def link(self, place: str, vertex: str, other: str, similarity: float) -> None:
        row = EdgeRow(similarity)
        self._edges.put(f"{place}{END}{vertex}{END}{other}", row)
        self._edges.put(f"{place}{END}{other}{END}{vertex}", row)

    def unlink(self, place: str, vertex: str, other: str) -> None:
        self._edges.delete(f"{place}{END}{vertex}{END}{other}")
        self._edges.delete(f"{place}{END}{other}{END}{vertex}")

    def edges(self, place: str, vertex: str) -> Iterator[EdgeRecord]:
        prefix = f"{place}{END}{vertex}{END}"
        for key, row in self._edges.scan(prefix):
            yield EdgeRecord(vertex, key[len(prefix) :], row.similarity)

    def has_edges(self, place: str, vertex: str) -> bool:
        return next(self.edges(place, vertex), None) is not None

    def others_after(self, place: str, vertex: str, after: str, limit: int) -> list[str]:
        """The other ends of up to `limit` edges of the vertex, in this group or another, after `after`."""
        prefix = f"{place}{END}{vertex}{END}"
        return [key[len(prefix) :] for key, _ in rows_after(self._edges, prefix, after, limit)]

    def add(self, place: str, memberships: Iterable[MembershipRecord], edges: Iterable[EdgeRecord]) -> int:
        """Store memberships and edges, and return how many of the memberships are new at this place."""
        new = 0
        for membership in memberships:
            new += not self.holds(place, membership.vertex)
            self.put_membership(place, membership.vertex, MembershipRow(membership.counter, membership.pass_from))
        for edge in edges:
            self.link(place, edge.vertex, edge.other, edge.similarity)
        return new

    def take(
        self, place: str, vertices: Iterator[str], rows_max: int
    ) -> tuple[list[MembershipRecord], list[EdgeRecord], bool]:
        """Remove memberships with their edges, about `rows_max` rows, and return them, and whether none are left.

        A membership with many edges takes several calls: its row is deleted together with its last edges."""
        memberships: list[MembershipRecord] = []
        edges: list[EdgeRecord] = []
        for vertex in vertices:
            membership, some, gone = self.take_one(place, vertex, rows_max - len(memberships) - len(edges) - 1)
            memberships.append(membership)
            edges += some
            if not gone or len(memberships) + len(edges) >= rows_max:
                return memberships, edges, False
        return memberships, edges, True

    def take_one(self, place: str, vertex: str, edges_max: int) -> tuple[MembershipRecord, list[EdgeRecord], bool]:
        """Remove some edges of a membership, at least one, and return them, and whether it was removed with them."""
        row = self.membership(place, vertex)
        assert row is not None
        room = max(1, edges_max)
        edges = list(islice(self.edges(place, vertex), room + 1))
        for edge in edges[:room]:
            self.unlink(place, vertex, edge.other)
        gone = len(edges) <= room
        if gone:
            self.delete_membership(place, vertex)
        return MembershipRecord(vertex, row.counter, row.pass_from), edges[:room], gone
