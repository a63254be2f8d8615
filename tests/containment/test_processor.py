"""The containment processor: one solution, whatever the history, the batches and the restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.containment.processor import CodeRow, ContainmentProcessor
from dustream.core.pages.code_order import criteria_first, longer_first
from dustream.core.pages.vertex import url_of, vertex_name
from dustream.core.text.repeatability import repeatability
from dustream.schemas.containment import ContainmentMessage, DropCode, KeepCode, Place, PlaceCode, ReorderCode

DELTA = 0.75
STOCK = "".join(chr(0x4E00 + i) for i in range(60))
CODES = st.tuples(st.integers(0, 12), st.sampled_from([8, 9, 12, 16, 24, 40])).map(
    lambda place: STOCK[place[0] : place[0] + place[1]]
)
NAMES = "abcdef"
KEYS = st.binary(min_size=1, max_size=1)
STEPS = st.one_of(
    st.tuples(st.just("keep"), st.sampled_from(NAMES), CODES, KEYS),
    st.tuples(st.just("keep"), st.sampled_from(NAMES), CODES, KEYS),
    st.tuples(st.just("place"), st.sampled_from(NAMES), st.sampled_from(["alone", "winner", "duplicate"])),
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


class World:
    """Pages as they are: what the messages must lead to is computed from scratch."""

    def __init__(self, order: Any) -> None:
        self.order = order
        self.pages: dict[str, tuple[str, bytes, Place]] = {}
        self.vertices: dict[str, str] = {}
        self.epoch = 0

    def message(self, step: tuple[Any, ...]) -> ContainmentMessage | None:
        """The message of a step, None if pages would not send it."""
        kind, name, *rest = step
        vertex = self.vertices.get(name, "")
        known = self.pages.get(vertex)
        if (kind == "keep") != (known is None):
            return None
        if kind == "keep":
            self.epoch += 1
            vertex = self.vertices[name] = vertex_name(5, f"https://{name}.example/", self.epoch)
            code, key = rest
            order = self.order(len(code), key + vertex.encode())
            self.pages[vertex] = (code, order, "alone")
            return KeepCode(vertex, code, order)
        assert known is not None
        if kind == "place":
            self.pages[vertex] = (known[0], known[1], rest[0])
            return PlaceCode(vertex, rest[0])
        if kind == "reorder":
            order = self.order(len(known[0]), rest[0] + vertex.encode())
            self.pages[vertex] = (known[0], order, known[2])
            return ReorderCode(vertex, order)
        del self.pages[vertex]
        return DropCode(vertex)

    def solution(self) -> dict[str, tuple[str, float]]:
        """From the best to the worst: contained in the first page kept that has enough of it."""
        kept: list[str] = []
        contained: dict[str, tuple[str, float]] = {}
        for vertex in sorted(self.pages, key=lambda name: (self.pages[name][1], name)):
            code, _, place = self.pages[vertex]
            shares = ((better, repeatability(code, self.pages[better][0])) for better in kept)
            found = next(((better, share) for better, share in shares if share >= DELTA), None)
            if place == "alone" and found is not None:
                contained[vertex] = found
            elif place != "duplicate":
                kept.append(vertex)
        return contained


@given(
    st.lists(STEPS, min_size=10, max_size=40),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.sampled_from([longer_first, criteria_first]),
    st.integers(0, 40),
)
@settings(max_examples=300, deadline=None)
def test_any_history_leads_to_the_one_solution(
    steps: list[tuple[Any, ...]], batches: list[int], order: Any, restart: int
) -> None:
    world, state = World(order), OneTable()
    messages = [message for step in steps if (message := world.message(step)) is not None]
    processor = ContainmentProcessor(DELTA)
    processor.open(state)
    told: dict[str, tuple[str, float]] = {}
    at = turn = 0
    while at < len(messages):
        batch = messages[at : at + batches[turn % len(batches)]]
        if turn == restart % (len(messages) + 1):
            processor = ContainmentProcessor(DELTA)
            processor.open(state)
        for send in processor.process(state, batch):
            assert send.topic == "pages" and send.key == url_of(send.message.vertex)
            told[send.message.vertex] = (send.message.container, send.message.share)
        at, turn = at + len(batch), turn + 1
    expected = {vertex: (url_of(better), share) for vertex, (better, share) in world.solution().items()}
    rows = {vertex: row for vertex, row in state.codes.rows.items() if row.container}
    assert {vertex: (url_of(row.container), row.share) for vertex, row in rows.items()} == expected
    assert set(state.codes.rows) == set(world.pages)
    alive = {vertex: said for vertex, said in told.items() if said[0] and vertex in world.pages}
    assert alive == expected
