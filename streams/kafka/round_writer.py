"""Writes rounds: one transaction each, then the local copy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError

from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.round import Round
from dustream.streams.kafka.task import KafkaTask, Runtime
from dustream.streams.kafka.transactions import Membership, MembershipOver

log = logging.getLogger(__name__)

AHEAD_RECORDS = 4  # per task, prepared ahead of their turn while a transaction is being written
STEP_TURNS = 12


class RoundWriter:
    """Makes rounds of the tasks that take part, and writes them."""

    def __init__(
        self, runtime: Runtime, tasks: AssignedTasks, group: ConsumerGroup, faults: Callable[[str], None]
    ) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._group = group
        self._faults = faults

    async def may_write(self) -> bool:
        """Whether this worker is a member of the group and has a producer."""
        if self._tasks.membership is None or self._group.is_rebalancing:
            return False
        transactions = self._runtime.transactions
        if not transactions.is_open:
            try:
                await transactions.open()
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("the producer could not be opened: %r; trying again", error)
                return False
        return True

    def new_round(self) -> Round:
        runtime = self._runtime
        writer = runtime.transactions.transactional_id
        return Round(runtime.topology, runtime.application, writer, self._tasks.taking_part(), runtime.metrics)

    async def write(self, round_: Round, membership: Membership) -> None:
        started, written = time.perf_counter(), round_.written()
        transaction = self._runtime.transactions.write(written.records, written.positions, membership)
        writing = asyncio.create_task(transaction)
        try:
            await self._look_ahead(writing)
            ends = await writing
        finally:
            writing.cancel()
        self._faults("after-commit")
        self._runtime.state.write(written.local_changes(ends))
        self._runtime.metrics.add("transactions")
        self._runtime.metrics.add("writing_seconds", time.perf_counter() - started)

    async def give_up(self, touched: list[KafkaTask], membership: Membership, error: Exception) -> None:
        """The outcome is unknown, or the tasks belong to another worker: discard the work and read it again."""
        log.warning("a transaction of %d tasks failed: %r", len(touched), error)
        self._runtime.metrics.add("transaction_failures")
        for task in touched:
            self._tasks.close_failed(task, error)
        await self._runtime.transactions.close(error)
        if isinstance(error, MembershipOver):
            self._tasks.leave(membership)

    async def _look_ahead(self, writing: asyncio.Task[Any]) -> None:
        """While the broker writes, prepare the next round."""
        await give_way()
        for tp, record in list(self._tasks.inboxes.first(AHEAD_RECORDS)):
            if writing.done():
                return
            if self._tasks.is_open(tp):
                self._tasks.by_partition[tp].look_ahead(record)
                await give_way()


async def give_way() -> None:
    """Let other coroutines take their next step, which needs a few turns of the event loop."""
    for _ in range(STEP_TURNS):
        await asyncio.sleep(0)
