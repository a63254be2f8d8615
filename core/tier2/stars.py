"""Stars: a vertex is a winner iff no better winner matches it, else a duplicate of the best winner that does.

That is the lexicographically first maximal independent set of the match graph in winner order: a pure function of the
graph, decided here, where every matching pair meets. One instance per market and partition.

- Whether an entry is a winner is decided here, its home: it is, unless a winner covers it, here or in a partition it
  probed. A visitor is a winner iff its home said so last.
- A vertex that lost its local winner looks for the next best. A new winner takes over the worse vertices that match it
  and have no better one. One that is a winner no more lets its duplicates go.
- What changed is told: an entry's flag to the partitions it probed, its cover to its page, a visitor's cover to its
  home.

Vertices are settled in winner order, from an agenda. A change concerns worse vertices only, so each is looked at once.
A step does a bounded amount of work; what is left of the agenda is kept in rows and goes on with a message to oneself.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.pages.vertex import url_of
from dustream.core.processor import Table, TaskState
from dustream.core.tier2.cleared import Cleared
from dustream.core.tier2.rows import StarRow, VertexRow, row_key
from dustream.core.tier2.search_protocol import Query, Search
from dustream.core.tier2.vertices import Present, Vertices
from dustream.core.winners import WinnerOrder
from dustream.schemas.pages import Star, Verdict
from dustream.schemas.tier2 import Cover, Covered, Win

WORK_MAX = 2_000  # vertices touched in one step
_WINDOWS = 8  # in which a step takes its work from the rows
_WINNERS_COMPARED = 16  # at once, best first
_FROM_THE_FIRST = -1


class DuplicateRow(Struct, frozen=True, array_like=True):
    """Table `duplicates`, by market, winner's key and number: the inverse of StarRow.local."""


class AgendaRow(Struct, frozen=True, array_like=True):
    """Table `agenda`, by market and key: what is still to be done for a vertex."""

    look: bool = False  # decide again
    lost: bool = False  # its local winner must be searched again
    release: bool = False  # a winner no more: let go of its duplicates
    cover_after: int | None = None  # a new winner: take over what matches, from the vertex after this number on


class Told(NamedTuple):
    """What a step has to say: about a winner or a cover to a partition, or a verdict to an entry's page."""

    partition: int | None
    item: Win | Covered | Star


class Seen(NamedTuple):
    """What the forest's search found out about a new vertex: whether nobody present matches it, and its similarity to
    some of those that do."""

    alone: bool
    similarities: dict[int, float]


class Stars:
    """One market in one partition."""

    def __init__(
        self,
        state: TaskState,
        market: int,
        order: WinnerOrder,
        vertices: Vertices,
        present: Present,
        winners: Search,
        threshold: float,
        work_max: int = WORK_MAX,
    ) -> None:
        self._market = market
        self._prefix = f"{market:02x}"
        self._order = order
        self._vertices = vertices
        self._present = present
        self._winners = winners
        self._threshold = threshold
        self._work_max = work_max
        self._window_max = max(1, work_max // _WINDOWS)
        self._duplicates: Table[DuplicateRow] = state.table("duplicates")
        self._stored: Table[AgendaRow] = state.table("agenda")
        self._loaded, self._released = Cleared(), Cleared()
        self._agenda: dict[bytes, AgendaRow] = {}
        self._heap: list[bytes] = []
        self._work = 0
        self._told: list[Told] = []
        self._entered: tuple[int, Query | None] = (-1, None)
        self.is_cut = any(True for _ in self._stored.scan(self._prefix))

    @property
    def is_quiet(self) -> bool:
        """Nothing is to be done or said."""
        return not (self._agenda or self._told or self.is_cut)

    # Vertices come and go

    def enter(self, number: int, query: Query, seen: Seen | None = None) -> bool:
        """Decide a vertex that is new here, or has a new key: is it a winner?"""
        row = self._vertices.row(number)
        star, self._entered = row.stars[self._market], (number, query)
        alone = seen is not None and seen.alone
        if not alone:
            star = self._with_local(number, star, self._best_winner(query, row, star.key, seen))
        star, item = self._look(number, row, star, _LOOK)
        self._vertices.put_star(number, row, self._market, star)
        if not alone:
            self._note(star.key, item)
        return star.winner

    def leave(self, number: int, row: VertexRow) -> StarRow:
        """A vertex goes, or gives up its key; its duplicates will look for another winner."""
        star, self._entered = row.stars[self._market], (-1, None)
        key = star.key
        self._drop_item(key)
        if star.winner:
            self._set_winner(number, None)
        if star.winner or self.is_cut:
            self._note(key, AgendaRow(release=True))
        star = self._with_local(number, star, None)
        return replace(star, winner=False)

    def look_again(self, number: int) -> None:
        self._note(self._vertices.row(number).stars[self._market].key, AgendaRow(look=True))

    # The agenda

    def settle(self, *, resume: bool) -> list[Told]:
        """Work off the agenda in winner order, as far as one step goes; `is_cut` says whether more is left.

        Once it is cut, what comes is only noted, and worked off by the steps that `resume`."""
        if resume or not self.is_cut:
            self._work_off()
        elif self._agenda:
            self._keep_rest()
        told, self._told = self._told, []
        return told

    def _work_off(self) -> None:
        self._work = 0
        window_end = self._load_window() if self.is_cut else None
        while self._work < self._work_max:
            if window_end is not None and (not self._heap or self._heap[0] > window_end):
                window_end = self._load_window()
            elif self._heap:
                key = heappop(self._heap)
                if key in self._agenda:
                    self._do(key)
            else:
                break
        self.is_cut = bool(self._agenda) or window_end is not None
        self._keep_rest()

    def _note(self, key: bytes, item: AgendaRow) -> None:
        known = self._agenda.get(key)
        if known is None:
            if item == _NOTHING:
                return
            heappush(self._heap, key)
            self._agenda[key] = item
        else:
            self._agenda[key] = _merged(known, item)

    def _drop_item(self, key: bytes) -> None:
        """The vertex goes: nothing is to be done for it any more but letting go of its duplicates, noted by the
        caller."""
        self._agenda.pop(key, None)
        if self.is_cut:
            self._stored.delete(self._row_key(key))

    def _load_window(self) -> bytes | None:
        """The first stored items, into memory; the last key if there are more, beyond which the order is not known."""
        rows = self._stored.scan(self._prefix, self._loaded.after(self._prefix))
        window = list(islice(rows, self._window_max))
        for name, row in window:
            self._stored.delete(name)
            self._note(name[2:].encode("latin-1"), row)
        if window:
            self._loaded.deleted(self._prefix, window[-1][0])
        return window[-1][0][2:].encode("latin-1") if len(window) == self._window_max else None

    def _keep_rest(self) -> None:
        for key, item in self._agenda.items():
            name = self._row_key(key)
            stored = self._stored.get(name)
            self._stored.put(name, item if stored is None else _merged(stored, item))
            self._loaded.written(name)
        self._agenda, self._heap = {}, []

    def _row_key(self, key: bytes) -> str:
        """Latin-1 keeps the order of bytes."""
        return self._prefix + key.decode("latin-1")

    # One vertex

    def _do(self, key: bytes) -> None:
        item = self._agenda.pop(key)
        self._work += 1
        number = self._vertices.number(self._order.vertex(key))
        row = None if number is None else self._vertices.row(number)
        if number is None or row is None or row.stars[self._market].key != key:
            # it has gone, or has another key now: only its duplicates are left to do
            item = AgendaRow(release=item.release)
        elif item.look:
            star, item = self._look(number, row, row.stars[self._market], item)
            self._vertices.put_star(number, row, self._market, star)
        if item.release:
            item = self._release(key, item)
        if number is not None and item.cover_after is not None:
            item = self._cover(number, key, item)
        if item.release or item.cover_after is not None:
            self._note(key, item)

    def _look(self, number: int, row: VertexRow, star: StarRow, item: AgendaRow) -> tuple[StarRow, AgendaRow]:
        """Decide a vertex; what follows for others is in the item returned."""
        if item.lost:
            star = self._with_local(number, star, self._best_winner(self._query(number), row, star.key))
        cover = self._cover_of(row, star)
        winner = cover is None if row.entry else bool(star.told)
        item = AgendaRow(False, False, item.release, item.cover_after)
        if winner != star.winner:
            self._set_winner(number, self._query(number) if winner else None)
            item = AgendaRow(cover_after=_FROM_THE_FIRST) if winner else AgendaRow(release=True)
            star = replace(star, winner=winner)
        return self._tell(row, star, cover), item

    def _query(self, number: int) -> Query:
        """A vertex, made ready for searches; the one that entered last is ready."""
        entered, query = self._entered
        if entered != number or query is None:
            query = self._present.query(number)
        return query

    def _cover_of(self, row: VertexRow, star: StarRow) -> Cover | None:
        if not row.entry:
            return star.local
        best = star.local
        for cover in star.remote.values():
            if cover.key < star.key and (best is None or cover.key < best.key):
                best = cover
        return best

    def _tell(self, row: VertexRow, star: StarRow, cover: Cover | None) -> StarRow:
        if not row.entry:
            if star.said != cover:
                self._told.append(Told(row.home, Covered(row.vertex, self._market, cover)))
            return replace(star, said=cover)
        if star.told != star.winner:
            if star.told is not None:  # a new entry, or one with a new key, tells by its probes
                for partition in row.probes:
                    self._told.append(Told(partition, Win(row.vertex, self._market, star.winner)))
            star = replace(star, told=star.winner)
        if star.said != cover:
            self._told.append(Told(None, Star(row.vertex, self._market, self._verdict(row, cover))))
            star = replace(star, said=cover)
        return star

    def _verdict(self, row: VertexRow, cover: Cover | None) -> Verdict:
        if cover is None:
            return Verdict(url_of(row.vertex))
        return Verdict(url_of(self._order.vertex(cover.key)), cover.similarity, cover.exact)

    def _set_winner(self, number: int, query: Query | None) -> None:
        """In the index of winners, or out of it."""
        if query is None:
            self._winners.remove(number)
        else:
            self._winners.insert(number, query)

    def _best_winner(self, query: Query, row: VertexRow, key: bytes, seen: Seen | None = None) -> Cover | None:
        """The best of the winners present that are better than the vertex and match it."""
        better = []
        for other in self._winners.candidates(query).tolist():
            other_row = self._vertices.row(other)
            other_key = other_row.stars[self._market].key
            if other_key < key and (row.entry or other_row.entry):
                better.append((other_key, other))
        better.sort()
        for start in range(0, len(better), _WINNERS_COMPARED):
            some = better[start : start + _WINNERS_COMPARED]
            similarities = self._similarities(query, [other for _, other in some], seen)
            for (other_key, other), similarity in zip(some, similarities, strict=True):
                if similarity >= self._threshold:
                    exact = self._vertices.row(other).content_hash == row.content_hash
                    return Cover(other_key, similarity, exact)
        return None

    def _similarities(self, query: Query, numbers: list[int], seen: Seen | None) -> list[float]:
        if seen is not None and all(number in seen.similarities for number in numbers):
            return [seen.similarities[number] for number in numbers]
        found: list[float] = self._winners.similarities(query, np.array(numbers, dtype=np.int64)).tolist()
        return found

    def _cover(self, number: int, key: bytes, item: AgendaRow) -> AgendaRow:
        """A new winner takes over the worse vertices that match it and have none, or a worse one."""
        assert item.cover_after is not None
        row, query = self._vertices.row(number), self._query(number)
        candidates = self._present.candidates(number, query)
        candidates = candidates[candidates > item.cover_after]
        room = max(1, self._work_max - self._work)
        some, more = candidates[:room], len(candidates) > room
        self._work += len(some)
        worse = [other for other in some.tolist() if self._may_take(other, row, key)]
        similarities = self._present.similarities(query, np.array(worse, dtype=np.int64))
        for other, similarity in zip(worse, similarities.tolist(), strict=True):
            if similarity >= self._threshold:
                self._take(other, Cover(key, similarity, False), row.content_hash)
        return replace(item, cover_after=int(some[-1]) if more else None)

    def _may_take(self, other: int, winner: VertexRow, key: bytes) -> bool:
        row = self._vertices.row(other)
        star = row.stars[self._market]
        if star.key <= key or not (winner.entry or row.entry):
            return False
        return star.local is None or star.local.key > key

    def _take(self, other: int, cover: Cover, content_hash: bytes) -> None:
        row = self._vertices.row(other)
        star = row.stars[self._market]
        cover = replace(cover, exact=row.content_hash == content_hash)
        star = self._with_local(other, star, cover)
        self._vertices.put_star(other, row, self._market, star)
        self._note(star.key, AgendaRow(look=True))

    def _release(self, key: bytes, item: AgendaRow) -> AgendaRow:
        """The duplicates of a vertex that is a winner no more search again."""
        room = max(1, self._work_max - self._work)
        prefix = self._duplicates_of(key)
        rows = self._duplicates.scan(prefix, self._released.after(prefix))
        some = [name for name, _ in islice(rows, room)]
        if some:
            self._released.deleted(prefix, some[-1])
        if len(some) < room:
            item = replace(item, release=False)
        self._work += len(some)
        for name in some:
            number = int(name[-8:], 16)
            row = self._vertices.row(number)
            star = self._with_local(number, row.stars[self._market], None)
            self._vertices.put_star(number, row, self._market, star)
            self._note(star.key, AgendaRow(look=True, lost=True))
        return item

    # Local winners and their duplicates

    def _duplicates_of(self, key: bytes) -> str:
        """Where the rows of a winner's duplicates are."""
        return self._row_key(key) + "\0"

    def _with_local(self, number: int, star: StarRow, cover: Cover | None) -> StarRow:
        if star.local is not None:
            self._duplicates.delete(self._duplicates_of(star.local.key) + row_key(number))
        if cover is not None:
            name = self._duplicates_of(cover.key) + row_key(number)
            self._duplicates.put(name, DuplicateRow())
            self._released.written(name)
        return replace(star, local=cover)


_NOTHING = AgendaRow()
_LOOK = AgendaRow(look=True)


def _merged(one: AgendaRow, other: AgendaRow) -> AgendaRow:
    """Both, and of two takeovers the one that has more to do. A vertex that takes over lets go of nothing."""
    afters = [item.cover_after for item in (one, other) if item.cover_after is not None]
    return AgendaRow(
        one.look or other.look, one.lost or other.lost, one.release or other.release, min(afters, default=None)
    )
