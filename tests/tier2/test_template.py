"""A template shared by thousands of pages: what tier 2 does for one more of them does not depend on their number.

Work is counted, not timed: pairs compared, and pages that a search lists as candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dustream.core.pages.rows import PageRow
from dustream.core.text.signature import sign
from dustream.core.tier2.index import SimilarityIndex
from dustream.core.tier2.processor import TABLES, Tier2Processor
from dustream.core.tier2.search_protocol import ALL, Matching, Query
from dustream.core.tier2.stars import WORK_MAX
from dustream.core.topology import ProcessorSpec, TableSpec
from dustream.core.vertex import vertex_name
from dustream.core.winners import Market, Markets
from dustream.schemas.pages import Edge, Placed, Route, Star
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import ContinueTier2, Probe, Remove, StoreVertex
from dustream.streams.engine.tables import TaskTables
from dustream.streams.store.memory import MemoryStore

TAU = 0.8
PAGES = 5_000
PART = 1_000
TEMPLATE = " ".join(f"word{number}" for number in range(200))
MARKETS = Markets((Market(criteria=("popularity", "url_hash")),))


def near_copy(number: int) -> PageSignature:
    return sign(f"{TEMPLATE} page {number}")


class CountedIndex(SimilarityIndex):
    """The index, and how many candidates it listed."""

    listed = 0

    def matching(self, query: Query, after: int = -1, candidates_max: int = ALL) -> Matching:
        found = super().matching(query, after, candidates_max)
        self.listed += found.looked
        return found


class WatchedTable:
    """A table, and how many deleted rows its scans lead over: a store keeps them for a while."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._deleted: set[str] = set()
        self.passed = 0

    def get(self, key: str) -> Any:
        return self._table.get(key)

    def put(self, key: str, row: Any) -> None:
        self._deleted.discard(key)
        self._table.put(key, row)

    def delete(self, key: str) -> None:
        self._deleted.add(key)
        self._table.delete(key)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Any]]:
        last = max(prefix, after)
        for key, row in self._table.scan(prefix, after):
            self.passed += sum(last < each < key for each in self._deleted)
            last = key
            yield key, row
        self.passed += sum(last < each and each.startswith(prefix) for each in self._deleted)


class WatchedTables(TaskTables):
    """The tables of a task, watched."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.watched = {name: WatchedTable(table) for name, table in self._tables.items()}

    def table(self, name: str) -> Any:
        return self.watched[name]


class Partition:
    """One tier-2 task, and what it has cost so far."""

    def __init__(self, work_max: int = WORK_MAX) -> None:
        self._work_max = work_max
        tables = tuple(TableSpec(name, row) for name, row in TABLES.items())
        spec = ProcessorSpec("tier2", "tier2", ("pages", "tier2"), tables, 1, self._processor)
        self._store = MemoryStore()
        self._tables = WatchedTables(self._store, spec, 0)
        self.open()

    def open(self) -> None:
        self._indexes: list[CountedIndex] = []
        self._task = self._processor()
        self._task.open(self._tables)

    def _processor(self) -> Tier2Processor:
        return Tier2Processor(MARKETS, self._index, work_max=self._work_max)

    def _index(self, shingles_of: Any) -> CountedIndex:
        self._indexes.append(CountedIndex(TAU, shingles_of))
        return self._indexes[-1]

    @property
    def work(self) -> int:
        """Pairs compared and candidates listed since the task was opened."""
        return sum(index.comparisons + index.listed for index in self._indexes)

    def passed(self, table: str) -> int:
        """Deleted rows that scans of a table led over."""
        return self._tables.watched[table].passed

    def tell(self, message: Any) -> list[Any]:
        """Handle a message and what it leaves over; returns what is said to pages."""
        said, waiting = [], [message]
        while waiting:
            for send in self._task.process(self._tables, [waiting.pop()]):
                (waiting if isinstance(send.message, ContinueTier2) else said).append(send.message)
        self._tables.accept()
        self._store.write(self._tables.drain())
        return said

    def store(self, number: int, popularity: float | None = None) -> list[Any]:
        return self.tell(StoreVertex(vertex(number), near_copy(number), keys(number, popularity), ()))

    def visit(self, number: int) -> list[Any]:
        return self.tell(Probe(vertex(number), 1, near_copy(number), keys(number, None), (False,)))

    def remove(self, number: int) -> list[Any]:
        return self.tell(Remove(vertex(number)))


def vertex(number: int) -> str:
    return vertex_name(number, f"http://site.example/{number}", 1)


def keys(number: int, popularity: float | None) -> tuple[bytes, ...]:
    page = PageRow(number, number, popularity=popularity)
    return MARKETS.keys(f"http://site.example/{number}", page, vertex(number))


def partners(said: Iterable[Any]) -> list[str]:
    """The other ends of the forest edges sent."""
    requests = [each.request for each in said if isinstance(each, Route)]
    requests += [edge for each in said if isinstance(each, Placed) for edge in each.edges]
    return [request.other for request in requests if isinstance(request, Edge)]


def test_one_more_copy_costs_the_same_however_many_there_are() -> None:
    """Every third page is a visitor. The first page is the best, so nobody else ever becomes a winner."""
    partition = Partition()
    partition.store(0, popularity=100.0)
    parts = []
    for start in range(0, PAGES, PART):
        before = partition.work
        for number in range(max(1, start), start + PART):
            said = partition.visit(number) if number % 3 == 2 else partition.store(number)
            assert len(partners(said)) == 1, "one component: one edge a page"
        parts.append((partition.work - before) / PART)
    assert max(parts) < 4, "compared with one of the component and with its winner, which was the only candidate listed"
    assert parts[-1] < 1.1 * parts[0] + 0.1


def test_winners_that_change_cost_what_they_take_over() -> None:
    """With keys in random order the n-th page is the best so far with probability 1/n, and then takes over n pages."""
    partition = Partition()
    winners = 0
    for number in range(PAGES):
        stars = [each for each in partition.store(number) if isinstance(each, Star)]
        winners += len(stars) > 0
    assert 3 < winners < 30
    assert partition.work < 10 * PAGES


def test_a_dead_winner_is_replaced_without_reading_over_what_was_deleted() -> None:
    """In many steps: each takes its work behind that of the step before."""
    members = 600
    partition = Partition(work_max=40)
    partition.store(0, popularity=100.0)
    for number in range(1, members):
        partition.store(number)
    before = {table: partition.passed(table) for table in ("duplicates", "agenda")}
    heard = {each.vertex for each in partition.remove(0) if isinstance(each, Star)}
    assert heard == {vertex(number) for number in range(1, members)}
    for table, passed in before.items():
        assert partition.passed(table) - passed < members, table


def test_copies_that_leave_and_a_restart_cost_little() -> None:
    partition = Partition()
    linked = set()
    for number in range(2_000):
        said = partition.store(number, popularity=None if number else 100.0)
        linked |= set(partners(said))
    assert len(linked) > 500, "no page is the hub of all edges"
    before = partition.work
    for number in range(1, 2_000, 4):
        partition.remove(number)
    assert partition.work - before < 20 * 500
    partition.open()
    assert partition.work == 0, "opening compares nothing"
    for number in range(3_000, 3_100):
        assert len(partners(partition.store(number))) == 1
    assert partition.work < 4 * 100


def test_no_exact_copy_is_the_hub_of_all_edges() -> None:
    """The forest of a giant falls into few pieces wherever a page goes."""
    partition = Partition()
    page, edges = sign(TEMPLATE), Counter[str]()
    for number in range(1_000):
        said = partition.tell(StoreVertex(vertex(number), page, keys(number, None), ()))
        edges.update(partners(said))
    assert sum(edges.values()) == 1_000 - 1
    assert max(edges.values()) < 25


def test_pages_that_share_buckets_and_do_not_match_stay_apart() -> None:
    """Three quarters of each text are the template: pages meet in buckets, are compared, and that is all."""
    partition = Partition()
    for number in range(200):
        own = " ".join(f"own{number}x{place}" for place in range(60))
        page = sign(f"{TEMPLATE} {own}")
        assert partition.tell(StoreVertex(vertex(number), page, keys(number, None), ())) == [Placed(vertex(number))]
    assert partition.work > 0.5 * 200 * 199 / 2
