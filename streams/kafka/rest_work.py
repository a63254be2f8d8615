"""Postponed work of tasks without input: a processor's `at_rest`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from faust.types import TP

from dustream.core.errors import DustreamError
from dustream.core.processor import Send
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.hole_recovery import STUCK_S
from dustream.streams.kafka.task import Runtime


class RestWork:
    """Runs the postponed work in threads; the next round sends what it produces."""

    def __init__(self, runtime: Runtime, tasks: AssignedTasks, fail: Callable[[BaseException], None]) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._fail = fail

    def begin(self) -> None:
        """Start the work of tasks without input; if other tasks have work, only after a long time without."""
        tasks = self._tasks
        if tasks.turn.locked():
            return
        idle_s = STUCK_S if tasks.inboxes.waiting() else 0.0
        due = [tp for tp, task in tasks.by_partition.items() if not self._is_busy(tp) and task.is_rest_due(idle_s)]
        if due:
            resting = asyncio.create_task(self._rest(due))
            tasks.resting |= dict.fromkeys(due, resting)

    def _is_busy(self, tp: TP) -> bool:
        return not self._tasks.is_open(tp) or tp in self._tasks.resting or tp in self._tasks.rested

    async def _rest(self, due: list[TP]) -> None:
        """In a thread: it may take seconds. Rounds continue without these tasks."""
        tasks, rested = self._tasks, dict[TP, list[Send]]()
        try:
            for tp in due:
                if tasks.is_open(tp):
                    rested[tp] = await self._runtime.read(tasks.by_partition[tp].at_rest)
        except DustreamError as failure:
            self._fail(failure)
        finally:
            # In this order, so that a reader in another thread never finds the work in neither of the two.
            tasks.rested |= {tp: sends for tp, sends in rested.items() if tasks.is_open(tp)}
            for tp in due:
                tasks.resting.pop(tp, None)
        tasks.inboxes.wake()
