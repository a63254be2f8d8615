"""Tokens and edges, one row each: the cost of a step depends on the rows it touches, not on the size of the group.

Tokens are stored under a *place*: a group's key, or the key of a transfer that is still arriving. Edges are stored in
both directions. Edges to vertices of other groups (half-edges) are stored too, so they are present when the vertex
arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from dustream.core.groups.rows import EdgeRow, TokenRow
from dustream.core.processor import Table, TaskState, rows_after
from dustream.core.vertex import END
from dustream.schemas.groups import EdgeRecord, TokenRecord

ARRIVING = "\1"


def arrival_place(group: str, source: str) -> str:
    return f"{group}{ARRIVING}{source}"


class Members:
    """The tokens and edges of all places of a task."""

    def __init__(self, state: TaskState) -> None:
        self.tokens: Table[TokenRow] = state.table("tokens")
        self._edges: Table[EdgeRow] = state.table("edges")

    def token(self, place: str, vertex: str) -> TokenRow | None:
        return self.tokens.get(f"{place}{END}{vertex}")

    def put_token(self, place: str, vertex: str, row: TokenRow) -> None:
        self.tokens.put(f"{place}{END}{vertex}", row)

    def delete_token(self, place: str, vertex: str) -> None:
        self.tokens.delete(f"{place}{END}{vertex}")

    def holds(self, place: str, vertex: str) -> bool:
        return self.tokens.get(f"{place}{END}{vertex}") is not None

    def vertices(self, place: str) -> Iterator[str]:
        prefix = place + END
        for key, _ in self.tokens.scan(prefix):
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

    def add(self, place: str, tokens: Iterable[TokenRecord], edges: Iterable[EdgeRecord]) -> int:
        """Store tokens and edges, and return how many of the tokens are new at this place."""
        new = 0
        for token in tokens:
            new += not self.holds(place, token.vertex)
            self.put_token(place, token.vertex, TokenRow(token.counter, token.pass_from))
        for edge in edges:
            self.link(place, edge.vertex, edge.other, edge.similarity)
        return new

    def take(
        self, place: str, vertices: Iterator[str], rows_max: int
    ) -> tuple[list[TokenRecord], list[EdgeRecord], bool]:
        """Remove tokens with their edges, about `rows_max` rows, and return them, and whether none are left.

        A token with many edges takes several calls: its row is deleted together with its last edges."""
        tokens: list[TokenRecord] = []
        edges: list[EdgeRecord] = []
        for vertex in vertices:
            token, some, gone = self.take_one(place, vertex, rows_max - len(tokens) - len(edges) - 1)
            tokens.append(token)
            edges += some
            if not gone or len(tokens) + len(edges) >= rows_max:
                return tokens, edges, False
        return tokens, edges, True

    def take_one(self, place: str, vertex: str, edges_max: int) -> tuple[TokenRecord, list[EdgeRecord], bool]:
        """Remove some edges of a token, at least one, and return them, and whether the token was removed with them."""
        row = self.token(place, vertex)
        assert row is not None
        room = max(1, edges_max)
        edges = list(islice(self.edges(place, vertex), room + 1))
        for edge in edges[:room]:
            self.unlink(place, vertex, edge.other)
        gone = len(edges) <= room
        if gone:
            self.delete_token(place, vertex)
        return TokenRecord(vertex, row.counter, row.pass_from), edges[:room], gone
