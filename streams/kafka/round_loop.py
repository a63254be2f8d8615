"""The worker's main loop: rounds, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiokafka.errors import KafkaError
from faust.types import TP

from dustream.core.errors import DustreamError
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.consumer_group import NEVER_S, ConsumerGroup
from dustream.streams.kafka.hole_recovery import HoleRecovery
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.rest_work import RestWork
from dustream.streams.kafka.round import Round
from dustream.streams.kafka.round_writer import RoundWriter, give_way

STEPS_S_MAX = 0.01  # before the event loop may deliver records
LET_IN_MAX = 16  # times STEP_TURNS, as long as records arrive
WAIT_S = 0.1


class RoundLoop:
    """Works in rounds: all waiting records, and everything that follows from them here, in one transaction. A
    transaction costs worker and broker milliseconds, however little is in it. Records that arrive during a round wait
    for the next one, so the higher the load, the fuller the rounds."""

    def __init__(
        self,
        tasks: AssignedTasks,
        group: ConsumerGroup,
        writer: RoundWriter,
        holes: HoleRecovery,
        rest: RestWork,
        round_bytes: int,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._tasks = tasks
        self._group = group
        self._writer = writer
        self._holes = holes
        self._rest = rest
        self._round_bytes = round_bytes
        self._fail = fail

    async def run(self, stopping: asyncio.Event) -> None:
        while True:
            if not self._tasks.inboxes.waiting() and not self._tasks.rested:
                await self._tasks.inboxes.arrival(WAIT_S)
            elif stopping.is_set() or not await self._writer.may_write():
                await asyncio.sleep(WAIT_S)
            else:
                self._holes.busy_until_s = NEVER_S
                await self._let_in()
                async with self._tasks.turn:
                    await self._round()
                self._holes.busy_until_s = time.monotonic()
                self._rest.begin()
                await asyncio.sleep(0)

    async def _round(self) -> None:
        membership = self._tasks.membership
        if membership is None or self._group.is_rebalancing:
            return
        round_ = self._writer.new_round()
        rested = {tp: sends for tp, sends in self._tasks.rested.items() if self._tasks.takes_part(tp)}
        try:
            holes = self._admit(round_)
            for tp, sends in rested.items():
                round_.rested(self._tasks.place(tp), sends)
            if not round_.is_empty:
                await self._work(round_)
                await self._writer.write(round_, membership)
            for tp, hole in holes.items():
                await self._holes.go_back(tp, self._tasks.by_partition[tp], hole)
        except DustreamError as failure:
            for task in round_.touched():
                task.close()
            self._fail(failure)
        except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
            await self._writer.give_up(round_.touched(), membership, error)
        finally:
            for tp in rested:
                self._tasks.rested.pop(tp, None)  # only now: while it is being written, the worker is not at rest

    def _admit(self, round_: Round) -> dict[TP, InRecord]:
        """Take the waiting records into a round, a share of each task; returns the first records after holes."""
        holes = {}
        waiting = [tp for tp in self._tasks.inboxes.waiting() if self._tasks.takes_part(tp)]
        for tp, records in self._tasks.inboxes.take_fairly(waiting, self._round_bytes).items():
            task = self._tasks.by_partition[tp]
            admission = task.admit(records)
            if admission.progress.position != task.progress.position:
                round_.admit(self._tasks.place(tp), admission)
            if admission.hole is not None:
                holes[tp] = admission.hole
        return holes

    async def _work(self, round_: Round) -> None:
        let_in_at_s = time.monotonic()
        for _ in round_.steps():
            if time.monotonic() - let_in_at_s > STEPS_S_MAX:
                await self._let_in()
                let_in_at_s = time.monotonic()

    async def _let_in(self) -> None:
        """Let Faust deliver fetched records. Each takes several turns of the event loop: with one turn per step of
        ours, records of other workers would wait behind the rest of the crawl."""
        for _ in range(LET_IN_MAX):
            before = self._tasks.inboxes.arrived
            await give_way()
            if self._tasks.inboxes.arrived == before:
                return
