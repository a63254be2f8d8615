"""Wrappers of processors that count their results for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dustream.core.groups.rows import GroupRow
from dustream.core.pages.rows import imbalance
from dustream.core.pipeline import GROUPS, PAGES, SITES, STATUS
from dustream.core.processor import Processor, Send, Table, TaskState
from dustream.core.sites.processor import SiteRow
from dustream.streams.kafka.metrics import Metrics


class PagesCounted:
    """Counts the statuses that a processor writes, by role, and its pages by their tier-2 partition."""

    def __init__(self, processor: Processor, metrics: Metrics, tier2_partitions: int) -> None:
        self._processor = processor
        self._metrics = metrics
        self._tier2_partitions = tier2_partitions

    def open(self, state: TaskState) -> None:
        self._processor.open(state)
        self._publish_homes(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._processor.process(state, messages)
        for role, count in Counter(send.message.role for send in sends if send.topic == STATUS).items():
            self._metrics.add("statuses", count, role=role)
        self._publish_homes(state)
        return sends

    def _publish_homes(self, state: TaskState) -> None:
        pages, remapped = [0] * self._tier2_partitions, 0
        for key, row in state.table("homes").scan():
            pages[int(key)] = row.pages
            remapped += row.remapped
        here = {"processor": PAGES, "partition": str(state.partition)}
        for home, count in enumerate(pages):
            self._metrics.set("tier2_pages", count, home=str(home), **here)
        self._metrics.set("tier2_imbalance", imbalance(pages), **here)
        self._metrics.set("remapped_pages", remapped, **here)


Measures = Mapping[str, Callable[[Any], int]]
"""Gauges, and the contribution of a table row to each."""


class RowsCounted:
    """Maintains gauges that are sums over the rows of a processor's table: counted once, then updated by changes."""

    def __init__(
        self, processor: Processor, metrics: Metrics, name: str, table: str, kind: str, measures: Measures
    ) -> None:
        self._processor = processor
        self._metrics = metrics
        self._name = name
        self._table = table
        self._kind = kind
        self._measures = measures
        self._counted: CountedTable

    def open(self, state: TaskState) -> None:
        self._counted = CountedTable(state.table(self._table), self._measures)
        self._processor.open(CountedState(state, self._table, self._counted))
        self._publish_sums(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        sends = self._processor.process(CountedState(state, self._table, self._counted), messages)
        self._publish_sums(state)
        return sends

    def _publish_sums(self, state: TaskState) -> None:
        for gauge, value in self._counted.sums.items():
            labels = {"kind": self._kind} if gauge != "groups" else {}
            self._metrics.set(gauge, value, processor=self._name, partition=str(state.partition), **labels)


class CountedState:
    """A task's tables, one of them with sums."""

    def __init__(self, state: TaskState, name: str, counted: CountedTable) -> None:
        self._state = state
        self._name = name
        self._counted = counted

    @property
    def partition(self) -> int:
        return self._state.partition

    def table(self, name: str) -> Table[Any]:
        return self._counted if name == self._name else self._state.table(name)


class CountedTable:
    """A table, and sums over its rows."""

    def __init__(self, table: Table[Any], measures: Measures) -> None:
        self._table = table
        self._measures = measures
        self.sums = dict.fromkeys(measures, 0)
        for _, row in table.scan():
            self._add(row, 1)

    def _add(self, row: Any, sign: int) -> None:
        if row is not None:
            for gauge, measure in self._measures.items():
                self.sums[gauge] += sign * measure(row)

    def get(self, key: str) -> Any:
        return self._table.get(key)

    def put(self, key: str, row: Any) -> None:
        self._add(self._table.get(key), -1)
        self._add(row, 1)
        self._table.put(key, row)

    def delete(self, key: str) -> None:
        self._add(self._table.get(key), -1)
        self._table.delete(key)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Any]]:
        return self._table.scan(prefix, after)


def _is_held_group(row: GroupRow) -> bool:
    return row.standing is not None and row.standing.held


def _held_lost(row: SiteRow) -> int:
    """Lost pages of a held site, in the market that loses most."""
    return max((lost for market, lost in enumerate(row.lost) if row.held >> market & 1), default=0)


OF_GROUPS: Measures = {
    "groups": lambda row: row.size > 1,
    "alarms": _is_held_group,
    "held_pages": lambda row: row.size - 1 if _is_held_group(row) else 0,
}
OF_SITES: Measures = {"alarms": lambda row: row.held != 0, "held_pages": _held_lost}


def groups_counted(processor: Processor, metrics: Metrics) -> Processor:
    return RowsCounted(processor, metrics, GROUPS, GROUPS, "group_held", OF_GROUPS)


def sites_counted(processor: Processor, metrics: Metrics) -> Processor:
    return RowsCounted(processor, metrics, SITES, SITES, "site_held", OF_SITES)
