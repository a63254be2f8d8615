"""Processors that are watched at work: what they find is counted for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dustream.core.groups.rows import GroupRow
from dustream.core.pages.rows import imbalance
from dustream.core.pipeline import GROUPS, PAGES, STATUS
from dustream.core.processor import Processor, Send, Table, TaskState
from dustream.streams.kafka.metrics import Metrics


class PagesCounted:
    """Counts the statuses a processor writes, by role, and its pages by their tier-2 partition."""

    def __init__(self, processor: Processor, metrics: Metrics, tier2_partitions: int) -> None:
        self._processor = processor
        self._metrics = metrics
        self._tier2_partitions = tier2_partitions

    def open(self, state: TaskState) -> None:
        self._processor.open(state)
        self._tell_homes(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._processor.process(state, messages)
        for role, count in Counter(send.message.role for send in sends if send.topic == STATUS).items():
            self._metrics.add("statuses", count, role=role)
        self._tell_homes(state)
        return sends

    def _tell_homes(self, state: TaskState) -> None:
        pages, remapped = [0] * self._tier2_partitions, 0
        for key, row in state.table("homes").scan():
            pages[int(key)] = row.pages
            remapped += row.remapped
        here = {"processor": PAGES, "partition": str(state.partition)}
        for home, count in enumerate(pages):
            self._metrics.set("tier2_pages", count, home=str(home), **here)
        self._metrics.set("tier2_imbalance", imbalance(pages), **here)
        self._metrics.set("remapped_pages", remapped, **here)


class GroupsCounted:
    """Keeps the number of groups of more than one page: counted once, then by what changes."""

    def __init__(self, processor: Processor, metrics: Metrics) -> None:
        self._processor = processor
        self._metrics = metrics
        self._groups: CountedGroups

    def open(self, state: TaskState) -> None:
        self._groups = CountedGroups(state.table(GROUPS))
        self._processor.open(CountedState(state, self._groups))
        self._tell(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._processor.process(CountedState(state, self._groups), messages)
        self._tell(state)
        return sends

    def _tell(self, state: TaskState) -> None:
        self._metrics.set("groups", self._groups.count, processor=GROUPS, partition=str(state.partition))


class CountedState:
    """A task's tables, one of them counted."""

    def __init__(self, state: TaskState, groups: CountedGroups) -> None:
        self._state = state
        self._groups = groups

    @property
    def partition(self) -> int:
        return self._state.partition

    def table(self, name: str) -> Table[Any]:
        return self._groups if name == GROUPS else self._state.table(name)


class CountedGroups:
    """The table of groups."""

    def __init__(self, table: Table[GroupRow]) -> None:
        self._table = table
        self.count = sum(_counts(row) for _, row in table.scan())

    def get(self, key: str) -> GroupRow | None:
        return self._table.get(key)

    def put(self, key: str, row: GroupRow) -> None:
        self.count += _counts(row) - _counts(self._table.get(key))
        self._table.put(key, row)

    def delete(self, key: str) -> None:
        self.count -= _counts(self._table.get(key))
        self._table.delete(key)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, GroupRow]]:
        return self._table.scan(prefix, after)


def _counts(row: GroupRow | None) -> bool:
    return row is not None and row.size > 1
