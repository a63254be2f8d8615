"""Stars: a vertex is a winner iff no better winner matches it, else a duplicate of the best winner that does.

This is the lexicographically first maximal independent set of the match graph in winner order: a pure function of the
graph, computed where every matching pair meets. One instance per market and partition.

- An entry's home, this partition, decides whether it is a winner: it is, unless a winner covers it here or in a
  partition that it probed. A visitor is a winner iff its home's last update says so.
- A vertex that lost its local winner searches for the next best. A new winner takes over the worse vertices that match
  it and have no better one. A vertex that is no longer a winner releases its duplicates.
- Changes are sent: an entry's flag to the partitions it probed, its cover to its page, a visitor's cover to its home.

Vertices are settled in winner order, from an agenda. A change affects worse vertices only, so each is examined once. A
step does a bounded amount of work; the rest of the agenda is stored in rows and continued by a message to the same
task.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import Table, TaskState
from dustream.core.tier2.cleared import Cleared
from dustream.core.tier2.rows import StarRow, VertexRow, row_key
from dustream.core.tier2.search_protocol import Query, Search
from dustream.core.tier2.vertices import Present, Vertices
from dustream.core.vertex import url_of
from dustream.core.winners import WinnerOrder
from dustream.schemas.pages import Star, Verdict
from dustream.schemas.tier2 import Cover, Covered, Win

WORK_MAX = 2_000  # vertices touched in one step
_WINDOWS = 8  # into which a step divides the work it reads from the rows
_FROM_THE_FIRST = -1


class DuplicateRow(Struct, frozen=True, array_like=True):
    """Table `duplicates`, by market, winner's key and number: the inverse of StarRow.local."""


class AgendaRow(Struct, frozen=True, array_like=True):
    """Table `agenda`, by market and key: the work left for a vertex."""

    look: bool = False  # decide again
    lost: bool = False  # search its local winner again
    release: bool = False  # no longer a winner: release its duplicates
    cover_after: int | None = None  # a new winner: take over matching vertices, from the one after this number on


class StarNotice(NamedTuple):
    """A result of a step: a winner or cover for a partition, or a verdict for an entry's page (`partition` None)."""

    partition: int | None
    item: Win | Covered | Star


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
        work_max: int = WORK_MAX,
    ) -> None:
        self._market = market
        self._prefix = f"{market:02x}"
        self._order = order
        self._vertices = vertices
        self._present = present
        self._winners = winners
        self._work_max = work_max
        self._window_max = max(1, work_max // _WINDOWS)
        self._duplicates: Table[DuplicateRow] = state.table("duplicates")
        self._duplicate_counts: dict[bytes, int] = {}  # by the winner's key; most winners have no duplicates
        self._stored: Table[AgendaRow] = state.table("agenda")
        self._loaded, self._released = Cleared(), Cleared()
        self._agenda: dict[bytes, AgendaRow] = {}
        self._heap: list[bytes] = []
        self._work = 0
        self._notices: list[StarNotice] = []
        self._entered: tuple[int, Query | None] = (-1, None)
        self.is_cut = any(True for _ in self._stored.scan(self._prefix))

    @property
    def is_quiet(self) -> bool:
        """Whether there is no work and nothing to send."""
        return not (self._agenda or self._notices or self.is_cut)

    # Insertion and removal

    def fill(self, row: VertexRow) -> None:
        """Add a vertex from its row, when the task opens."""
        local = row.stars[self._market].local
        if local is not None:
            self._count(local.key, 1)

    def enter(
        self, number: int, row: VertexRow, query: Query, *, alone: bool = False, copy: VertexRow | None = None
    ) -> StarRow:
        """Decide a vertex that is new here, or has a new key; `alone`: no vertex present matches it; `copy`: an entry
        with the same content. The caller stores the star."""
        star, self._entered = row.stars[self._market], (number, query)
        if copy is not None and self._knows_best_winner(copy, row):
            star = self._with_local(number, star, self._best_winner_of_copy(copy, star.key))
        elif not alone:
            star = self._with_local(number, star, self._best_winner(query, row, star.key))
        star, item = self._look(number, row, star, _LOOK)
        if not alone:
            self._note(star.key, item)
        return star

    def first_verdict(self) -> Verdict | None:
        """The verdict for the page of an entry just entered; the next `settle` does not return it again."""
        if not self._notices:
            return None
        item = self._notices.pop().item
        assert isinstance(item, Star)
        return item.verdict

    def leave(self, number: int, row: VertexRow) -> StarRow:
        """Remove a vertex, or its old key; its duplicates will search for another winner."""
        star, self._entered = row.stars[self._market], (-1, None)
        key = star.key
        self._drop_item(key)
        if star.winner:
            self._set_winner(number, None)
        if star.winner or self.is_cut:
            self._note(key, AgendaRow(release=True))
        star = self._with_local(number, star, None)
        return StarRow(key, False, star.flag_sent, None, star.cover_sent, star.remote)

    def look_again(self, number: int) -> None:
        self._note(self._vertices.row(number).stars[self._market].key, AgendaRow(look=True))

    # The agenda

    def settle(self, *, resume: bool) -> list[StarNotice]:
        """Process the agenda in winner order, as far as one step goes; `is_cut` tells whether more is left.

        Once it is cut, new work is only recorded, and processed by the steps with `resume`."""
        if resume or not self.is_cut:
            if self._agenda or self.is_cut:
                self._work_off()
        elif self._agenda:
            self._keep_rest()
        notices, self._notices = self._notices, []
        return notices

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
        """The vertex is removed: only the release of its duplicates is left to do, which the caller records."""
        self._agenda.pop(key, None)
        if self.is_cut:
            self._stored.delete(self._row_key(key))

    def _load_window(self) -> bytes | None:
        """Load the first stored items. Returns the last key if there are more: beyond it the order is not known."""
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
        """Latin-1 preserves the order of bytes."""
        return self._prefix + key.decode("latin-1")

    # One vertex

    def _do(self, key: bytes) -> None:
        item = self._agenda.pop(key)
        self._work += 1
        number = self._vertices.number(self._order.vertex(key))
        row = None if number is None else self._vertices.row(number)
        if number is None or row is None or row.stars[self._market].key != key:
            # it was removed, or has another key now: only its duplicates are left to release
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
        """Decide a vertex; the item returned has the work that follows for others."""
        if item.lost:
            star = self._with_local(number, star, self._best_winner(self._query(number), row, star.key))
        cover = self._cover_of(row, star)
        winner = cover is None if row.entry else bool(star.flag_sent)
        if winner != star.winner:
            self._set_winner(number, self._query(number) if winner else None)
            item = _COVER if winner else _RELEASE
        elif item is _LOOK:
            item = _NOTHING
        else:
            item = AgendaRow(False, False, item.release, item.cover_after)
        return self._notify(row, star, winner, cover), item

    def _query(self, number: int) -> Query:
        """A vertex prepared for searches; that of the last entered one is kept."""
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

    def _notify(self, row: VertexRow, star: StarRow, winner: bool, cover: Cover | None) -> StarRow:
        """Record the changes to send, and return the updated star."""
        flag_sent = star.flag_sent
        if row.entry and flag_sent != winner:
            if flag_sent is not None:  # a new entry, or one with a new key, sends its flag with its probes
                for partition in row.probes:
                    self._notices.append(StarNotice(partition, Win(row.vertex, self._market, winner)))
            flag_sent = winner
        if star.cover_sent != cover:
            if row.entry:
                self._notices.append(StarNotice(None, Star(row.vertex, self._market, self._verdict(row, cover))))
            else:
                self._notices.append(StarNotice(row.home, Covered(row.vertex, self._market, cover)))
        return StarRow(star.key, winner, flag_sent, star.local, cover, star.remote)

    def _verdict(self, row: VertexRow, cover: Cover | None) -> Verdict:
        if cover is None:
            return Verdict(url_of(row.vertex))
        winner = url_of(self._order.vertex(cover.key))
        return Verdict(winner, cover.similarity, cover.exact, decided=cover.decided)

    def _set_winner(self, number: int, query: Query | None) -> None:
        """Insert into the index of winners, or remove (`query` None)."""
        if query is None:
            self._winners.remove(number)
        else:
            self._winners.insert(number, query)

    def _best_winner(self, query: Query, row: VertexRow, key: bytes) -> Cover | None:
        """The best winner present that is better than the vertex and matches it."""
        best_key, best = key, None
        found, decided = self._winners.matching(query).pages, self._decided(row, query)
        for other, similarity in [*found, *decided.items()] if decided else found:
            other_row = self._vertices.row(other)
            other_star = other_row.stars[self._market]
            if other_star.winner and other_star.key < best_key and (row.entry or other_row.entry):
                best_key = other_star.key
                is_exact = other_row.content_hash == row.content_hash
                best = Cover(best_key, similarity, is_exact, other in decided)
        return best

    def _knows_best_winner(self, copy: VertexRow, row: VertexRow) -> bool:
        """Whether the stars of an entry tell the best winner that matches its content. If it is settled, either that is
        its local winner, or it is a winner itself and no better one matches; but one covered elsewhere may match worse
        winners. Decisions concern a page, not its content."""
        star, is_settled = copy.stars[self._market], self.is_quiet
        is_by_content = row.entry and not row.same and not copy.same
        return is_settled and is_by_content and (star.winner or star.local is not None)

    def _best_winner_of_copy(self, copy: VertexRow, key: bytes) -> Cover | None:
        """`_best_winner`, if it is known from a copy."""
        star = copy.stars[self._market]
        best = star.local or Cover(star.key, 1.0, True)
        return best if best.key < key else None

    def _decided(self, row: VertexRow, query: Query) -> dict[int, float]:
        """The vertices present that match because an operator decided so, and their similarities."""
        return dict(self._vertices.same_as(row, query.signature)) if row.same else {}

    def _cover(self, number: int, key: bytes, item: AgendaRow) -> AgendaRow:
        """A new winner takes over the worse vertices that match it and have none, or a worse one."""
        assert item.cover_after is not None
        winner, room = self._vertices.row(number), max(1, self._work_max - self._work)
        query = self._query(number)
        found, decided = self._present.matching(number, query, item.cover_after, room), self._decided(winner, query)
        self._work += found.looked
        is_first = item.cover_after == _FROM_THE_FIRST
        for other, similarity in [*found.pages, *decided.items()] if is_first else found.pages:
            row = self._vertices.row(other)
            star = row.stars[self._market]
            if self._is_taken(star, key) and (winner.entry or row.entry):
                cover = Cover(key, similarity, row.content_hash == winner.content_hash, other in decided)
                star = self._with_local(other, star, cover)
                if row.entry and not star.winner:  # this affects no other vertex, so it need not wait for its turn
                    star, _ = self._look(other, row, star, _LOOK)
                else:
                    self._note(star.key, _LOOK)
                self._vertices.put_star(other, row, self._market, star)
        return replace(item, cover_after=found.last if found.last >= 0 else None)

    def _is_taken(self, star: StarRow, key: bytes) -> bool:
        """Whether a worse vertex that matches takes this one as its winner."""
        return star.key > key and (star.local is None or star.local.key > key)

    def _release(self, key: bytes, item: AgendaRow) -> AgendaRow:
        """The duplicates of a vertex that is no longer a winner search again."""
        if key not in self._duplicate_counts:
            return replace(item, release=False)
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
        """The key prefix of the rows of a winner's duplicates."""
        return self._row_key(key) + "\0"

    def _with_local(self, number: int, star: StarRow, cover: Cover | None) -> StarRow:
        if star.local is None and cover is None:
            return star
        if star.local is not None:
            self._duplicates.delete(self._duplicates_of(star.local.key) + row_key(number))
            self._count(star.local.key, -1)
        if cover is not None:
            name = self._duplicates_of(cover.key) + row_key(number)
            self._duplicates.put(name, _DUPLICATE)
            self._released.written(name)
            self._count(cover.key, 1)
        return StarRow(star.key, star.winner, star.flag_sent, cover, star.cover_sent, star.remote)

    def _count(self, key: bytes, change: int) -> None:
        count = self._duplicate_counts.get(key, 0) + change
        if count:
            self._duplicate_counts[key] = count
        else:
            del self._duplicate_counts[key]


_DUPLICATE = DuplicateRow()
_NOTHING = AgendaRow()
_LOOK = AgendaRow(look=True)
_COVER = AgendaRow(cover_after=_FROM_THE_FIRST)
_RELEASE = AgendaRow(release=True)


def _merged(one: AgendaRow, other: AgendaRow) -> AgendaRow:
    """Both items; of two takeovers, the one with more to do. A vertex that takes over releases nothing."""
    afters = [item.cover_after for item in (one, other) if item.cover_after is not None]
    return AgendaRow(
        one.look or other.look, one.lost or other.lost, one.release or other.release, min(afters, default=None)
    )
