"""The Faust worker: agents deliver records, the group assigns partitions, and tasks do the work, exactly once.

Limitations of Faust 0.15.3, and how they are handled here:

- It acks records that an agent did not handle, and commits them: here it commits nothing (acks off, no commit timer).
  The position in a task's state counts.
- Around a rebalance or a broker restart it fetches records and discards them: marks on the records reveal the hole
  (faust_consumer.py), and the task seeks to its position. A hole at the very end of a log is not followed by a record
  that reveals it, so an idle task that is behind the end of its log seeks, too.
- Records of an older generation may still arrive after a rebalance: they are dropped.
- A round in progress during a rebalance is committed before Faust joins the group again; later it would be rejected.
- Its web server binds all interfaces: it is off; health.py has the endpoints.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import IllegalStateError, KafkaError
from faust.types import TP

from dustream.core.errors import DustreamError, StateMismatch
from dustream.core.processor import Send
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.engine.tables import StoredKeys
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.faust_consumer import handed_out, install, split_since
from dustream.streams.kafka.health import LOOPBACK, Health
from dustream.streams.kafka.inbox import Inboxes
from dustream.streams.kafka.local_state import DiskFull, LocalState
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import TaskProgress
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.round import Round
from dustream.streams.kafka.settled import unsettled
from dustream.streams.kafka.task import Abandoned, Admission, KafkaTask, Runtime
from dustream.streams.kafka.transactions import Membership, MembershipOver, Place, Transactions

log = logging.getLogger(__name__)

POLL_RECORDS_MAX = 500
BUFFER_RECORDS_MAX = 100  # per stage, buffered by Faust; records between stages are split at RECORD_BYTES
INBOX_BYTES_MAX = 16 << 20  # per stage
ROUND_BYTES = 4 << 20  # input records of one round, as stored
AHEAD_RECORDS = 4  # per task, prepared ahead of their turn while a transaction is being written
STEP_TURNS = 12
STEPS_S_MAX = 0.01  # before the event loop may deliver records
LET_IN_MAX = 16  # times STEP_TURNS, as long as records arrive
FETCH_BYTES_MAX = 1 << 20
SESSION_TIMEOUT_S = 10.0
HEARTBEAT_INTERVAL_S = 2.0
SUPERVISE_INTERVAL_S = 0.1
REOPEN_DELAY_S = 1.0
SEEK_PATIENCE_S = 1.0
IDLE_CHECK_INTERVAL_S = 0.5
STUCK_S = 10.0
DRAIN_TIMEOUT_S = 20.0
LEAVE_GRACE_S = 5.0  # after it
READER_THREADS = 4
FAR_S = 10.0**9
BEAT_INTERVAL_S = 0.5
SETTLED_INTERVAL_S = 5.0
TASK_GAUGES = (
    "position",
    "lag",
    "groups",
    "alarms",
    "held_pages",
    "tier2_pages",
    "tier2_imbalance",
    "remapped_pages",
)


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs; no option changes the results."""

    data: Path
    processors: tuple[str, ...] = ()
    """Empty: all."""
    health_port: int | None = None
    health_host: str = LOOPBACK
    session_timeout_s: float = SESSION_TIMEOUT_S
    drain_timeout_s: float = DRAIN_TIMEOUT_S
    round_bytes: int = ROUND_BYTES


class WorkerCrashed(DustreamError):
    """The connection to the cluster failed permanently: start the worker again."""


class Worker:
    """One process's tasks. Built inside a running event loop."""

    def __init__(
        self,
        cluster: KafkaCluster,
        application: Application,
        topology: Topology,
        fingerprint: str,
        options: WorkerOptions,
        metrics: Metrics,
        faults: Callable[[str], None] = lambda moment: None,
        health: Health | None = None,
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._health = health or Health(metrics)
        metrics.begin([spec.name for spec in topology.processors])
        self._application = application
        self._specs = _chosen(topology, options.processors)
        self._by_topic = {application.topic(spec.input): spec for spec in self._specs}
        self._readers = ThreadPoolExecutor(READER_THREADS, "readers")
        state = LocalState(options.data)
        self._transactions = Transactions(cluster, application, options.data, faults)
        self._runtime = Runtime(
            cluster,
            application,
            topology,
            fingerprint,
            state,
            StoredKeys(),
            self._readers,
            metrics,
            self._transactions,
        )
        self._faults = faults
        self._tasks: dict[TP, KafkaTask] = {}
        self._turn = asyncio.Lock()
        """Held by a round, and by code that changes what a round depends on."""
        self._inboxes = Inboxes(INBOX_BYTES_MAX)
        self._busy_until_s = 0.0
        self._resting: dict[TP, asyncio.Task[None]] = {}
        self._rested: dict[TP, list[Send]] = {}
        self._opening: dict[TP, asyncio.Task[None]] = {}
        self._not_before_s: dict[TP, float] = {}
        self._sought_at_s: dict[TP, float] = {}
        self._idle: dict[TP, tuple[tuple[int, int], float]] = {}
        self._searched: dict[TP, tuple[int, int]] = {}
        self._membership: Membership | None = None
        self._refused: Membership | None = None
        self._ours: set[TP] = set()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self.app = self._build_app(cluster)

    # ---------------------------------------------------------------- life

    async def run(self) -> None:
        """Work until stopped; raises the error that made it impossible to continue."""
        self._health.stage = "recovering"
        self._health.is_ready, self._health.refresh = self.is_ready, self._refresh
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop, name.name)
        beside = [asyncio.create_task(each) for each in (self._beat(), self._watch_settled())]
        supervisor, rounds = asyncio.create_task(self._supervise()), asyncio.create_task(self._rounds())
        rounds.add_done_callback(self._rounds_ended)
        try:
            await self.app.start()
            await self._stopping.wait()
        finally:
            supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await supervisor
            await self._drain()
            for each in (rounds, *beside):
                each.cancel()
            self._health.rest("stopped")
        if self._failure is not None:
            raise self._failure

    def _stop(self, why: str) -> None:
        log.info("stopping: %s", why)
        self._stopping.set()
        leave_after(self._options.drain_timeout_s + LEAVE_GRACE_S)

    def _rounds_ended(self, rounds: asyncio.Task[None]) -> None:
        if not rounds.cancelled() and (failure := rounds.exception()) is not None:
            log.error("a task failed", exc_info=failure)
            self._fail(failure)

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure
            log.error("%s", failure)
        self._stopping.set()

    async def _drain(self) -> None:
        """Let running batches finish, within the deadline, then release everything."""
        try:
            await asyncio.wait_for(self._close_all(), self._options.drain_timeout_s)
        except TimeoutError:
            log.warning(
                "not all tasks ended within %.0f s: their open batches will be done again",
                self._options.drain_timeout_s,
            )
        await self._transactions.close()
        with suppress(TimeoutError, asyncio.CancelledError, Exception):
            await asyncio.wait_for(self.app.stop(), self._options.drain_timeout_s)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._runtime.state.close()

    async def _close_all(self) -> None:
        await asyncio.gather(*(self._close(tp) for tp in list(self._tasks)))

    def is_ready(self) -> bool:
        """Whether every assigned partition has its task open, and the broker has answered recently."""
        is_open = self._membership is not None and all(self._is_open(tp) for tp in list(self._ours))
        return is_open and self._is_in_contact()

    def _is_in_contact(self) -> bool:
        return self._health.contact_s <= self._options.session_timeout_s

    def _refresh(self) -> None:
        """Update the state that changes over time. May be called from any thread."""
        with suppress(AttributeError):  # the consumer is not made yet
            self._health.contact(self._consumer().contact_at_s)
        if not self._is_in_contact():
            self._health.stage = f"no answer from the broker for {self._health.contact_s:.0f} s"
            self._metrics.drop("lag", "unsettled")  # the old values are no longer valid
        elif self._health.stage.startswith("no answer"):
            self._health.stage = "recovering"

    async def _beat(self) -> None:
        while True:
            self._health.beat()
            self._refresh()
            await asyncio.sleep(BEAT_INTERVAL_S)

    async def _watch_settled(self) -> None:
        """The work between everything published and the statuses, of all workers together."""
        cluster, application, topology = self._runtime.cluster, self._runtime.application, self._runtime.topology
        while True:
            await asyncio.sleep(SETTLED_INTERVAL_S)
            try:
                left = await self._runtime.read(unsettled, cluster, application, topology)
                self._metrics.set("unsettled", sum(left.values()))
            except Exception as error:  # the broker is away, or a topic is being created: try again later
                log.debug("whether all is settled is not known: %r", error)
                self._metrics.drop("unsettled")

    # ---------------------------------------------------------------- Faust

    def _build_app(self, cluster: KafkaCluster) -> faust.App:
        install()
        app = faust.App(
            self._application.group,
            broker=[f"kafka://{server}" for server in cluster.bootstrap.split(",")],
            broker_credentials=_credentials(cluster),
            broker_session_timeout=self._options.session_timeout_s,
            broker_heartbeat_interval=min(HEARTBEAT_INTERVAL_S, self._options.session_timeout_s / 3),
            broker_commit_interval=FAR_S,
            broker_commit_every=10**12,
            broker_max_poll_records=POLL_RECORDS_MAX,
            consumer_auto_offset_reset="earliest",
            consumer_max_fetch_size=FETCH_BYTES_MAX,
            stream_buffer_maxsize=BUFFER_RECORDS_MAX,
            stream_wait_empty=False,
            store="memory://",
            datadir=str(self._options.data / "faust"),
            version=1,
            autodiscover=False,
            web_enabled=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
        )
        for spec in self._specs:
            topic = app.topic(
                self._application.topic(spec.input),
                key_type=bytes,
                value_type=bytes,
                key_serializer="raw",
                value_serializer="raw",
                partitions=spec.partitions,
                acks=False,
            )
            app.agent(topic, name=spec.name)(self._agent)
        app.on_partitions_revoked.connect(self._let_round_end)
        return app

    async def _let_round_end(self, *args: Any, **kwargs: Any) -> None:
        """The group rebalances and waits for us a while: the current transaction can still be committed. No round
        starts meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.session_timeout_s / 2):
                async with self._turn:
                    return

    async def _agent(self, stream: Any) -> None:
        try:
            async for event in stream.noack().events():
                await self.deliver(event.message)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            log.exception("an agent failed")
            self._fail(failure)

    async def deliver(self, message: Any) -> None:
        """Put a record into its task's inbox. Opening a task seeks to its position: earlier records come again."""
        generation = -1 if self._membership is None else self._membership.generation
        if message.generation_id == generation and self._is_open(message.tp):
            self._inboxes.put(message.tp, _record(message))
            await self._inboxes.room(message.topic)

    # ---------------------------------------------------------------- tasks

    async def _supervise(self) -> None:
        """Keep the tasks equal to the assigned partitions."""
        checked_at_s = 0.0
        while True:
            await asyncio.sleep(SUPERVISE_INTERVAL_S)
            try:
                if self.app.crashed and not self._stopping.is_set():
                    self._fail(WorkerCrashed(f"the connection to Kafka broke down: {self.app.crash_reason!r}"))
                await self._follow_assignment()
                self._begin_rest()
                if time.monotonic() - checked_at_s > IDLE_CHECK_INTERVAL_S:
                    checked_at_s = time.monotonic()
                    await self._check_ends()
            except asyncio.CancelledError:
                raise
            except DustreamError as failure:
                self._fail(failure)
            except Exception:
                log.exception("the supervisor failed; it continues")

    async def _follow_assignment(self) -> None:
        membership, ours = self._read_assignment()
        if membership is None or membership == self._refused:
            return
        self._ours = ours
        if membership != self._membership:
            await self._enter(membership)
        # A task must be closed before it may be opened again: the two would write to one local copy.
        await asyncio.gather(*(self._close(tp) for tp in set(self._tasks) - ours))
        now_s = time.monotonic()
        for tp in sorted(ours - self._opening.keys()):
            if not self._is_open(tp) and self._not_before_s.get(tp, 0) <= now_s:
                self._opening[tp] = asyncio.create_task(self._open(tp))
        self._metrics.set("tasks", len(self._tasks))

    def _read_assignment(self) -> tuple[Membership | None, set[TP]]:
        """Our membership and the partitions assigned to it; None during a rebalance. Faust's consumer runs in another
        thread: the result is used only if nothing has changed meanwhile."""
        generation = self.app.consumer_generation_id
        if generation <= 0 or self.app.rebalancing:
            return None, set()
        member = str(self._coordinator().member_id)
        assigned = {TP(tp.topic, tp.partition) for tp in self.app.consumer.assignment()}
        again = (self.app.consumer_generation_id, self._coordinator().generation)
        if not member or again != (generation, generation) or self.app.rebalancing:
            return None, set()
        ours = {tp for tp in assigned if tp.topic in self._by_topic}
        return Membership(self._application.group, generation, member), ours

    def _consumer(self) -> Any:
        """The aiokafka consumer inside Faust's."""
        consumer: Any = self.app.consumer
        return consumer._thread._consumer

    def _coordinator(self) -> Any:
        """The group coordinator of the consumer."""
        return self._consumer()._coordinator

    async def _enter(self, membership: Membership) -> None:
        """Apply a new generation. Tasks that we kept without interruption are up to date; if we missed a generation,
        another worker may have had them."""
        async with self._turn:
            before, self._membership = self._membership, membership
            log.info("generation %d: %d partitions", membership.generation, len(self._ours))
            self._metrics.add("rebalances")
            self._not_before_s.clear()
            kept = set(self._tasks) & self._ours
            if not _follows(membership, before):
                for tp in kept:
                    self._tasks[tp].close()
                    self._rested.pop(tp, None)
            for tp in kept:
                await self._seek(tp)

    def _is_open(self, tp: TP) -> bool:
        return tp in self._tasks and self._tasks[tp].is_open

    async def _open(self, tp: TP) -> None:
        task = self._tasks.get(tp)
        if task is None:
            task = self._tasks[tp] = KafkaTask(self._by_topic[tp.topic], tp.partition, self._runtime)
        try:
            await self._open_task(tp, task)
        finally:
            self._opening.pop(tp, None)

    async def _open_task(self, tp: TP, task: KafkaTask) -> None:
        async with task.lock:
            started, membership = time.monotonic(), self._membership
            if rest := self._resting.get(tp):
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
                self._close_failed(tp, task, error)
                return
            if membership != self._membership:
                task.close()  # its records belong to a past generation
                return
        log.info("%s: open at %d after %.2f s", task.name, task.progress.position, time.monotonic() - started)
        self._metrics.add("task_opens", processor=task.spec.name)
        await self._seek(tp)

    async def _close(self, tp: TP) -> None:
        task = self._tasks.pop(tp)
        task.abandon()
        self._inboxes.clear(tp)
        if rest := self._resting.get(tp):
            await rest
        async with task.lock, self._turn:
            task.close()
            self._rested.pop(tp, None)
        self._metrics.drop(*TASK_GAUGES, processor=task.spec.name, partition=str(task.partition))
        log.info("%s: closed at %d", task.name, task.progress.position)

    def _close_failed(self, tp: TP, task: KafkaTask, error: Exception) -> None:
        """Close a task whose work since its last commit is unknown, or that could not be opened."""
        log.warning("%s: failed at %d: %r", task.name, task.progress.position, error)
        self._metrics.add("task_failures", processor=task.spec.name)
        task.close()
        self._rested.pop(tp, None)
        self._not_before_s[tp] = time.monotonic() + REOPEN_DELAY_S

    # ---------------------------------------------------------------- rounds

    async def _rounds(self) -> None:
        """Work in rounds: all waiting records, and everything that follows from them here, in one transaction. A
        transaction costs worker and broker milliseconds, however little is in it. Records that arrive during a round
        wait for the next one, so the higher the load, the fuller the rounds."""
        while True:
            if not self._inboxes.waiting() and not self._rested:
                await self._inboxes.arrival(SUPERVISE_INTERVAL_S)
            elif not await self._may_write():
                await asyncio.sleep(SUPERVISE_INTERVAL_S)
            else:
                self._busy_until_s = FAR_S
                await self._let_in()
                async with self._turn:
                    await self._round()
                self._busy_until_s = time.monotonic()
                self._begin_rest()
                await asyncio.sleep(0)

    async def _may_write(self) -> bool:
        if self._membership is None or self.app.rebalancing or self._stopping.is_set():
            return False
        if not self._transactions.is_open:
            try:
                await self._transactions.open()
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("the producer could not be opened: %r; trying again", error)
                return False
        return True

    async def _round(self) -> None:
        membership = self._membership
        if membership is None or self.app.rebalancing:
            return
        round_ = self._new_round()
        try:
            holes = self._admit(round_)
            for tp in [tp for tp in self._rested if self._takes_part(tp)]:
                round_.rested(self._place(tp), self._rested.pop(tp))
            if not round_.is_empty:
                await self._work(round_)
                await self._write(round_, membership)
            for tp, hole in holes.items():
                await self._go_back(tp, self._tasks[tp], hole)
        except DustreamError as failure:
            for task in round_.touched():
                task.close()
            self._fail(failure)
        except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
            await self._round_failed(round_, membership, error)

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
            before = self._inboxes.arrived
            await _give_way()
            if self._inboxes.arrived == before:
                return

    def _new_round(self) -> Round:
        tasks = {self._place(tp): task for tp, task in self._tasks.items() if self._takes_part(tp)}
        runtime = self._runtime
        writer = self._transactions.transactional_id
        return Round(runtime.topology, runtime.application, writer, tasks, self._metrics)

    def _takes_part(self, tp: TP) -> bool:
        """Whether a task takes part in the rounds of this generation. The group accepts the position of any partition
        from a member: so a task assigned to another worker is left out at once, not only when it is closed."""
        return tp in self._ours and self._is_open(tp) and tp not in self._resting

    def _place(self, tp: TP) -> Place:
        return self._by_topic[tp.topic].input, tp.partition

    def _admit(self, round_: Round) -> dict[TP, InRecord]:
        """Take the waiting records into a round, a share of each task; returns the first records after holes."""
        holes = {}
        waiting = [tp for tp in self._inboxes.waiting() if self._takes_part(tp)]
        for tp, records in self._inboxes.take_fairly(waiting, self._options.round_bytes).items():
            task = self._tasks[tp]
            admission = task.admit(records)
            if admission.progress.position != task.progress.position:
                round_.admit(self._place(tp), admission)
            if admission.hole is not None:
                holes[tp] = admission.hole
        return holes

    async def _write(self, round_: Round, membership: Membership) -> None:
        started, written = time.perf_counter(), round_.written()
        writing = asyncio.create_task(self._transactions.write(written.records, written.positions, membership))
        try:
            await self._look_ahead(writing)
            ends = await writing
        finally:
            writing.cancel()
        self._faults("after-commit")
        self._runtime.state.write(written.local_changes(ends))
        self._metrics.add("transactions")
        self._metrics.add("writing_seconds", time.perf_counter() - started)

    async def _look_ahead(self, writing: asyncio.Task[Any]) -> None:
        """While the broker writes, prepare the next round."""
        await _give_way()
        for tp, record in list(self._inboxes.first(AHEAD_RECORDS)):
            if writing.done():
                return
            if self._is_open(tp):
                self._tasks[tp].look_ahead(record)
                await _give_way()

    async def _round_failed(self, round_: Round, membership: Membership, error: Exception) -> None:
        """The outcome is unknown, or the tasks belong to another worker: discard the work and read it again."""
        log.warning("a transaction of %d tasks failed: %r", len(round_.touched()), error)
        self._metrics.add("transaction_failures")
        for task in round_.touched():
            self._close_failed(TP(self._application.topic(task.spec.input), task.partition), task, error)
        await self._transactions.close(error)
        if isinstance(error, MembershipOver):
            self._refused = membership
            self._membership = None if self._membership == membership else self._membership

    # ---------------------------------------------------------------- holes

    async def _go_back(self, tp: TP, task: KafkaTask, hole: InRecord) -> None:
        """Records before `hole` did not arrive: fetch them again."""
        if time.monotonic() - self._sought_at_s.get(tp, 0.0) < SEEK_PATIENCE_S:
            self._searched.pop(tp, None)  # records fetched before the last seek are still arriving; else check later
            return
        if await self._skip_deleted(tp, task, (await self.app.consumer.earliest_offsets(tp))[tp]):
            return
        log.warning(
            "%s: records between %d and %d did not arrive: going back", task.name, task.progress.position, hole.offset
        )
        self._metrics.add("holes", processor=task.spec.name)
        await self._seek(tp)

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
            self._metrics.add("lost_records", begins - position)
        await self._skip(tp, task, begins)
        await self._seek(tp)
        return True

    async def _skip(self, tp: TP, task: KafkaTask, position: int) -> None:
        """Continue at a later position: the records in between are deleted."""
        if self._membership is not None and await self._may_write():
            known, round_ = task.progress, self._new_round()
            ahead = TaskProgress(known.fingerprint, position, known.received, known.sent)
            round_.admit(self._place(tp), Admission([], [], [], ahead))
            await self._write(round_, self._membership)

    async def _seek(self, tp: TP) -> None:
        self._sought_at_s[tp] = time.monotonic()
        self._inboxes.clear(tp)
        if tp in self._tasks and self._tasks[tp].is_open:
            # in the consumer's own thread: a seek during a fetch would be lost
            with suppress(IllegalStateError):  # a rebalance: the next owner starts with a seek
                await self.app.consumer.seek_wait({tp: self._tasks[tp].progress.position})

    async def _check_ends(self) -> None:
        """A hole at the end of a log is not followed by a record that reveals it: a task that stands still before the
        end seeks once."""
        assigned = self.app.consumer.assignment()
        behind = {tp: task for tp, task in self._tasks.items() if tp in assigned and self._may_lack(tp, task)}
        if behind:
            await self._search(behind)

    def _may_lack(self, tp: TP, task: KafkaTask) -> bool:
        """Whether a task stands still and its log may have records that did not reach it."""
        if not task.is_open:
            return False
        seen = (task.progress.position, self.app.consumer.highwater(tp) or 0)
        lag = max(0, seen[1] - self._dealt_with(tp, seen[0]))
        if self._is_in_contact():
            self._metrics.set("lag", lag, processor=task.spec.name, partition=str(tp.partition))
        if not self._stands_still(tp, seen) or not lag or self._searched.get(tp) == seen:
            return False
        self._searched[tp] = seen
        return True

    def _dealt_with(self, tp: TP, position: int) -> int:
        """The offset up to which a task at `position` has nothing to do: transaction markers may follow it."""
        read_to, last_end = handed_out(self._consumer(), tp) or (0, 0)
        return max(position, read_to) if position >= last_end else position

    def _stands_still(self, tp: TP, seen: tuple[int, int]) -> bool:
        """Whether a task has stood still although there was time to work: records may be on their way to a busy
        worker."""
        now_s = time.monotonic()
        known, since_s = self._idle.get(tp, (None, 0.0))
        waiting = self._inboxes.waiting()
        if known != seen or tp in waiting:
            self._idle[tp] = (seen, now_s)
            return False
        quiet = not waiting and now_s - self._busy_until_s > IDLE_CHECK_INTERVAL_S
        return quiet or now_s - since_s > STUCK_S

    async def _search(self, behind: dict[TP, KafkaTask]) -> None:
        """Seek to the positions of tasks. The broker is asked before the lock is taken: its answer waits behind a fetch
        that waits for records."""
        log.info("standing still before the ends of their logs: %s", ", ".join(task.name for task in behind.values()))
        try:
            begins = await self.app.consumer.earliest_offsets(*behind)
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("the beginnings of these logs are not known: %r; asking again", error)
            self._searched = {tp: seen for tp, seen in self._searched.items() if tp not in behind}
            return
        async with self._turn:
            for tp, task in behind.items():
                try:
                    if task.is_open and not await self._skip_deleted(tp, task, begins[tp]):
                        await self._seek(tp)
                except DustreamError:
                    raise
                except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
                    self._close_failed(tp, task, error)
                    await self._transactions.close(error)

    # ---------------------------------------------------------------- rest

    def _begin_rest(self) -> None:
        """Start postponed work of tasks without input; if other tasks have work, only after a long time without."""
        if self._turn.locked():
            return
        idle_s = STUCK_S if self._inboxes.waiting() else 0.0
        due = [tp for tp, task in self._tasks.items() if not self._is_busy(tp) and task.is_rest_due(idle_s)]
        if due:
            resting = asyncio.create_task(self._rest(due))
            self._resting |= dict.fromkeys(due, resting)

    def _is_busy(self, tp: TP) -> bool:
        return not self._is_open(tp) or tp in self._resting or tp in self._rested

    async def _rest(self, due: list[TP]) -> None:
        """In a thread: it may take seconds. Rounds continue without these tasks."""
        rested: dict[TP, list[Send]] = {}
        try:
            for tp in due:
                if self._is_open(tp):
                    rested[tp] = await self._runtime.read(self._tasks[tp].at_rest)
        except DustreamError as failure:
            self._fail(failure)
        finally:
            for tp in due:
                self._resting.pop(tp, None)
        self._rested |= {tp: sends for tp, sends in rested.items() if self._is_open(tp)}
        self._inboxes.wake()


def leave_after(seconds: float) -> None:
    """End the process after this time, even if it waits for a broker: a kill only costs time."""
    timer = threading.Timer(seconds, _leave)
    timer.daemon = True
    timer.start()


def _leave() -> None:
    log.warning("not stopped in time: leaving; what was not committed will be done again")
    logging.shutdown()
    os._exit(1)


def _follows(membership: Membership, before: Membership | None) -> bool:
    """Whether no other worker can have had our partitions in between."""
    if before is None:
        return False
    return membership.member == before.member and membership.generation == before.generation + 1


async def _give_way() -> None:
    """Let other coroutines take their next step, which needs a few turns of the event loop."""
    for _ in range(STEP_TURNS):
        await asyncio.sleep(0)


def _record(message: Any) -> InRecord:
    since, headers = split_since(message.headers)
    return InRecord(message.topic, message.partition, since, message.offset, message.key, message.value, headers)


def _chosen(topology: Topology, names: tuple[str, ...]) -> tuple[ProcessorSpec, ...]:
    known = {spec.name: spec for spec in topology.processors}
    if unknown := sorted(set(names) - set(known)):
        raise DustreamError(f"no such processors: {', '.join(unknown)}. There are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else topology.processors


def _credentials(cluster: KafkaCluster) -> Any:
    if cluster.uses_sasl:
        return faust.SASLCredentials(
            username=cluster.username,
            password=cluster.password,
            mechanism=cluster.mechanism,
            ssl_context=cluster.ssl_context(),
        )
    return faust.SSLCredentials(cluster.ssl_context()) if cluster.uses_tls else None
