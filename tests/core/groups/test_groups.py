"""Groups that are big: held back, and handled in bounded steps."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from model_pipeline import Pipeline, gone, page

from dustream.core.groups.processor import GroupsProcessor, priority
from dustream.core.processor import Send
from dustream.schemas.groups import Transfer
from dustream.schemas.pages import Decision


def chain_url(number: int) -> str:
    return f"http://calendar.example/{number:05d}"


def chain(count: int, first: int = 0) -> list[Any]:
    """Pages each of which matches the next (Jaccard 90/110), and no other."""
    return [page(chain_url(n), 1 + n, range(10 * n, 10 * n + 100)) for n in range(first, first + count)]


class TestBreaker:
    def test_a_source_linked_by_weak_links_is_held_not_wiped(self) -> None:
        pipeline = Pipeline(groups={"group_size_max": 20}).feed(*chain(20))
        assert set(pipeline.roles().values()) == {"winner", "duplicate"}
        assert not pipeline.alarms()
        pipeline.feed(*chain(1, first=20))
        assert set(pipeline.roles().values()) == {"winner", "held"}
        assert [(alarm.kind, alarm.size) for alarm in pipeline.alarms()] == [("group_held", 21)]

    def test_held_is_a_function_of_what_the_group_is_now(self) -> None:
        pipeline = Pipeline(groups={"group_size_max": 20}).feed(*chain(21)).feed(gone(chain_url(20), 99))
        assert "held" not in pipeline.roles().values()
        assert [alarm.kind for alarm in pipeline.alarms()][-1] == "group_passed"

    def test_an_operator_releases_and_holds_again(self) -> None:
        pipeline = Pipeline(groups={"group_size_max": 20}).feed(*chain(21), Decision(chain_url(0), 1, "group", 0.0))
        assert "held" not in pipeline.roles().values()
        pipeline.feed(Decision(chain_url(0), 2, "group", None))
        assert "held" in pipeline.roles().values()

    def test_a_release_counts_for_the_group_with_that_id_alone(self) -> None:
        pipeline = Pipeline(groups={"group_size_max": 20}).feed(*chain(21), Decision(chain_url(7), 1, "group", 0.0))
        assert "held" in pipeline.roles().values()


class Watched(GroupsProcessor):
    """Notes how much each message and each step carries."""

    transfer_rows: ClassVar[list[int]] = []
    step_sends: ClassVar[list[int]] = []

    def _receive(self, message: Any) -> None:
        before = len(self._out)
        super()._receive(message)
        self.step_sends.append(len(self._out) - before)
        if isinstance(message, Transfer):
            self.transfer_rows.append(len(message.memberships) + len(message.edges))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr("model_pipeline.GroupsProcessor", Watched)
    Watched.transfer_rows, Watched.step_sends = [], []
    return Watched


def test_a_giant_splits_and_joins_in_bounded_steps(watched: type[Watched]) -> None:
    count, rows_max, work_max = 120, 10, 30
    pipeline = Pipeline(groups={"transfer_rows_max": rows_max, "work_max": work_max}).feed(*chain(count))
    middle = chain_url(count // 2)
    pipeline.feed(gone(middle, 10_000))
    assert len({status.group for status in pipeline.statuses().values() if status.role != "gone"}) == 2
    pipeline.feed(page(middle, 10_001, range(10 * (count // 2), 10 * (count // 2) + 100)))
    assert {status.group for status in pipeline.statuses().values()} == {chain_url(0)}
    assert max(watched.transfer_rows) <= rows_max + 1
    assert max(watched.step_sends) <= work_max + rows_max
    assert sum(watched.transfer_rows) > count // 2


def test_a_hub_with_more_edges_than_a_message_holds(watched: type[Watched]) -> None:
    """The hub's membership comes in several chunks, its edges a few at a time."""
    hub = page("http://hub.example/", 1, range(100))
    leaves = [
        page(f"http://leaf.example/{n:03d}", 2 + n, [*range(100), *range(1000 * n, 1000 * n + 20)])
        for n in range(1, 60)
    ]
    pipeline = Pipeline(groups={"transfer_rows_max": 8, "work_max": 20}).feed(*leaves, hub)
    assert {status.group for status in pipeline.statuses().values()} == {hub.url}
    pipeline.feed(gone(hub.url, 1_000))
    assert set(pipeline.roles().values()) == {"gone", "unique"}
    assert max(watched.transfer_rows) <= 9


def test_a_chain_crawled_in_sequence_is_built_with_few_messages() -> None:
    """If the order of the keys decided who moves, they would run after each other: over a hundred messages a page."""
    handled = []

    class Counting(GroupsProcessor):
        def process(self, state: Any, messages: Any) -> list[Send]:
            handled.append(len(messages))
            return super().process(state, messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model_pipeline.GroupsProcessor", Counting)
        Pipeline().feed(*chain(100))
    assert sum(handled) < 20 * 100


def test_priority_is_a_strict_order_by_rank_first() -> None:
    assert priority(2, "x") > priority(1, "y")
    assert priority(1, "x") != priority(1, "y")
