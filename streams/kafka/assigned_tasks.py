"""The tasks of the partitions assigned to this worker: opened, positioned and closed as the assignment changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from faust.types import TP

from dustream.core.errors import StateMismatch, broken_program
from dustream.core.processor import Send
from dustream.core.topology import ProcessorSpec
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.faust_consumer import split_since
from dustream.streams.kafka.inbox import Inboxes
from dustream.streams.kafka.local_state import DiskFull
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.task import Abandoned, KafkaTask, Runtime
from dustream.streams.kafka.transactions import Membership, Place

log = logging.getLogger(__name__)

INBOX_BYTES_MAX = 16 << 20  # per stage
REOPEN_DELAY_S = 1.0
TASK_GAUGES = (
    "position",
    "lag",
    "lag_seconds",
    "groups",
    "alarms",
    "held_pages",
    "tier2_pages",
    "tier2_imbalance",
    "remapped_pages",
)


class AssignedTasks:
    """The tasks by partition, and the records that wait for them."""

    def __init__(
        self,
        runtime: Runtime,
        specs: Sequence[ProcessorSpec],
        group: ConsumerGroup,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._runtime = runtime
        self._by_topic = {runtime.application.topic(spec.input): spec for spec in specs}
        self._group = group
        self._fail = fail
        self.turn = asyncio.Lock()
        """Held by a round, and by code that changes what a round depends on."""
        self.inboxes = Inboxes(INBOX_BYTES_MAX)
        self.membership: Membership | None = None
        self.by_partition: dict[TP, KafkaTask] = {}
        self.resting: dict[TP, asyncio.Task[None]] = {}
        """Tasks that do postponed work now; rounds continue without them."""
        self.rested: dict[TP, list[Send]] = {}
        """What this work sends, for the next round."""
        self.sought_at_s: dict[TP, float] = {}
        self.written_at_s: dict[TP, float] = {}
        """When the newest record fetched of each log was written."""
        self._ours: set[TP] = set()
        self._refused: Membership | None = None
        self._opening: dict[TP, asyncio.Task[None]] = {}
        self._not_before_s: dict[TP, float] = {}

    # ---------------------------------------------------------------- records

    async def deliver(self, message: Any) -> None:
        """Put a record into its task's inbox. Opening a task seeks to its position: earlier records come again."""
        generation = -1 if self.membership is None else self.membership.generation
        if message.generation_id == generation and self.is_open(message.tp):
            self.inboxes.put(message.tp, _record(message))
            self.written_at_s[message.tp] = message.timestamp
            await self.inboxes.room(message.topic)

    async def seek(self, tp: TP) -> None:
        """Fetch again from the task's position."""
        self.sought_at_s[tp] = time.monotonic()
        self.inboxes.clear(tp)
        if self.is_open(tp):
            await self._group.seek(tp, self.by_partition[tp].progress.position)

    # ---------------------------------------------------------------- tasks

    def is_open(self, tp: TP) -> bool:
        return tp in self.by_partition and self.by_partition[tp].is_open

    def are_all_open(self) -> bool:
        """Whether every assigned partition has its task open."""
        return self.membership is not None and all(self.is_open(tp) for tp in list(self._ours))

    def is_ours(self, tp: TP) -> bool:
        """Whether a task is open, and assigned to this worker."""
        return tp in self._ours and self.is_open(tp)

    def are_rested(self) -> bool:
        """Whether no task has postponed work. May be called from any thread."""
        tasks = list(self.by_partition.values())
        return not self.resting and not self.rested and all(task.is_rested for task in tasks if task.is_open)

    def opened(self) -> tuple[int, int]:
        """How many tasks are assigned, and how many of them are open. May be called from any thread."""
        ours = list(self._ours)
        return len(ours), sum(map(self.is_open, ours))

    def takes_part(self, tp: TP) -> bool:
        """Whether a task takes part in the rounds of this generation. The group accepts the position of any partition
        from a member: so a task assigned to another worker is left out at once, not only when it is closed."""
        return tp in self._ours and self.is_open(tp) and tp not in self.resting

    def taking_part(self) -> dict[Place, KafkaTask]:
        return {self.place(tp): task for tp, task in self.by_partition.items() if self.takes_part(tp)}

    def place(self, tp: TP) -> Place:
        return self._by_topic[tp.topic].input, tp.partition

    def partition_of_task(self, task: KafkaTask) -> TP:
        return TP(self._runtime.application.topic(task.spec.input), task.partition)

    # ---------------------------------------------------------------- assignment

    async def follow_assignment(self) -> None:
        """Keep the tasks equal to the assigned partitions."""
        membership, ours = self._group.assignment()
        if membership is None or membership == self._refused:
            return
        self._ours = ours
        if membership != self.membership:
            await self._enter(membership)
        # A task must be closed before it may be opened again: the two would write to one local copy.
        await asyncio.gather(*(self.close(tp) for tp in set(self.by_partition) - ours))
        now_s = time.monotonic()
        for tp in sorted(ours - self._opening.keys()):
            if not self.is_open(tp) and self._not_before_s.get(tp, 0) <= now_s:
                self._opening[tp] = asyncio.create_task(self._open(tp))
        self._runtime.metrics.set("tasks", len(self.by_partition))

    def leave(self, membership: Membership) -> None:
        """The group rejected this membership: wait for the next one."""
        self._refused = membership
        self.membership = None if self.membership == membership else self.membership

    async def _enter(self, membership: Membership) -> None:
        """Apply a new generation. Tasks that we kept without interruption are up to date; if we missed a generation,
        another worker may have had them."""
        async with self.turn:
            before, self.membership = self.membership, membership
            log.info("generation %d: %d partitions", membership.generation, len(self._ours))
            self._runtime.metrics.add("rebalances")
            self._not_before_s.clear()
            kept = set(self.by_partition) & self._ours
            if not _follows(membership, before):
                for tp in kept:
                    self.by_partition[tp].close()
                    self.rested.pop(tp, None)
            for tp in kept:
                await self.seek(tp)

    async def _open(self, tp: TP) -> None:
        task = self.by_partition.get(tp)
        if task is None:
            task = self.by_partition[tp] = KafkaTask(self._by_topic[tp.topic], tp.partition, self._runtime)
        try:
            await self._open_task(tp, task)
        finally:
            self._opening.pop(tp, None)

    async def _open_task(self, tp: TP, task: KafkaTask) -> None:
        async with task.lock:
            started, membership = time.monotonic(), self.membership
            if rest := self.resting.get(tp):
                await rest
            try:
                await task.open()
            except Abandoned:
                return
            except (StateMismatch, DiskFull) as failure:
                task.close()
                self._fail(failure)
                return
            except Exception as error:
                self.close_failed(task, error)
                if (broken := broken_program(error)) is not None:
                    self._fail(broken)
                return
            if membership != self.membership:
                task.close()  # its records belong to a past generation
                return
        log.info("%s: open at %d after %.2f s", task.name, task.progress.position, time.monotonic() - started)
        self._runtime.metrics.add("task_opens", processor=task.spec.name)
        await self.seek(tp)

    async def close(self, tp: TP) -> None:
        """Discard what is not committed and forget the task."""
        task = self.by_partition.pop(tp)
        task.abandon()
        self.inboxes.clear(tp)
        if rest := self.resting.get(tp):
            await rest
        async with task.lock, self.turn:
            task.close()
            self.rested.pop(tp, None)
        self._runtime.metrics.drop(*TASK_GAUGES, processor=task.spec.name, partition=str(task.partition))
        log.info("%s: closed at %d", task.name, task.progress.position)

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(tp) for tp in list(self.by_partition)))

    def close_failed(self, task: KafkaTask, error: Exception) -> None:
        """Close a task whose work since its last commit is unknown, or that could not be opened. It is opened again
        after a delay."""
        log.warning("%s: failed at %d: %r", task.name, task.progress.position, error)
        self._runtime.metrics.add("task_failures", processor=task.spec.name)
        task.close()
        tp = self.partition_of_task(task)
        self.rested.pop(tp, None)
        self._not_before_s[tp] = time.monotonic() + REOPEN_DELAY_S


def _follows(membership: Membership, before: Membership | None) -> bool:
    """Whether no other worker can have had our partitions in between."""
    if before is None:
        return False
    return membership.member == before.member and membership.generation == before.generation + 1


def _record(message: Any) -> InRecord:
    since, headers = split_since(message.headers)
    return InRecord(message.topic, message.partition, since, message.offset, message.key, message.value, headers)
