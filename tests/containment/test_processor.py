"""The containment processor: one solution, whatever the history, the batches and the restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.containment.rows import CodeRow
from dustream.core.pages.code_order import criteria_first, longer_first
from dustream.core.pages.vertex import url_of, vertex_name
from dustream.core.processor import Send
from dustream.core.text.repeatability import repeatability
from dustream.schemas.containment import CodeNews, Codes, DropCode, KeepCode, Place, PlaceCode, ReorderCode

DELTA = 0.75
STOCK = "".join(chr(0x4E00 + i) for i in range(60))
CODES = st.tuples(st.integers(0, 12), st.sampled_from([8, 9, 12, 16, 24, 40])).map(
    lambda place: STOCK[place[0] : place[0] + place[1]]
)
NAMES = "abcdef"
MARKETS = 2
KEYS = st.tuples(*[st.binary(min_size=1, max_size=1)] * MARKETS)
PLACES = st.sampled_from(
    [("alone", "alone"), ("winner", "winner"), ("winner", "duplicate"), ("duplicate", "winner"), ("duplicate",) * 2]
)
STEPS = st.one_of(
    st.tuples(st.just("keep"), st.sampled_from(NAMES), CODES, KEYS),
    st.tuples(st.just("keep"), st.sampled_from(NAMES), CODES, KEYS),
    st.tuples(st.just("place"), st.sampled_from(NAMES), PLACES),
    st.tuples(st.just("reorder"), st.sampled_from(NAMES), KEYS),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
)


class DictTable:
    def __init__(self) -> None:
        self.rows: dict[str, CodeRow] = {}

    def get(self, key: str) -> CodeRow | None:
        return self.rows.get(key)

    def put(self, key: str, row: CodeRow) -> None:
        self.rows[key] = row

    def delete(self, key: str) -> None:
        del self.rows[key]

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, CodeRow]]:
        return iter(sorted(self.rows.items()))


class OneTable:
    partition = 0

    def __init__(self) -> None:
        self.codes = DictTable()

    def table(self, name: str) -> Any:
        return self.codes


class Known(NamedTuple):
    code: str
    orders: tuple[bytes, ...]
    places: tuple[Place, ...]


class World:
    """Pages as they are: what the messages must lead to is computed from scratch."""

    def __init__(self, order: Any) -> None:
        self.order = order
        self.pages: dict[str, Known] = {}
        self.vertices: dict[str, str] = {}
        self.epoch = 0

    def news(self, step: tuple[Any, ...]) -> CodeNews | None:
        """What a step has to say, None if pages would not say it."""
        kind, name, *rest = step
        vertex = self.vertices.get(name, "")
        known = self.pages.get(vertex)
        if (kind == "keep") != (known is None):
            return None
        if kind == "keep":
            self.epoch += 1
            vertex = self.vertices[name] = vertex_name(5, f"https://{name}.example/", self.epoch)
            code, keys = rest
            orders = self.orders(code, keys)
            self.pages[vertex] = Known(code, orders, ("alone",) * MARKETS)
            return KeepCode(vertex, code, orders)
        assert known is not None
        if kind == "place":
            self.pages[vertex] = known._replace(places=rest[0])
            return PlaceCode(vertex, rest[0])
        if kind == "reorder":
            orders = self.orders(known.code, rest[0])
            self.pages[vertex] = known._replace(orders=orders)
            return ReorderCode(vertex, orders)
        del self.pages[vertex]
        return DropCode(vertex)

    def orders(self, code: str, keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
        return tuple(self.order(len(code), key) for key in keys)

    def solution(self, market: int) -> dict[tuple[int, str], tuple[str, float]]:
        """From the best to the worst: contained in the first page kept that has enough of it."""
        kept: list[str] = []
        contained: dict[tuple[int, str], tuple[str, float]] = {}
        for vertex in sorted(self.pages, key=lambda name: (self.pages[name].orders[market], name)):
            page = self.pages[vertex]
            shares = ((better, repeatability(page.code, self.pages[better].code)) for better in kept)
            found = next(((better, share) for better, share in shares if share >= DELTA), None)
            if page.places[market] == "alone" and found is not None:
                contained[market, vertex] = url_of(found[0]), found[1]
            elif page.places[market] != "duplicate":
                kept.append(vertex)
        return contained


Told = dict[tuple[int, str], tuple[str, float]]


class Task:
    """The processor on a table, with its messages to itself; noted is what pages were told last."""

    def __init__(self, settle_news: int, looks_max: int) -> None:
        self.state = OneTable()
        self.told: Told = {}
        self._limits = {"settle_news": settle_news, "looks_max": looks_max}
        self.restart()

    def restart(self) -> None:
        self._processor = ContainmentProcessor(DELTA, MARKETS, **self._limits)
        self._processor.open(self.state)

    def take(self, news: list[CodeNews]) -> None:
        half = len(news) // 2
        self._note(
            self._processor.process(self.state, [Codes("zh", tuple(news[:half])), Codes("zh", tuple(news[half:]))])
        )

    def rest(self) -> None:
        self._note(self._processor.at_rest(self.state))

    def _note(self, sends: list[Send]) -> None:
        for send in sends:
            said = send.message
            if send.topic == "containment":
                assert send.key == self.state.partition
                self._note(self._processor.process(self.state, [said]))
            else:
                assert send.topic == "pages" and send.key == url_of(said.vertex)
                verdict = said.verdict
                self.told[said.market, said.vertex] = (verdict.winner, verdict.similarity) if verdict else ("", 0.0)

    def contained(self, vertices: Iterable[str]) -> Told:
        alive = set(vertices)
        return {where: said for where, said in self.told.items() if said[0] and where[1] in alive}


@given(
    st.lists(STEPS, min_size=10, max_size=40),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.sampled_from([longer_first, criteria_first]),
    st.integers(0, 40),
    st.sampled_from([1, 5, 1_000]),
    st.sampled_from([1, 3, 1_000]),
)
@settings(max_examples=300, deadline=None)
def test_any_history_leads_to_the_one_solution(
    steps: list[tuple[Any, ...]], batches: list[int], order: Any, restart: int, settle_news: int, looks_max: int
) -> None:
    world, task = World(order), Task(settle_news, looks_max)
    news = [each for step in steps if (each := world.news(step)) is not None]
    at = turn = 0
    while at < len(news):
        batch = news[at : at + batches[turn % len(batches)]]
        if turn == restart % (len(news) + 1):
            task.restart()
        task.take(batch)
        at, turn = at + len(batch), turn + 1
    task.rest()
    expected = world.solution(0) | world.solution(1)
    rows = {
        (market, vertex): (url_of(each.container), each.share)
        for vertex, row in task.state.codes.rows.items()
        for market, each in enumerate(row.markets)
        if each.container
    }
    assert rows == task.contained(world.pages) == expected
    assert set(task.state.codes.rows) == set(world.pages)


@given(st.lists(STEPS, min_size=10, max_size=40), st.sampled_from([longer_first, criteria_first]))
@settings(max_examples=100, deadline=None)
def test_nobody_stays_in_a_page_that_is_not_kept(steps: list[tuple[Any, ...]], order: Any) -> None:
    """New pages may wait; a page whose container went or became a duplicate is told so at once."""
    world, task = World(order), Task(settle_news=3, looks_max=1_000)
    for step in steps:
        news = world.news(step)
        if news is None:
            continue
        task.take([news])
        told = task.contained(world.pages)
        dropped = {(market, url_of(vertex)) for market, vertex in told}
        for (market, vertex), (winner, _) in told.items():
            container = world.pages[world.vertices[winner.split("/")[2].split(".")[0]]]
            assert world.pages[vertex].places[market] == "alone"
            assert container.places[market] != "duplicate" and (market, winner) not in dropped


def test_a_page_that_becomes_a_duplicate_is_not_told_first_that_it_is_contained() -> None:
    task = Task(settle_news=1_000, looks_max=1_000)
    whole, part, copy = (vertex_name(5, f"https://{name}.example/", 1) for name in ("whole", "part", "copy"))
    codes = {whole: STOCK[:40], part: STOCK[:24], copy: STOCK[:39]}
    task.take([KeepCode(vertex, code, (longer_first(len(code), b""),) * MARKETS) for vertex, code in codes.items()])
    task.take([PlaceCode(copy, ("duplicate",) * MARKETS), PlaceCode(whole, ("winner",) * MARKETS)])
    task.rest()
    assert task.told == {(market, part): ("https://whole.example/", 1.0) for market in range(MARKETS)}
