"""The search for the pieces into which a group falls when a vertex leaves.

All search state is in rows: a step costs what it touches, and a killed task resumes where it stopped. Searches start at
the former neighbours of the vertex (seeds) and take turns, a few edges each, until all pieces but one are complete; the
largest piece is never walked to its end. Each search has a queue of vertices in the order they were reached. Searches
that meet are merged: the queue of the smaller is chained behind that of the larger, and no row is rewritten.

    searches   group, search             its progress, the search it was merged into, its chain of queues
    reached    group, vertex             the search that reached it first
    frontier   group, search, position   the queue: vertices whose edges are still to be followed
    searching  group, search             the unfinished searches
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dustream.core.groups.members import Members
from dustream.core.groups.rows import FrontierRow, MarkRow, ReachedRow, SearchRow
from dustream.core.processor import Table, TaskState, rows_after
from dustream.core.vertex import END

EDGES_A_TURN_MAX = 32
NOBODY = -1


class Searches:
    """The searches of all groups of a task. Methods that touch many rows count them in `rows`."""

    def __init__(self, state: TaskState, members: Members) -> None:
        self._members = members
        self._searches: Table[SearchRow] = state.table("searches")
        self._reached: Table[ReachedRow] = state.table("reached")
        self._frontier: Table[FrontierRow] = state.table("frontier")
        self._searching: Table[MarkRow] = state.table("searching")
        self.rows = 0  # rows touched since the caller last reset it

    def start(self, group: str, number: int, seed: str) -> None:
        self._put(group, number, SearchRow(current=number, tail=number, eldest=seed))
        self._searching.put(_key(group, number), MarkRow())
        self._reach(group, number, number, seed)

    def turns(self, group: str, after: int, limit: int) -> list[int]:
        """Up to `limit` unfinished searches after number `after`."""
        prefix = group + END
        rows = rows_after(self._searching, prefix, f"{after:08x}" if after >= 0 else "", limit)
        return [int(key[len(prefix) :], 16) for key, _ in rows]

    def is_searching(self, group: str, number: int) -> bool:
        return self._searching.get(_key(group, number)) is not None

    def is_finished(self, group: str, number: int) -> bool:
        """Whether the search has found a whole piece."""
        return self._get(group, number).parent == NOBODY and not self.is_searching(group, number)

    def size(self, group: str, number: int) -> int:
        return self._get(group, number).size

    def advance(self, group: str, number: int, edges_max: int) -> int:
        """Take one turn: follow some edges. Returns how many searches ended: merged with another, or finished."""
        search = self._get(group, number)
        queue = self._get(group, search.current)
        while queue.expanded == queue.queued and queue.following != NOBODY:
            search = replace(search, current=queue.following)
            self._put(group, number, search)
            queue = self._get(group, search.current)
        if queue.expanded == queue.queued:
            self._searching.delete(_key(group, number))
            return 1
        return self._follow(group, number, search.current, min(edges_max, EDGES_A_TURN_MAX))

    def _follow(self, group: str, number: int, current: int, edges_max: int) -> int:
        queue = self._get(group, current)
        place = _key(group, current, queue.expanded)
        row = self._frontier.get(place)
        assert row is not None
        others = self._members.others_after(group, row.vertex, queue.edge_after, edges_max)
        self.rows += 1 + len(others)
        met = 0
        for other in others:
            number, ended = self._look(group, number, current, other)
            met += ended
        queue = self._get(group, current)
        if len(others) == edges_max:
            self._put(group, current, replace(queue, edge_after=others[-1]))
        else:
            self._frontier.delete(place)
            self._put(group, current, replace(queue, expanded=queue.expanded + 1, edge_after=""))
        return met

    def _look(self, group: str, number: int, current: int, other: str) -> tuple[int, bool]:
        """Visit the other end of an edge. Returns the search that continues, and whether another one was merged."""
        if not self._members.holds(group, other):
            return number, False
        reached = self._reached.get(f"{group}{END}{other}")
        if reached is None:
            self._reach(group, number, current, other)
            return number, False
        known = self.root(group, reached.search)
        return (number, False) if known == number else (self._meet(group, number, known), True)

    def _reach(self, group: str, number: int, current: int, vertex: str) -> None:
        queue = self._get(group, current)
        self._frontier.put(_key(group, current, queue.queued), FrontierRow(vertex))
        self._put(group, current, replace(queue, queued=queue.queued + 1))
        self._reached.put(f"{group}{END}{vertex}", ReachedRow(current))
        search = self._get(group, number)
        self._put(group, number, replace(search, size=search.size + 1, eldest=min(search.eldest, vertex)))

    def _meet(self, group: str, one: int, other: int) -> int:
        """Merge two searches and chain their queues. The larger stays, which keeps the parent chains short."""
        large, small = (one, other) if self.size(group, one) >= self.size(group, other) else (other, one)
        kept, joined = self._get(group, large), self._get(group, small)
        self._put(group, small, replace(joined, parent=large))
        self._put(group, kept.tail, replace(self._get(group, kept.tail), following=joined.current))
        kept = self._get(group, large)  # the write above changed it if it was its own tail
        eldest = min(kept.eldest, joined.eldest)
        self._put(group, large, replace(kept, size=kept.size + joined.size, eldest=eldest, tail=joined.tail))
        self._searching.delete(_key(group, small))
        return large

    def root(self, group: str, number: int) -> int:
        """The search that this one was merged into, directly or not; itself if it was not."""
        while (parent := self._get(group, number).parent) != NOBODY:
            number = parent
        return number

    # Results

    def some_reached(self, group: str, after: str, limit: int) -> list[tuple[str, int]]:
        """Up to `limit` reached vertices after `after`, each with the search it belongs to now."""
        prefix = group + END
        rows = rows_after(self._reached, prefix, after, limit)
        self.rows += len(rows)
        return [(key[len(prefix) :], self.root(group, row.search)) for key, row in rows]

    def forget_vertex(self, group: str, vertex: str) -> None:
        self._reached.delete(f"{group}{END}{vertex}")

    def row(self, group: str, number: int) -> SearchRow:
        return self._get(group, number)

    def put_row(self, group: str, number: int, row: SearchRow) -> None:
        self._put(group, number, row)

    def clear(self, group: str, limit: int) -> bool:
        """Delete up to `limit` rows of the searches, and return whether none are left."""
        tables: list[Table[Any]] = [self._frontier, self._searching, self._reached, self._searches]
        for table in tables:
            rows = rows_after(table, group + END, "", limit)
            for key, _ in rows:
                table.delete(key)
            self.rows += len(rows)
            limit -= len(rows)
            if limit <= 0:
                return False
        return True

    def _get(self, group: str, number: int) -> SearchRow:
        self.rows += 1
        row = self._searches.get(_key(group, number))
        assert row is not None
        return row

    def _put(self, group: str, number: int, row: SearchRow) -> None:
        self._searches.put(_key(group, number), row)


def _key(group: str, number: int, place: int | None = None) -> str:
    return f"{group}{END}{number:08x}" if place is None else f"{group}{END}{number:08x}{place:08x}"
