"""The tier-2 processor: finds matching pages. One task per partition of page space.

Rules (docs/explanation/protocol.md):
- A page is stored in its home partition and compared there; then the home probes the other partitions that may hold a
  match. Because pages are stored before they probe, at least one of two matching pages that arrive at once finds the
  other, in any interleaving.
- A probe is kept, as a visitor, only if it matched. Of a pair compared here, at least one is an entry (has its home
  here).
- Forest edges are sent to the groups through `pages`; verdicts are sent to `pages`. The results of storing a page are
  sent in one message, even if empty: the page's status waits for it.
- Partitions exchange changes of winners in one message per step and partition, after the step's own probes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice
from typing import Any

from msgspec.structs import replace

from dustream.core.processor import Send, TaskState
from dustream.core.tier2.containers import TABLES as CONTAINERS_TABLES
from dustream.core.tier2.containers import Containers, ContainmentRules
from dustream.core.tier2.forest import REPAIRS_MAX, Forest, ForestRow, RepairRow, order_key
from dustream.core.tier2.former import FormerContents
from dustream.core.tier2.rows import StarRow, VertexRow, with_stars
from dustream.core.tier2.search_protocol import IndexedPage, MakeSearch, Match, Query, Search
from dustream.core.tier2.stars import WORK_MAX, AgendaRow, DuplicateRow, Stars
from dustream.core.tier2.vertices import Present, Vertices
from dustream.core.vertex import url_of
from dustream.core.winners import Markets
from dustream.schemas.pages import Edge, Placed, Route, Star
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import (
    ContainmentDropped,
    ContinueTier2,
    Cover,
    Covered,
    Forget,
    Keep,
    Probe,
    Propose,
    Recall,
    Rekey,
    Release,
    Remove,
    Renew,
    Stands,
    StarUpdates,
    StoreVertex,
    Unprobe,
    Weigh,
    Weighed,
    Win,
)

UPDATE_ITEMS_MAX = 1_000
MESSAGES_AT_ONCE = 64  # whose pages are prepared for searches together
BATCH_PAGES = 2048  # inserted into the searches at once when the task opens

TABLES: dict[str, Any] = {
    "vertices": VertexRow,
    "contents": PageSignature,
    "forest": ForestRow,
    "repairs": RepairRow,
    "duplicates": DuplicateRow,
    "agenda": AgendaRow,
    "former": PageSignature,
    **CONTAINERS_TABLES,
}


class Tier2Processor:
    """One task of `tier2`."""

    def __init__(
        self,
        markets: Markets,
        make_search: MakeSearch,
        *,
        containment: ContainmentRules | None = None,
        work_max: int = WORK_MAX,
    ) -> None:
        self._markets = markets
        self._make_search = make_search
        self._containment = containment
        self._work_max = work_max
        self._out: list[Send] = []
        self._edges: list[tuple[str, Edge]] = []  # found and not sent yet
        self._handlers: dict[type, Callable[[Any], None]] = {
            Remove: self._remove,
            Renew: self._renew,
            Keep: lambda message: self._former.keep(message),
            Forget: lambda message: self._former.forget(message),
            Recall: self._recall,
            Unprobe: self._unprobe,
            Rekey: self._rekey,
            StarUpdates: self._star_updates,
            ContinueTier2: self._continue,
        }

    def open(self, state: TaskState) -> None:
        self._partition = state.partition
        self._vertices = vertices = Vertices(state)
        self._former = FormerContents(state, vertices)
        make = self._make_search
        self._present = Present(vertices, make(vertices.shingles), make(vertices.shingles))
        winners = [make(vertices.shingles) for _ in self._markets.orders]
        self._forest = Forest(state, vertices, self._present, self._edge_found, min(REPAIRS_MAX, self._work_max))
        self._stars = [
            Stars(state, market, order, vertices, self._present, search, self._work_max)
            for market, (order, search) in enumerate(zip(self._markets.orders, winners, strict=True))
        ]
        self._containers: Containers | None = None
        if self._containment is not None:
            self._containers = containers = Containers(state, len(self._stars), vertices, self._containment)
            self._handlers |= {
                Propose: containers.propose,
                Weighed: containers.weighed,
                Stands: containers.stands,
                Release: containers.release,
                ContainmentDropped: containers.dropped,
            }
        numbers = iter(vertices.numbers())
        while batch := list(islice(numbers, BATCH_PAGES)):
            self._fill(batch, winners)

    def _fill(self, numbers: list[int], winners: list[Search]) -> None:
        """Insert some of the stored vertices into the searches."""
        pages: list[IndexedPage] = []
        won: list[list[IndexedPage]] = [[] for _ in winners]
        for number in numbers:
            content, row = self._vertices.content(number), self._vertices.row(number)
            pages.append(IndexedPage(number, content.content_hash, content.minhash, self._forest.label(number)))
            for stars, star, some in zip(self._stars, row.stars, won, strict=True):
                stars.fill(row)
                if star.winner:
                    some.append(IndexedPage(number, content.content_hash, content.minhash))
        self._present.fill(pages)
        for search, some in zip(winners, won, strict=True):
            search.rebuild(some)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        self._out = []
        self._was_cut = self._is_cut()
        for start in range(0, len(messages), MESSAGES_AT_ONCE):
            self._some(messages[start : start + MESSAGES_AT_ONCE])
        if self._containers is not None:
            self._out += self._containers.drain()
        return self._out

    def at_rest(self, state: TaskState) -> list[Send]:
        return [] if self._containers is None else self._containers.drain(at_rest=True)

    def _some(self, messages: Sequence[Any]) -> None:
        pages = [message.signature for message in messages if isinstance(message, StoreVertex | Probe)]
        queries = iter(self._present.queries(pages) if pages else ())
        for kind, run in groupby(messages, type):
            if kind is Weigh:
                self._weigh(list(run))
                continue
            for message in run:
                if kind is StoreVertex:
                    self._store(message, next(queries))
                elif kind is Probe:
                    self._probe(message, next(queries))
                else:
                    self._handlers[kind](message)
                self._follow_up(message)

    def _weigh(self, messages: list[Weigh]) -> None:
        assert self._containers is not None
        self._containers.weigh(messages)
        self._follow_up(messages[-1])

    def _follow_up(self, message: Any) -> None:
        if self._edges:
            self._send_edges()
        if self._was_cut or not self._is_quiet():
            self._after(message)

    def _after(self, message: Any) -> None:
        """Process the consequences of a message; while work is left, one message to continue is on its way."""
        resume = isinstance(message, ContinueTier2)
        self._settle(resume=resume)
        is_cut = self._is_cut()
        if is_cut and (resume or not self._was_cut):
            self._out.append(Send("tier2", self._partition, ContinueTier2(self._partition)))
        self._was_cut = is_cut

    # Insertion and removal

    def _store(self, message: StoreVertex, query: Query) -> None:
        vertex, content, keys, probes = message.vertex, message.signature, message.keys, message.probes
        key = order_key(vertex)
        stars = tuple([StarRow(key) for key in keys])
        row = VertexRow(vertex, True, self._partition, probes, content.content_hash, stars, same=message.same)
        matches = self._present.entries.first_match_per_component(query, key)
        alone = not matches and not _matches(self._present.visitors, query, key)
        if row.same:
            matches = self._forest.with_decided(row, query, matches)
            alone = alone and not self._vertices.same_as(row, content)
        entered = self._add(row, query, matches, alone=alone)
        self._send_placed(vertex, alone=alone)
        if probes:
            winner = tuple([star.winner for star in entered])
            probe = Probe(vertex, self._partition, content, keys, winner, message.same)
            self._out += [Send("tier2", partition, probe) for partition in probes]

    def _send_placed(self, vertex: str, *, alone: bool) -> None:
        """Send the results for a vertex just stored."""
        placed = Placed(vertex)
        if not alone:
            each = enumerate([stars.first_verdict() for stars in self._stars])
            verdicts = tuple([(market, verdict) for market, verdict in each if verdict is not None])
            placed = Placed(vertex, verdicts, tuple([edge for _, edge in self._edges]))
            self._edges.clear()
        self._out.append(Send("pages", url_of(vertex), placed))

    def _probe(self, message: Probe, query: Query) -> None:
        matches = _matches(self._present.entries, query, order_key(message.vertex))
        if not matches and not message.same:
            return
        content = message.signature
        stars = tuple([StarRow(key, flag_sent=flag) for key, flag in zip(message.keys, message.winner, strict=True)])
        row = VertexRow(message.vertex, False, message.home, (), content.content_hash, stars, same=message.same)
        if row.same:
            matches = self._forest.with_decided(row, query, matches)
        if not matches:
            return
        self._add(row, query, matches)

    def _add(self, row: VertexRow, query: Query, matches: list[Match], *, alone: bool = False) -> tuple[StarRow, ...]:
        """Insert a vertex, and return its stars once they are decided."""
        number = self._vertices.new(row.vertex, entry=row.entry)
        self._forest.add(number, row.vertex, query, matches)
        copy = self._copy_among(matches, row)
        entered = tuple([stars.enter(number, row, query, alone=alone, copy=copy) for stars in self._stars])
        self._vertices.add(number, with_stars(row, entered), query.signature)
        return entered

    def _copy_among(self, matches: list[Match], row: VertexRow) -> VertexRow | None:
        """An entry with the same content, if a search found one."""
        for match in matches:
            if match.similarity == 1.0:
                other = self._vertices.row(match.number)
                if other.content_hash == row.content_hash:
                    return other
        return None

    def _remove(self, message: Remove) -> None:
        number = self._vertices.number(message.vertex)
        if number is None:
            return
        for partition in self._vertices.row(number).probes:
            self._out.append(Send("tier2", partition, Unprobe(message.vertex)))
        self._former.leave(message.vertex, number, keep=message.keep)
        self._take_out(number, message.vertex)

    def _renew(self, message: Renew) -> None:
        """Remove a vertex and store its content under another name, as two messages would."""
        number = self._vertices.number(message.replaced)
        assert number is not None, "a vertex was renewed after pages had removed it"
        content, probes = self._vertices.content(number), message.probes
        if probes is None:
            probes = self._vertices.row(number).probes
        self._remove(Remove(message.replaced, message.keep))
        self._follow_up(message)
        stored = StoreVertex(message.vertex, content, message.keys, probes, message.same)
        self._store(stored, self._present.queries([content])[0])

    def _recall(self, message: Recall) -> None:
        self._out.append(Send("pages", message.asker, self._former.answer(message)))

    def _unprobe(self, message: Unprobe) -> None:
        number = self._vertices.number(message.vertex)
        if number is not None:
            self._take_out(number, message.vertex)

    def _take_out(self, number: int, vertex: str) -> None:
        row = self._vertices.row(number)
        for stars in self._stars:
            stars.leave(number, row)
        if self._containers is not None:
            self._containers.leave(number, row)
        self._vertices.forget_decided(number, row)
        self._forest.remove(number)
        self._vertices.remove(number, vertex)

    def _rekey(self, message: Rekey) -> None:
        """Remove a vertex from the stars and insert it under its new keys; the forest does not depend on keys. The
        reports of other partitions about it stay valid until they change."""
        number = self._vertices.number(message.vertex)
        if number is None:
            return
        row = self._vertices.row(number)
        flags = message.winner or (None,) * len(row.stars)
        left = [stars.leave(number, row) for stars in self._stars]
        each = zip(left, message.keys, flags, strict=True)
        row = with_stars(row, tuple(replace(star, key=key, flag_sent=flag) for star, key, flag in each))
        query = self._present.query(number)
        entered = tuple([stars.enter(number, row, query) for stars in self._stars])
        self._vertices.put(number, with_stars(row, entered))
        if row.entry:
            self._vertices.changed.add(number)
            winner = tuple([star.winner for star in entered])
            for partition in row.probes:
                self._out.append(Send("tier2", partition, Rekey(message.vertex, message.keys, winner)))

    # Updates between partitions

    def _star_updates(self, message: StarUpdates) -> None:
        """Record all items before settling any: otherwise each cover of a clique would replace the next one."""
        for item in message.items:
            number = self._vertices.number(item.vertex)
            if number is None:
                continue  # it has left
            row = self._vertices.row(number)
            star = row.stars[item.market]
            if isinstance(item, Win) and not row.entry:
                star = replace(star, flag_sent=item.winner)
            elif isinstance(item, Covered) and row.entry:
                star = replace(star, remote=_with_cover(star, message.source, item))
            else:
                continue
            self._vertices.put_star(number, row, item.market, star)
            self._stars[item.market].look_again(number)

    def _continue(self, message: ContinueTier2) -> None:
        if self._forest.needs_repair:
            self._forest.repair()

    def _settle(self, *, resume: bool) -> None:
        """Process the consequences of a message, as far as one step goes, and send the results."""
        updates: dict[int, list[Win | Covered]] = {}
        for stars in self._stars:
            for partition, item in stars.settle(resume=resume):
                if isinstance(item, Star):
                    self._out.append(Send("pages", url_of(item.vertex), item))
                else:
                    assert partition is not None
                    updates.setdefault(partition, []).append(item)
        for partition, items in updates.items():
            for start in range(0, len(items), UPDATE_ITEMS_MAX):
                chunk = tuple(items[start : start + UPDATE_ITEMS_MAX])
                self._out.append(Send("tier2", partition, StarUpdates(self._partition, chunk)))

    def _is_quiet(self) -> bool:
        for stars in self._stars:
            if not stars.is_quiet:
                return False
        return not self._forest.needs_repair

    def _is_cut(self) -> bool:
        for stars in self._stars:
            if stars.is_cut:
                return True
        return self._forest.needs_repair

    def _edge_found(self, vertex: str, other: int, similarity: float) -> None:
        self._edges.append((vertex, Edge(self._vertices.row(other).vertex, similarity)))

    def _send_edges(self) -> None:
        self._out += [Send("pages", url_of(vertex), Route(vertex, edge)) for vertex, edge in self._edges]
        self._edges.clear()


def _matches(search: Search, query: Query, key: int) -> list[Match]:
    return search.first_match_per_component(query, key) if len(search) else []


def _with_cover(star: StarRow, source: int, item: Covered) -> dict[int, Cover]:
    remote = {partition: cover for partition, cover in star.remote.items() if partition != source}
    if item.cover is not None:
        remote[source] = item.cover
    return remote
