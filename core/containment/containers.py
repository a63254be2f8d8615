"""Who contains whom in one market.

Rules:
- v can be contained in w if the repeatability of v over w is at least δ and w is better in the order: longer, or, of
  codes of one length, first by the winner criteria (or by these alone, if so set).
- Only who is alone in its group can be contained: the winner of a group is who its duplicates are told to keep.
- Only who is kept can contain: not another's duplicate, and not contained itself.
- A page is contained in the best page that can contain it.
Read from the best to the worst this has one solution, whatever came first. A change concerns worse pages only; those
concerned are looked at from the best on.

When a page is looked at: at once, if its container is gone or kept no more. If all there may be is a better container
than it has, it *waits*, like every new page: most that have a container by their codes turn out to be near duplicates
a moment later, and would be told one thing and then the other.

Pages of one code stand and fall together, so the index holds codes, not pages: a thousand pages of one code are one
candidate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Literal

from msgspec.structs import replace

from dustream.core.containment.index import ContainmentIndex, Repeated
from dustream.core.containment.rows import CodeRows, MarketRow
from dustream.core.pages.vertex import url_of
from dustream.core.processor import Send
from dustream.schemas.pages import Contained, Verdict

Rank = tuple[bytes, str]
"""(order, vertex): the smaller is better."""

Who = Literal["urgent", "waited", "all"]


class Containers:
    """One market of a task. All but the rows is derived from them."""

    def __init__(self, delta: float, market: int, rows: CodeRows, index: ContainmentIndex) -> None:
        self._delta = delta
        self._market = market
        self._rows = rows
        self._index = index
        self._members: dict[str, list[Rank]] = {}
        self._kept: dict[str, list[Rank]] = {}
        self._inside: dict[str, set[str]] = {}
        self._waiting: set[str] = set()
        self._waited: set[str] = set()  # those of them that waited when pages were last looked at
        self._due: list[Rank] = []
        self._nobody_waits = False
        self.is_cut = False

    def add(self, vertex: str, code: str, row: MarketRow) -> None:
        """List a vertex as its row says."""
        rank = (row.order, vertex)
        _change(self._members, code, rank, True)
        if row.is_kept:
            _change(self._kept, code, rank, True)
        if row.container:
            self._move(vertex, "", row.container)
        if row.waiting:
            self._waiting.add(vertex)

    def has(self, code: str) -> bool:
        """Whether any page listed has this code."""
        return code in self._members

    def come(self, vertex: str, code: str, row: MarketRow) -> None:
        """What its page was told stays in the row until it is told otherwise; if that is still true is to be seen."""
        row = replace(row, waiting=row.place == "alone")
        self._rows.put_market(vertex, self._market, row)
        self.add(vertex, code, row)
        if row.container:
            heappush(self._due, (row.order, vertex))
        elif row.place == "winner":
            self._kept_now((row.order, vertex), self._index.search(code))

    def go(self, vertex: str, code: str, row: MarketRow) -> None:
        _change(self._members, code, (row.order, vertex), False)
        self._waiting.discard(vertex)
        if row.container:
            self._move(vertex, row.container, "")
        if row.is_kept:
            _change(self._kept, code, (row.order, vertex), False)
            self._not_kept_now(vertex)

    def settle(self, looks_max: int, who: Who) -> Iterator[Send]:
        """Look at pages from the best on: those that cannot wait, also those that have waited since before the last
        time, or all; each change may concern worse ones. If there are more than `looks_max`, it `is_cut`, and the rest
        waits."""
        self._nobody_waits = who == "all"
        if who != "urgent":
            called = self._waiting if who == "all" else self._waited & self._waiting
            self._due += [(self._row(vertex).order, vertex) for vertex in called]
            heapify(self._due)
            self._waited = self._waiting - called
        last: Rank | None = None
        while self._due and looks_max:
            rank = heappop(self._due)
            if rank != last and self._is_current(rank):
                last, looks_max = rank, looks_max - 1
                yield from self._look(rank)
        self._postpone()

    def _postpone(self) -> None:
        left = [vertex for _, vertex in filter(self._is_current, self._due)]
        self._due, self._nobody_waits = [], False
        self.is_cut = bool(left)
        for vertex in left:
            self._wait(vertex, self._row(vertex))

    def _row(self, vertex: str) -> MarketRow:
        return self._rows.market(vertex, self._market)

    def _is_current(self, rank: Rank) -> bool:
        return rank[1] in self._rows and self._row(rank[1]).order == rank[0]

    def _look(self, rank: Rank) -> Iterator[Send]:
        """One search tells who may contain it and, if it is kept, whom it may contain."""
        vertex = rank[1]
        row, code = self._row(vertex), self._rows.code(vertex)
        found = [] if row.place == "duplicate" else self._index.search(code)
        container, share = self._container(rank, code, row, found)
        now = replace(row, container=container, share=share, waiting=False)
        self._waiting.discard(vertex)
        if now == row:
            return
        self._rows.put_market(vertex, self._market, now)
        self._concern(rank, code, row, now, found)
        if (now.container, now.share) != (row.container, row.share):
            self._move(vertex, row.container, now.container)
            verdict = Verdict(url_of(now.container), now.share, exact=False, contained=True) if now.container else None
            yield Send("pages", url_of(vertex), Contained(vertex, self._market, verdict))

    def _concern(self, rank: Rank, code: str, before: MarketRow, now: MarketRow, found: list[Repeated]) -> None:
        """The worse pages that a look at a page concerns. A page that waited has not taken anybody yet."""
        if before.is_kept != now.is_kept:
            _change(self._kept, code, rank, now.is_kept)
        if now.is_kept and (before.waiting or not before.is_kept):
            self._kept_now(rank, found)
        elif before.is_kept and not now.is_kept:
            self._not_kept_now(rank[1])

    def _container(self, rank: Rank, code: str, row: MarketRow, found: list[Repeated]) -> tuple[str, float]:
        """The best page that is kept, better than this one, and repeated by it; and the share that it has of it."""
        best: tuple[Rank, float] | None = None
        if row.place == "alone":
            for other, _, common in found:
                share = common / len(code)
                kept = self._kept.get(other)
                if share >= self._delta and kept and kept[0] < (rank if best is None else best[0]):
                    best = kept[0], share
        return ("", 0.0) if best is None else (best[0][1], best[1])

    def _kept_now(self, rank: Rank, found: list[Repeated]) -> None:
        """Worse pages that it contains, and that are in none that is better, have another container."""
        for other, chars, common in found:
            if common / chars >= self._delta:
                members = self._members.get(other, [])
                for covered in members[bisect_right(members, rank) :]:
                    row = self._row(covered[1])
                    if row.place == "alone" and not self._has_better(row, rank):
                        self._wait(covered[1], row)

    def _not_kept_now(self, vertex: str) -> None:
        """Pages that are contained in it must be told so at once."""
        for inside in self._inside.get(vertex, ()):
            heappush(self._due, (self._row(inside).order, inside))

    def _move(self, vertex: str, before: str, now: str) -> None:
        """From one container to another, "" for none."""
        if before:
            self._inside[before].remove(vertex)
            if not self._inside[before]:
                del self._inside[before]
        if now:
            self._inside.setdefault(now, set()).add(vertex)

    def _has_better(self, row: MarketRow, rank: Rank) -> bool:
        if row.container not in self._rows:
            return False
        return (self._row(row.container).order, row.container) < rank

    def _wait(self, vertex: str, row: MarketRow) -> None:
        if not row.waiting:
            self._rows.put_market(vertex, self._market, replace(row, waiting=True))
            self._waiting.add(vertex)
        if self._nobody_waits:
            heappush(self._due, (row.order, vertex))


def _change(ranks: dict[str, list[Rank]], code: str, rank: Rank, present: bool) -> None:
    """Put a rank into its code's list, or take it out; an empty list goes."""
    listed = ranks.setdefault(code, [])
    if present:
        insort(listed, rank)
    else:
        del listed[bisect_left(listed, rank)]
        if not listed:
            del ranks[code]
