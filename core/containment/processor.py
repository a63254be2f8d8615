"""The containment processor: which page is contained in which. By language, so that all that may meet do.

Rules:
- v can be contained in w if the repeatability of v over w is at least δ and w is better in the order: longer, or, of
  codes of one length, first by the winner criteria (or by these alone, if so set).
- Only who is alone in its group can be contained: the winner of a group is who its duplicates are told to keep.
- Only who is kept can contain: not another's duplicate, and not contained itself.
- A page is contained in the best page that can contain it.
Read from the best to the worst this has one solution, whatever came first. A change concerns worse pages only: after
each batch, those concerned are looked at once each, from the best on.

Pages of one code stand and fall together, so the index holds codes, not pages: a thousand pages of one code are one
candidate.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.containment.index import ContainmentIndex
from dustream.core.pages.vertex import url_of
from dustream.core.processor import Send, Table, TaskState
from dustream.schemas.containment import ContainmentMessage, DropCode, KeepCode, Place, PlaceCode, ReorderCode
from dustream.schemas.pages import Contained

Rank = tuple[bytes, str]
"""(order, vertex): the smaller is better."""


class CodeRow(Struct, frozen=True, array_like=True):
    """Table `codes`, by vertex. `container` is the vertex that it is contained in, "" for none."""

    code: str
    order: bytes
    place: Place = "alone"
    container: str = ""
    share: float = 0.0

    @property
    def is_kept(self) -> bool:
        return self.place != "duplicate" and not self.container


TABLES: dict[str, Any] = {"codes": CodeRow}


class ContainmentProcessor:
    """One task of `containment`. What is beside the table is derived from it."""

    def __init__(self, delta: float) -> None:
        self._delta = delta

    def open(self, state: TaskState) -> None:
        self._table: Table[CodeRow] = state.table("codes")
        self._rows: dict[str, CodeRow] = {}
        self._members: dict[str, list[Rank]] = {}
        self._kept: dict[str, list[Rank]] = {}
        self._index = ContainmentIndex(self._delta)
        self._concerned: list[Rank] = []
        for vertex, row in self._table.scan():
            self._add(vertex, row)

    def process(self, state: TaskState, messages: Sequence[ContainmentMessage]) -> list[Send]:
        for message in messages:
            self._take(message)
        return list(self._settle())

    def _take(self, message: ContainmentMessage) -> None:
        vertex = message.vertex
        if isinstance(message, KeepCode):
            self._come(vertex, CodeRow(message.code, message.order))
            return
        row = self._rows.get(vertex)
        if row is None:
            return
        self._go(vertex, row)
        if isinstance(message, PlaceCode):
            self._come(vertex, replace(row, place=message.place))
        elif isinstance(message, ReorderCode):
            self._come(vertex, replace(row, order=message.order))
        else:
            assert isinstance(message, DropCode)
            self._table.delete(vertex)

    def _come(self, vertex: str, row: CodeRow) -> None:
        """What it was told stays in its row until it is told otherwise; whether that is still true is looked at."""
        self._add(vertex, row)
        self._table.put(vertex, row)
        heappush(self._concerned, (row.order, vertex))
        if row.is_kept:
            self._concern_covered(vertex, row)

    def _go(self, vertex: str, row: CodeRow) -> None:
        if row.is_kept:
            self._concern_covered(vertex, row)
        self._remove(vertex, row)

    # The fixed point

    def _settle(self) -> Iterator[Send]:
        """Look at the pages concerned, from the best on; each change may concern worse ones."""
        last: Rank | None = None
        while self._concerned:
            rank = heappop(self._concerned)
            row = self._rows.get(rank[1])
            if rank == last or row is None or row.order != rank[0]:
                continue
            last = rank
            container, share = self._container(rank, row)
            if (container, share) != (row.container, row.share):
                yield self._tell(rank[1], row, replace(row, container=container, share=share))

    def _tell(self, vertex: str, before: CodeRow, now: CodeRow) -> Send:
        self._rows[vertex] = now
        self._table.put(vertex, now)
        if before.is_kept != now.is_kept:
            _change(self._kept, now.code, (now.order, vertex), now.is_kept)
            self._concern_covered(vertex, now)
        container = url_of(now.container) if now.container else ""
        url = url_of(vertex)
        return Send("pages", url, Contained(vertex, container, now.share))

    def _container(self, rank: Rank, row: CodeRow) -> tuple[str, float]:
        """The best page that is kept, better than this one, and repeated by it; and the share that it has of it."""
        best: tuple[Rank, float] | None = None
        if row.place == "alone":
            for code, _, common in self._index.search(row.code):
                share = common / len(row.code)
                kept = self._kept.get(code)
                if share >= self._delta and kept and kept[0] < (rank if best is None else best[0]):
                    best = kept[0], share
        return ("", 0.0) if best is None else (best[0][1], best[1])

    def _concern_covered(self, vertex: str, row: CodeRow) -> None:
        """Look at all worse pages that are contained in this one, or could be and are in none that is better."""
        rank = (row.order, vertex)
        for code, chars, common in self._index.search(row.code):
            if common / chars < self._delta:
                continue
            members = self._members[code]
            for other in members[bisect_left(members, rank) :]:
                if other != rank and self._may_change(rank, self._rows[other[1]]):
                    heappush(self._concerned, other)

    def _may_change(self, rank: Rank, covered: CodeRow) -> bool:
        if covered.place != "alone":
            return False
        container = self._rows.get(covered.container)
        return container is None or (container.order, covered.container) >= rank

    # What is derived

    def _add(self, vertex: str, row: CodeRow) -> None:
        self._rows[vertex] = row
        if row.code not in self._members:
            self._index.put(row.code, row.code)
        _change(self._members, row.code, (row.order, vertex), True)
        if row.is_kept:
            _change(self._kept, row.code, (row.order, vertex), True)

    def _remove(self, vertex: str, row: CodeRow) -> None:
        del self._rows[vertex]
        _change(self._members, row.code, (row.order, vertex), False)
        if row.is_kept:
            _change(self._kept, row.code, (row.order, vertex), False)
        if row.code not in self._members:
            self._index.remove(row.code)


def _change(ranks: dict[str, list[Rank]], code: str, rank: Rank, present: bool) -> None:
    """Put a rank into its code's list, or take it out; an empty list goes."""
    listed = ranks.setdefault(code, [])
    if present:
        insort(listed, rank)
    else:
        del listed[bisect_left(listed, rank)]
        if not listed:
            del ranks[code]
