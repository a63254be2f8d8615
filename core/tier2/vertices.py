"""The vertices present in one partition, by local number: entries (with their home here) and visitors (probes that
matched here); and the search among them."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dustream.core.processor import Table, TaskState
from dustream.core.similarity import jaccard
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.rows import StarRow, VertexRow, row_key, with_stars, won_markets
from dustream.core.tier2.search_protocol import IndexedPage, Matching, Query, Search
from dustream.core.vertex import url_of
from dustream.schemas.signature import PageSignature


class Vertices:
    """Numbers, rows and contents. Numbers are dense: the number of a removed vertex is reused."""

    def __init__(self, state: TaskState) -> None:
        self._rows: Table[VertexRow] = state.table("vertices")
        self._contents: Table[PageSignature] = state.table("contents")
        self._numbers: dict[str, int] = {}
        self.is_entry: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        self._won: dict[int, int] = {}  # by entry: the markets in which it is a winner
        self.changed: set[int] = set()  # entries added in this step, or whose winner flags changed
        self._decided: dict[str, set[int]] = {}  # by URL: vertices for which an operator's decision on a pair counts
        for key, row in self._rows.scan():
            self._note(int(key, 16), row.vertex, row.entry)
            self._note_decided(int(key, 16), row)
            if row.entry:
                self._won[int(key, 16)] = won_markets(row)
        used = set(self._numbers.values())
        self._next = max(used, default=-1) + 1
        self._free = [number for number in range(self._next) if number not in used]
        heapify(self._free)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, vertex: str) -> int | None:
        return self._numbers.get(vertex)

    def numbers(self) -> list[int]:
        return sorted(self._numbers.values())

    def row(self, number: int) -> VertexRow:
        row = self._rows.get(row_key(number))
        assert row is not None
        return row

    def content(self, number: int) -> PageSignature:
        content = self._contents.get(row_key(number))
        assert content is not None
        return content

    def shingles(self, number: int) -> NDArray[np.uint64]:
        return shingle_array(self.content(number).shingles)

    def new(self, vertex: str, *, entry: bool) -> int:
        """The lowest free number, which depends on the rows alone, not on when the task was opened. The vertex's row
        must follow (`add`) within the same message."""
        if self._free:
            number = heappop(self._free)
        else:
            number = self._next
            self._next += 1
        self._note(number, vertex, entry)
        return number

    def add(self, number: int, row: VertexRow, content: PageSignature) -> None:
        key = row_key(number)
        self._rows.put(key, row)
        self._contents.put(key, content)
        self._note_won(number, row)
        self._note_decided(number, row)

    def put(self, number: int, row: VertexRow) -> None:
        self._rows.put(row_key(number), row)
        self._note_won(number, row)

    def put_star(self, number: int, row: VertexRow, market: int, star: StarRow) -> VertexRow:
        row = with_stars(row, (*row.stars[:market], star, *row.stars[market + 1 :]))
        self._rows.put(row_key(number), row)
        self._note_won(number, row)
        return row

    def _note_won(self, number: int, row: VertexRow) -> None:
        if row.entry:
            won = won_markets(row)
            if self._won.get(number) != won:
                self._won[number] = won
                self.changed.add(number)

    def same_as(self, row: VertexRow, content: PageSignature) -> list[tuple[int, float]]:
        """The vertices present that an operator decided to be the same as this one, ascending, and their exact
        similarities. Both must carry the decision, and one of the two is an entry."""
        url, shingles = url_of(row.vertex), shingle_array(content.shingles)
        found = []
        for number in sorted({number for other in row.same for number in self._decided.get(other, ())}):
            other_row = self.row(number)
            if url in other_row.same and (row.entry or other_row.entry):
                is_exact = other_row.content_hash == row.content_hash
                found.append((number, 1.0 if is_exact else float(jaccard(shingles, self.shingles(number)))))
        return found

    def forget_decided(self, number: int, row: VertexRow) -> None:
        """The vertex is about to be removed: no other one is the same as it any more."""
        if row.same:
            self._decided[url_of(row.vertex)].remove(number)

    def _note_decided(self, number: int, row: VertexRow) -> None:
        if row.same:
            self._decided.setdefault(url_of(row.vertex), set()).add(number)

    def remove(self, number: int, vertex: str) -> None:
        key = row_key(number)
        self._rows.delete(key)
        self._contents.delete(key)
        del self._numbers[vertex]
        self._won.pop(number, None)
        self.changed.discard(number)
        heappush(self._free, number)

    def _note(self, number: int, vertex: str, entry: bool) -> None:
        self._numbers[vertex] = number
        while number >= len(self.is_entry):
            self.is_entry = np.concatenate([self.is_entry, np.zeros_like(self.is_entry)])
        self.is_entry[number] = entry


class Present:
    """The search among the vertices present. Entries and visitors are separate: of a pair compared here, one is an
    entry.

    Labels are those of the forest's components; a component holds entries and visitors."""

    def __init__(self, vertices: Vertices, entries: Search, visitors: Search) -> None:
        self._vertices = vertices
        self.entries = entries
        self.visitors = visitors

    def fill(self, pages: Sequence[IndexedPage]) -> None:
        """Insert vertices from their rows."""
        self.entries.rebuild(page for page in pages if self._is_entry(page.number))
        self.visitors.rebuild(page for page in pages if not self._is_entry(page.number))

    def queries(self, signatures: Sequence[PageSignature]) -> list[Query]:
        """Pages prepared for all searches of the partition."""
        return self.entries.queries(signatures)

    def query(self, number: int) -> Query:
        """A vertex present, prepared for all searches of the partition."""
        return self.entries.queries([self._vertices.content(number)])[0]

    def insert(self, number: int, query: Query, label: int) -> None:
        self._searched(number).insert(number, query, label)

    def remove(self, number: int) -> None:
        self._searched(number).remove(number)

    def relabel(self, numbers: Sequence[int], label: int) -> None:
        """Merge a component into another one."""
        entries, visitors = self._apart(numbers)
        if entries:
            self.entries.relabel(entries, label)
        if visitors:
            self.visitors.relabel(visitors, label)

    def separate(self, numbers: Sequence[int], label: int) -> None:
        """Make a piece of a component a component of its own."""
        entries, visitors = self._apart(numbers)
        if entries:
            self.entries.separate(entries, label)
        if visitors:
            self.visitors.separate(visitors, label)

    def met_by(self, number: int) -> tuple[Search, ...]:
        """The searches for matches of a vertex: entries and visitors for an entry, entries for a visitor."""
        if self._is_entry(number) and len(self.visitors):
            return self.entries, self.visitors
        return (self.entries,)

    def matching(self, number: int, query: Query, after: int, candidates_max: int) -> Matching:
        """The matches of a vertex, in batches: those among the first candidates after a number, including itself."""
        found = [search.matching(query, after, candidates_max) for search in self.met_by(number)]
        if len(found) == 1:
            return found[0]
        last = min((each.last for each in found if each.last >= 0), default=-1)
        pages = [page for each in found for page in each.pages if last < 0 or page[0] <= last]
        return Matching(pages, sum(each.looked for each in found), last)

    def _is_entry(self, number: int) -> bool:
        return bool(self._vertices.is_entry[number])

    def _searched(self, number: int) -> Search:
        return self.entries if self._is_entry(number) else self.visitors

    def _apart(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        entries = [number for number in numbers if self._is_entry(number)]
        return entries, [number for number in numbers if not self._is_entry(number)]
