"""Processors that are watched at work: what they find is counted for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dustream.core.groups.rows import GroupRow
from dustream.core.pipeline import GROUPS, STATUS
from dustream.core.processor import Processor, Send, Table, TaskState
from dustream.streams.kafka.metrics import Metrics


class StatusesCounted:
    """Counts the statuses a processor writes, by role."""

    def __init__(self, processor: Processor, metrics: Metrics) -> None:
        self._processor = processor
        self._metrics = metrics

    def open(self, state: TaskState) -> None:
        self._processor.open(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._processor.process(state, messages)
        for role, count in Counter(send.message.role for send in sends if send.topic == STATUS).items():
            self._metrics.add("statuses", count, role=role)
        return sends


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
