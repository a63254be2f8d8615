"""Finds records that the consumer did not deliver, and fetches them again.

Faust discards fetched records around a rebalance or a broker restart. A mark on the next record reveals such a hole. A
hole at the very end of a log is not followed by a record, so a task that stands still before the end of its log seeks,
too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from aiokafka.errors import KafkaError
from faust.types import TP

from dustream.core.errors import DustreamError, StateMismatch
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.progress import TaskProgress
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.round_writer import RoundWriter
from dustream.streams.kafka.task import Admission, KafkaTask, Runtime

log = logging.getLogger(__name__)

SEEK_PATIENCE_S = 1.0
IDLE_CHECK_INTERVAL_S = 0.5
STUCK_S = 10.0


class HoleRecovery:
    """Seeks where records are missing, and skips what was deleted before it was read."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: AssignedTasks,
        group: ConsumerGroup,
        writer: RoundWriter,
        is_in_contact: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._group = group
        self._writer = writer
        self._is_in_contact = is_in_contact
        self.busy_until_s = 0.0
        """When the last round ended; later than any time during one."""
        self._idle: dict[TP, tuple[tuple[int, int], float]] = {}
        self._searched: dict[TP, tuple[int, int]] = {}

    async def go_back(self, tp: TP, task: KafkaTask, hole: InRecord) -> None:
        """Records before `hole` did not arrive: fetch them again."""
        if time.monotonic() - self._tasks.sought_at_s.get(tp, 0.0) < SEEK_PATIENCE_S:
            self._searched.pop(tp, None)  # records fetched before the last seek are still arriving; else check later
            return
        if await self._skip_deleted(tp, task, (await self._group.beginnings([tp]))[tp]):
            return
        log.warning(
            "%s: records between %d and %d did not arrive: seeking back", task.name, task.progress.position, hole.offset
        )
        self._runtime.metrics.add("holes", processor=task.spec.name)
        await self._tasks.seek(tp)

    async def check_ends(self) -> None:
        """Seek once for each task that stands still before the end of its log."""
        assigned = self._group.partitions()
        tasks = self._tasks.by_partition.items()
        behind = {tp: task for tp, task in tasks if tp in assigned and self._may_lack(tp, task)}
        if behind:
            await self._search(behind)

    async def _skip_deleted(self, tp: TP, task: KafkaTask, begins: int) -> bool:
        """Whether the log begins after our position. For a log of another system, its rest is all there is."""
        position = task.progress.position
        if begins <= position:
            return False
        if task.linked:
            raise StateMismatch(
                f"{tp.topic}-{tp.partition} begins at {begins}, {task.name} stands at {position}: records were "
                "deleted before they were read. Replay the crawl topic into a fresh application"
            )
        if position:
            log.error("%s: %d records were deleted by retention before they were read", task.name, begins - position)
            self._runtime.metrics.add("lost_records", begins - position)
        await self._skip(tp, task, begins)
        await self._tasks.seek(tp)
        return True

    async def _skip(self, tp: TP, task: KafkaTask, position: int) -> None:
        """Continue at a later position: the records in between are deleted."""
        membership = self._tasks.membership
        if membership is not None and await self._writer.may_write():
            known, round_ = task.progress, self._writer.new_round()
            ahead = TaskProgress(known.fingerprint, position, known.received, known.sent)
            round_.admit(self._tasks.place(tp), Admission([], [], [], ahead))
            await self._writer.write(round_, membership)

    def _may_lack(self, tp: TP, task: KafkaTask) -> bool:
        """Whether a task stands still and its log may have records that did not reach it."""
        if not task.is_open:
            return False
        seen = (task.progress.position, self._group.end_of(tp))
        lag = max(0, seen[1] - self._group.handled(tp, seen[0]))
        if self._is_in_contact():
            self._report_lag(tp, task, lag)
        if not self._stands_still(tp, seen) or not lag or self._searched.get(tp) == seen:
            return False
        self._searched[tp] = seen
        return True

    def _report_lag(self, tp: TP, task: KafkaTask, lag: int) -> None:
        labels = {"processor": task.spec.name, "partition": str(tp.partition)}
        self._runtime.metrics.set("lag", lag, **labels)
        written_at_s = self._tasks.written_at_s.get(tp)
        if not task.linked and written_at_s is not None:
            self._runtime.metrics.set("lag_seconds", max(0.0, time.time() - written_at_s) if lag else 0.0, **labels)

    def _stands_still(self, tp: TP, seen: tuple[int, int]) -> bool:
        """Whether a task has stood still although there was time to work: records may be on their way to a busy
        worker."""
        now_s = time.monotonic()
        known, since_s = self._idle.get(tp, (None, 0.0))
        waiting = self._tasks.inboxes.waiting()
        if known != seen or tp in waiting:
            self._idle[tp] = (seen, now_s)
            return False
        quiet = not waiting and now_s - self.busy_until_s > IDLE_CHECK_INTERVAL_S
        return quiet or now_s - since_s > STUCK_S

    async def _search(self, behind: dict[TP, KafkaTask]) -> None:
        """Seek to the positions of tasks. The broker is asked before the lock is taken: its answer waits behind a fetch
        that waits for records."""
        log.info("idle before the end of the log, seeking: %s", ", ".join(task.name for task in behind.values()))
        try:
            begins = await self._group.beginnings(behind)
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("cannot read where these logs begin: %r; retrying", error)
            self._searched = {tp: seen for tp, seen in self._searched.items() if tp not in behind}
            return
        async with self._tasks.turn:
            for tp, task in behind.items():
                try:
                    if task.is_open and not await self._skip_deleted(tp, task, begins[tp]):
                        await self._tasks.seek(tp)
                except DustreamError:
                    raise
                except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
                    self._tasks.close_failed(task, error)
                    await self._runtime.transactions.close(error)
