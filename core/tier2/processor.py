"""The tier-2 processor: who matches whom. One task per partition of page space.

Rules (docs/protocol.md):
- A page is stored at its home and compared there; then the home probes the other partitions that may hold a match.
  Store first, probe after: of two matching pages arriving at once at least one sees the other, whatever the
  interleaving.
- A probe is kept, as a visitor, only if it matched. Of a pair compared here, one is always at home here.
- Forest edges go to the groups by way of `pages`; verdicts go to `pages`; what partitions say to each other about
  winners goes in one message per step and partition, after the step's own probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from msgspec.structs import replace

from dustream.core.pages.vertex import url_of
from dustream.core.processor import Send, TaskState
from dustream.core.tier2.forest import REPAIRS_MAX, Forest, ForestRow, RepairRow, order_key
from dustream.core.tier2.rows import StarRow, VertexRow
from dustream.core.tier2.search_protocol import IndexedPage, MakeSearch, Match, Query, Search
from dustream.core.tier2.stars import WORK_MAX, AgendaRow, DuplicateRow, Seen, Stars
from dustream.core.tier2.vertices import Present, Vertices
from dustream.core.winners import Markets
from dustream.schemas.pages import Edge, Route, Star
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import (
    ContinueTier2,
    Cover,
    Covered,
    News,
    Probe,
    Rekey,
    Remove,
    Store,
    Unprobe,
    Win,
)

NEWS_ITEMS_MAX = 1_000
QUERIES_AT_ONCE = 64  # pages of one step made ready together
BATCH_PAGES = 2048  # taken into the searches at once when the task opens

TABLES: dict[str, Any] = {
    "vertices": VertexRow,
    "contents": PageSignature,
    "forest": ForestRow,
    "repairs": RepairRow,
    "duplicates": DuplicateRow,
    "agenda": AgendaRow,
}


class Tier2Processor:
    """One task of `tier2`."""

    def __init__(
        self, threshold: float, markets: Markets, make_search: MakeSearch, *, work_max: int = WORK_MAX
    ) -> None:
        self._threshold = threshold
        self._markets = markets
        self._make_search = make_search
        self._work_max = work_max
        self._out: list[Send] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            Remove: self._remove,
            Unprobe: self._unprobe,
            Rekey: self._rekey,
            News: self._news,
            ContinueTier2: self._continue,
        }

    def open(self, state: TaskState) -> None:
        self._partition = state.partition
        self._vertices = vertices = Vertices(state)
        make = self._make_search
        self._present = Present(vertices, make(vertices.shingles), make(vertices.shingles))
        winners = [make(vertices.shingles) for _ in self._markets.orders]
        self._forest = Forest(state, vertices, self._present, self._edge_found, min(REPAIRS_MAX, self._work_max))
        self._stars = [
            Stars(state, market, order, vertices, self._present, search, self._threshold, self._work_max)
            for market, (order, search) in enumerate(zip(self._markets.orders, winners, strict=True))
        ]
        numbers = iter(vertices.numbers())
        while batch := list(islice(numbers, BATCH_PAGES)):
            self._fill(batch, winners)

    def _fill(self, numbers: list[int], winners: list[Search]) -> None:
        """Take some of the stored vertices into the searches."""
        pages: list[IndexedPage] = []
        won: list[list[IndexedPage]] = [[] for _ in winners]
        for number in numbers:
            content = self._vertices.content(number)
            pages.append(IndexedPage(number, content.content_hash, content.minhash, self._forest.label(number)))
            for star, some in zip(self._vertices.row(number).stars, won, strict=True):
                if star.winner:
                    some.append(IndexedPage(number, content.content_hash, content.minhash))
        self._present.fill(pages)
        for search, some in zip(winners, won, strict=True):
            search.rebuild(some)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        self._out = []
        self._was_cut = self._is_cut()
        for kind, run in groupby(messages, type):
            if kind is Store:
                self._stores(run)
            elif kind is Probe:
                self._probes(run)
            else:
                for message in run:
                    self._handlers[kind](message)
                    self._after(message)
        return self._out

    def _stores(self, messages: Iterator[Store]) -> None:
        while some := list(islice(messages, QUERIES_AT_ONCE)):
            for message, query in zip(some, self._present.queries([page.signature for page in some]), strict=True):
                self._store(message, query)
                self._after(message)

    def _probes(self, messages: Iterator[Probe]) -> None:
        """Most match nobody, and a probe changes nothing for the next one: these are told apart all at once."""
        while some := list(islice(messages, QUERIES_AT_ONCE)):
            if not len(self._present.entries):
                continue
            promising = self._present.entries.promising([page.signature for page in some])
            for message, query in zip(some, promising, strict=True):
                if query is not None:
                    self._probe(message, query)
                    self._after(message)

    def _after(self, message: Any) -> None:
        """Settle what the message brought; while work is left, one message to go on with is under way."""
        if self._was_cut or not self._is_quiet():
            resume = isinstance(message, ContinueTier2)
            self._settle(resume=resume)
            is_cut = self._is_cut()
            if is_cut and (resume or not self._was_cut):
                self._out.append(Send("tier2", self._partition, ContinueTier2(self._partition)))
            self._was_cut = is_cut

    # Vertices come and go

    def _store(self, message: Store, query: Query) -> None:
        content, key = message.signature, order_key(message.vertex)
        matches = _matches(self._present.entries, query, key)
        seen = _seen(matches or _matches(self._present.visitors, query, key))
        stars = tuple(StarRow(key) for key in message.keys)
        row = VertexRow(message.vertex, True, self._partition, message.probes, content.content_hash, stars)
        number = self._add(row, query, matches)
        winner = tuple([each.enter(number, query, seen) for each in self._stars])
        for partition in message.probes:
            probe = Probe(message.vertex, self._partition, content, message.keys, winner)
            self._out.append(Send("tier2", partition, probe))

    def _probe(self, message: Probe, query: Query) -> None:
        content = message.signature
        matches = _matches(self._present.entries, query, order_key(message.vertex))
        if not matches:
            return
        stars = tuple(StarRow(key, told=told) for key, told in zip(message.keys, message.winner, strict=True))
        row = VertexRow(message.vertex, False, message.home, (), content.content_hash, stars)
        number = self._add(row, query, matches)
        for each in self._stars:
            each.enter(number, query, _seen(matches))

    def _add(self, row: VertexRow, query: Query, matches: list[Match]) -> int:
        number = self._vertices.add(row, query.signature)
        self._forest.add(number, query, matches)
        return number

    def _remove(self, message: Remove) -> None:
        number = self._vertices.number(message.vertex)
        if number is None:
            return
        for partition in self._vertices.row(number).probes:
            self._out.append(Send("tier2", partition, Unprobe(message.vertex)))
        self._take_out(number, message.vertex)

    def _unprobe(self, message: Unprobe) -> None:
        number = self._vertices.number(message.vertex)
        if number is not None:
            self._take_out(number, message.vertex)

    def _take_out(self, number: int, vertex: str) -> None:
        row = self._vertices.row(number)
        for stars in self._stars:
            stars.leave(number, row)
        self._forest.remove(number)
        self._vertices.remove(number, vertex)

    def _rekey(self, message: Rekey) -> None:
        """Out of the stars and in again under the new key; the forest does not care. What others said of it stays until
        they say otherwise."""
        number = self._vertices.number(message.vertex)
        if number is None:
            return
        row = self._vertices.row(number)
        told = message.winner or (None,) * len(row.stars)
        left = [stars.leave(number, row) for stars in self._stars]
        each = zip(left, message.keys, told, strict=True)
        row = replace(row, stars=tuple(replace(star, key=key, told=flag) for star, key, flag in each))
        self._vertices.put(number, row)
        query = self._present.query(number)
        winner = tuple([stars.enter(number, query) for stars in self._stars])
        if row.entry:
            for partition in row.probes:
                self._out.append(Send("tier2", partition, Rekey(message.vertex, message.keys, winner)))

    # What partitions tell each other

    def _news(self, message: News) -> None:
        """All is noted before anything is settled: else each cover of a clique would dethrone the next stand-in."""
        for item in message.items:
            number = self._vertices.number(item.vertex)
            if number is None:
                continue  # it has left meanwhile
            row = self._vertices.row(number)
            star = row.stars[item.market]
            if isinstance(item, Win) and not row.entry:
                star = replace(star, told=item.winner)
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
        """Work off what the message brought, as far as one step goes, and say what came of it."""
        news: dict[int, list[Win | Covered]] = {}
        for stars in self._stars:
            for partition, item in stars.settle(resume=resume):
                if isinstance(item, Star):
                    self._out.append(Send("pages", url_of(item.vertex), item))
                else:
                    assert partition is not None
                    news.setdefault(partition, []).append(item)
        for partition, items in news.items():
            for start in range(0, len(items), NEWS_ITEMS_MAX):
                chunk = tuple(items[start : start + NEWS_ITEMS_MAX])
                self._out.append(Send("tier2", partition, News(self._partition, chunk)))

    def _is_quiet(self) -> bool:
        return not self._forest.needs_repair and all(stars.is_quiet for stars in self._stars)

    def _is_cut(self) -> bool:
        return self._forest.needs_repair or any(stars.is_cut for stars in self._stars)

    def _edge_found(self, one: int, other: int, similarity: float) -> None:
        vertex = self._vertices.row(one).vertex
        edge = Edge(self._vertices.row(other).vertex, similarity)
        self._out.append(Send("pages", url_of(vertex), Route(vertex, edge)))


def _matches(search: Search, query: Query, key: int) -> list[Match]:
    return search.first_match_per_component(query, key) if len(search) else []


def _seen(matches: list[Match]) -> Seen:
    return Seen(not matches, {match.number: match.similarity for match in matches})


def _with_cover(star: StarRow, source: int, item: Covered) -> dict[int, Cover]:
    remote = {partition: cover for partition, cover in star.remote.items() if partition != source}
    if item.cover is not None:
        remote[source] = item.cover
    return remote
