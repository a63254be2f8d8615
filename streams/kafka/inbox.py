"""Records that wait for the next round of a worker's tasks."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice

from faust.types import TP

from dustream.streams.kafka.records import InRecord


class Inboxes:
    """The records that wait for each task. About `bytes_max` may wait per topic, whatever the number of tasks."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[TP, deque[InRecord]] = {}
        self._bytes: Counter[str] = Counter()
        self.arrived = 0
        """Number of records so far."""
        self._put = asyncio.Event()
        self._taken = asyncio.Event()

    def put(self, tp: TP, record: InRecord) -> None:
        self._waiting.setdefault(tp, deque()).append(record)
        self._bytes[tp.topic] += _size(record)
        self.arrived += 1
        self._put.set()

    def waiting(self) -> list[TP]:
        """The tasks with waiting records."""
        return sorted(tp for tp, records in self._waiting.items() if records)

    def take(self, tp: TP, bytes_max: int) -> list[InRecord]:
        """The first records, up to the one that reaches `bytes_max`."""
        waiting = self._waiting.get(tp, deque())
        taken: list[InRecord] = []
        size = 0
        while waiting and size < bytes_max:
            taken.append(waiting.popleft())
            size += _size(taken[-1])
        self._bytes[tp.topic] -= size
        self._taken.set()
        return taken

    def take_fairly(self, tps: Iterable[TP], bytes_max: int) -> dict[TP, list[InRecord]]:
        """The first records of tasks, for each its share, at least one. Unused shares are redistributed to other
        tasks."""
        by_size = sorted((sum(map(_size, self._waiting[tp])), tp) for tp in tps)
        taken: dict[TP, list[InRecord]] = {}
        left, sharing = bytes_max, len(by_size)
        for _, tp in by_size:
            taken[tp] = self.take(tp, max(1, left // sharing))
            left, sharing = left - sum(map(_size, taken[tp])), sharing - 1
        return dict(sorted(taken.items()))

    def first(self, count: int) -> Iterator[tuple[TP, InRecord]]:
        """The first records of every task, without removing them."""
        for tp in self.waiting():
            for record in list(islice(self._waiting[tp], count)):
                yield tp, record

    def clear(self, tp: TP) -> None:
        """Drop the waiting records: they will be fetched again."""
        self._bytes[tp.topic] -= sum(map(_size, self._waiting.pop(tp, ())))
        self._taken.set()

    def wake(self) -> None:
        """Wake the worker for something other than a record."""
        self._put.set()

    async def arrival(self, timeout_s: float) -> None:
        """Return when a record has arrived since the last call, or after the timeout."""
        try:
            await asyncio.wait_for(self._put.wait(), timeout_s)
        except TimeoutError:
            return
        self._put.clear()

    async def room(self, topic: str) -> None:
        """Return when a topic may deliver more records."""
        while self._bytes[topic] > self._bytes_max:
            self._taken.clear()
            await self._taken.wait()


def _size(record: InRecord) -> int:
    return len(record.value or b"")
