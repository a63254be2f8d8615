"""Records that wait for the next round of a worker's tasks."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from faust.types import TP

from dustream.streams.kafka.records import InRecord

FAR = 1 << 63  # beyond every offset


class Inboxes:
    """What waits for each task, and what is known to be on its way to it. Of each topic about `bytes_max` may wait,
    whatever the number of tasks. When `round_bytes` wait, there is enough for a round."""

    def __init__(self, bytes_max: int, round_bytes: int) -> None:
        self._bytes_max = bytes_max
        self._round_bytes = round_bytes
        self._waiting: dict[TP, deque[InRecord]] = {}
        self._bytes: Counter[str] = Counter()
        self._next: dict[TP, int] = {}
        self._expected: dict[TP, int] = {}
        self._put = asyncio.Event()
        self._taken = asyncio.Event()
        self._gathered = asyncio.Event()

    def put(self, tp: TP, record: InRecord) -> None:
        self._waiting.setdefault(tp, deque()).append(record)
        self._bytes[tp.topic] += _size(record)
        self._next[tp] = record.offset + 1
        if self._expected.get(tp, FAR) <= record.offset + 1:
            del self._expected[tp]
        self._put.set()
        self._look()

    def expect(self, tp: TP, end: int) -> None:
        """The records before `end` are in the log: they will come."""
        if self._next.get(tp, 0) < end:
            self._expected[tp] = max(end, self._expected.get(tp, 0))
            self._look()

    def _look(self) -> None:
        if not self._expected or self._bytes.total() >= self._round_bytes:
            self._gathered.set()
        else:
            self._gathered.clear()

    async def gathered(self, patience_s: float) -> None:
        """Return when all that was expected has come, or enough for a round. What does not come in time is expected no
        more: it may have gone to another worker."""
        self._look()
        try:
            await asyncio.wait_for(self._gathered.wait(), patience_s)
        except TimeoutError:
            self._expected.clear()

    def waiting(self) -> list[TP]:
        """The tasks that something waits for."""
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

    def clear(self, tp: TP) -> None:
        """Forget what waits: it will be fetched again."""
        self._bytes[tp.topic] -= sum(map(_size, self._waiting.pop(tp, ())))
        self._next.pop(tp, None)
        self._expected.pop(tp, None)
        self._taken.set()
        self._look()

    async def arrival(self) -> None:
        """Return when something waits."""
        while not self.waiting():
            self._put.clear()
            await self._put.wait()

    async def room(self, topic: str) -> None:
        """Return when more of a topic may come."""
        while self._bytes[topic] > self._bytes_max:
            self._taken.clear()
            await self._taken.wait()


def _size(record: InRecord) -> int:
    return len(record.value or b"")
