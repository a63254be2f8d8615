"""The Faust worker: agents deliver records and say which partitions are ours; tasks do the work, exactly once.

What Faust 0.15.3 does not give, and what is done about it here:

- It acks what an agent did not handle, and commits over it: it commits nothing here (acks off, no commit timer); the
  position in a task's state is the truth.
- Around a rebalance or a broker restart it fetches records and throws them away: marks on the records show the hole
  (faust_consumer.py), and the task goes back to its position. A hole at the very end of a log shows by nothing that
  follows, so an idle task behind the end of its log goes back too.
- An older generation's records may still come after a rebalance: they are dropped.
- Its web server binds all interfaces: it is off; the endpoints of health.py listen on loopback.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import KafkaError, ProducerFenced
from faust.types import TP

from dustream.core.errors import DustreamError, StateMismatch
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import Cluster
from dustream.streams.kafka.faust_consumer import install, split_since
from dustream.streams.kafka.health import Health, serve
from dustream.streams.kafka.inbox import Inboxes
from dustream.streams.kafka.local_state import LocalState
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.task import Runtime, Task

log = logging.getLogger(__name__)

POLL_RECORDS_MAX = 500
BUFFER_RECORDS_MAX = 100  # of every stage, in Faust's hands; records between stages are cut at RECORD_BYTES
INBOX_BYTES_MAX = 16 << 20  # of every stage
GATHER_S_MAX = 0.3  # for records that are known to come
ROUND_BYTES = 4 << 20  # waiting: enough for a round
STEP_TURNS = 12
PATIENCE_S = 3.0  # of tasks that work at rest
STRAGGLER_S = 2.0  # how long a round waits for its last commits
TRANSACTION_BYTES = 2 << 20  # input records of one batch, as stored
FETCH_BYTES_MAX = 1 << 20
SESSION_TIMEOUT_S = 10.0
HEARTBEAT_INTERVAL_S = 2.0
SUPERVISE_INTERVAL_S = 0.1
REOPEN_DELAY_S = 1.0
FENCED_MARGIN_S = 3.0  # beyond the session: by then a worker that lost its partitions knows it
SEEK_PATIENCE_S = 1.0
IDLE_CHECK_INTERVAL_S = 0.5
STUCK_S = 10.0
DRAIN_TIMEOUT_S = 20.0
READER_THREADS = 4
FAR_S = 10.0**9


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs; nothing here changes what comes out."""

    data: Path
    processors: tuple[str, ...] = ()
    """Empty: all."""
    health_port: int | None = None
    session_timeout_s: float = SESSION_TIMEOUT_S
    drain_timeout_s: float = DRAIN_TIMEOUT_S


class WorkerCrashed(DustreamError):
    """The connection to the cluster broke down for good: start the worker again."""


class Worker:
    """One process's tasks. Built inside a running event loop."""

    def __init__(
        self,
        cluster: Cluster,
        application: Application,
        topology: Topology,
        fingerprint: str,
        options: WorkerOptions,
        metrics: Metrics,
        faults: Callable[[str], None] = lambda moment: None,
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._application = application
        self._specs = _chosen(topology, options.processors)
        self._by_topic = {application.topic(spec.input): spec for spec in self._specs}
        self._readers = ThreadPoolExecutor(READER_THREADS, "readers")
        state = LocalState(options.data)
        self._runtime = Runtime(cluster, application, topology, fingerprint, state, self._readers, metrics, faults)
        self._tasks: dict[TP, Task] = {}
        self._inboxes = Inboxes(INBOX_BYTES_MAX, ROUND_BYTES)
        self._busy_until_s = 0.0
        self._taken_at_s: dict[TP, float] = {}
        self._opening: dict[TP, asyncio.Task[None]] = {}
        self._not_before_s: dict[TP, float] = {}
        self._sought_at_s: dict[TP, float] = {}
        self._idle: dict[TP, tuple[tuple[int, int], float]] = {}
        self._searched: dict[TP, tuple[int, int]] = {}
        self._generation = -1
        self._ours: set[TP] = set()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self.app = self._build_app(cluster)

    # ---------------------------------------------------------------- life

    async def run(self) -> None:
        """Work until told to stop; raises what made it impossible to go on."""
        health = Health(self._metrics, self.is_ready)
        server = await serve(health, self._options.health_port) if self._options.health_port is not None else None
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop, name.name)
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
            rounds.cancel()
            if server is not None:
                await server.cleanup()
        if self._failure is not None:
            raise self._failure

    def _stop(self, why: str) -> None:
        log.info("stopping: %s", why)
        self._stopping.set()

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
        """Let running batches end, within the deadline, then let go of everything."""
        try:
            await asyncio.wait_for(self._close_all(), self._options.drain_timeout_s)
        except TimeoutError:
            log.warning(
                "not all tasks ended within %.0f s: their open batches will be done again",
                self._options.drain_timeout_s,
            )
        with suppress(TimeoutError, asyncio.CancelledError, Exception):
            await asyncio.wait_for(self.app.stop(), self._options.drain_timeout_s)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._runtime.state.close()

    async def _close_all(self) -> None:
        await asyncio.gather(*(self._close(tp) for tp in list(self._tasks)))

    def is_ready(self) -> bool:
        """Whether every partition dealt to this worker has its task open."""
        return self._generation >= 0 and all(self._is_open(tp) for tp in self._ours)

    # ---------------------------------------------------------------- Faust

    def _build_app(self, cluster: Cluster) -> faust.App:
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
        return app

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
        """Put a record into its task's inbox. Opening a task seeks to its position: what came before comes again."""
        if message.generation_id == self._generation and self._is_open(message.tp):
            self._inboxes.put(message.tp, _record(message))
            await self._inboxes.room(message.topic)

    # ---------------------------------------------------------------- tasks

    async def _supervise(self) -> None:
        """Keep the tasks equal to the partitions dealt to us."""
        checked_at_s = 0.0
        while True:
            await asyncio.sleep(SUPERVISE_INTERVAL_S)
            try:
                if self.app.crashed and not self._stopping.is_set():
                    self._fail(WorkerCrashed(f"the connection to Kafka broke down: {self.app.crash_reason!r}"))
                await self._follow_assignment()
                if time.monotonic() - checked_at_s > IDLE_CHECK_INTERVAL_S:
                    checked_at_s = time.monotonic()
                    await self._check_ends()
            except asyncio.CancelledError:
                raise
            except DustreamError as failure:
                self._fail(failure)
            except Exception:
                log.exception("the supervisor stumbled; it goes on")

    async def _follow_assignment(self) -> None:
        generation = self.app.consumer_generation_id
        if generation <= 0 or self.app.rebalancing:
            return
        assigned = {TP(tp.topic, tp.partition) for tp in self.app.consumer.assignment()}
        ours = {tp for tp in assigned if tp.topic in self._by_topic}
        self._ours = ours
        if generation != self._generation:
            self._generation = generation
            self._metrics.add("rebalances")
            self._not_before_s.clear()
            log.info("generation %d: %d partitions", generation, len(ours))
            for tp in set(self._tasks) & ours:
                await self._seek(tp)
        # A task must be closed before it may be opened again: the two would write to one local copy.
        await asyncio.gather(*(self._close(tp) for tp in set(self._tasks) - ours))
        now_s = time.monotonic()
        for tp in sorted(ours - self._opening.keys()):
            if not self._is_open(tp) and self._not_before_s.get(tp, 0) <= now_s:
                self._opening[tp] = asyncio.create_task(self._open(tp))
        self._metrics.set("tasks", len(self._tasks))
        self._metrics.set("ready", float(self.is_ready()))

    def _is_open(self, tp: TP) -> bool:
        return tp in self._tasks and self._tasks[tp].is_open

    async def _open(self, tp: TP) -> None:
        task = self._tasks.get(tp)
        if task is None:
            task = self._tasks[tp] = Task(self._by_topic[tp.topic], tp.partition, self._runtime)
        try:
            await self._open_task(tp, task)
        finally:
            self._opening.pop(tp, None)

    async def _open_task(self, tp: TP, task: Task) -> None:
        async with task.lock:
            started = time.monotonic()
            try:
                await task.open()
            except StateMismatch as failure:
                await task.close()
                self._fail(failure)
                return
            except Exception as error:
                await self._failed(tp, task, error)
                return
        log.info("%s: open at %d after %.2f s", task.name, task.progress.position, time.monotonic() - started)
        self._metrics.add("task_opens", processor=task.spec.name)
        await self._seek(tp)

    async def _close(self, tp: TP) -> None:
        task = self._tasks.pop(tp)
        task.abandon()
        self._inboxes.clear(tp)
        async with task.lock:
            await task.close()
        for gauge in ("position", "lag", "groups"):
            self._metrics.drop(gauge, processor=task.spec.name, partition=str(task.partition))
        log.info("%s: closed at %d", task.name, task.progress.position)

    async def _failed(self, tp: TP, task: Task, error: Exception) -> None:
        """The outcome of the last transaction is unknown, or the task is somebody else's now."""
        fenced = isinstance(error, ProducerFenced)
        log.warning("%s: %s at %d: %r", task.name, "fenced" if fenced else "failed", task.progress.position, error)
        self._metrics.add("task_failures", processor=task.spec.name)
        await task.close()
        delay_s = self._options.session_timeout_s + FENCED_MARGIN_S if fenced else REOPEN_DELAY_S
        self._not_before_s[tp] = time.monotonic() + delay_s

    async def _rounds(self) -> None:
        """Work in rounds: every task that something waits for has one transaction, and while it waits for its commit
        the next one works. A transaction costs worker and broker milliseconds, however little is in it: what arrives
        during a round makes the transactions of the next one fuller. The busier everything is, the fuller. For a task
        that gets no answer from its broker the others do not wait long."""
        working: dict[TP, asyncio.Task[None]] = {}
        while True:
            if not working:
                await self._inboxes.arrival()
            self._busy_until_s = FAR_S
            await self._inboxes.gathered(GATHER_S_MAX)
            for tp in self._due():
                if tp not in working:
                    working[tp] = asyncio.create_task(self._work(tp))
                    await _give_way()
            if working:  # what waited may have been forgotten meanwhile
                await asyncio.wait(working.values(), timeout=STRAGGLER_S)
            for tp in [tp for tp, work in working.items() if work.done()]:
                working.pop(tp).result()
            self._busy_until_s = FAR_S if working else time.monotonic()

    def _due(self) -> list[TP]:
        """The tasks whose turn it is. Who does most of its work at rest anyway lets the others go first for a while:
        fewer and fuller transactions."""
        waiting = self._inboxes.waiting()
        let_go_first_s = time.monotonic() - PATIENCE_S
        due = [tp for tp in waiting if not self._is_patient(tp) or self._taken_at_s.get(tp, 0.0) < let_go_first_s]
        return due or waiting

    def _is_patient(self, tp: TP) -> bool:
        return self._is_open(tp) and self._tasks[tp].works_at_rest

    async def _work(self, tp: TP) -> None:
        self._taken_at_s[tp] = time.monotonic()
        records = self._inboxes.take(tp, TRANSACTION_BYTES)
        task = self._tasks.get(tp)
        if task is None or self._stopping.is_set():
            return
        async with task.lock:
            if not task.is_open:
                return
            try:
                admission = task.admit(records)
                if admission.progress.position != task.progress.position:
                    self._expect(await task.apply(admission))
                if admission.hole is not None:
                    await self._go_back(tp, task, admission.hole)
            except DustreamError as failure:
                await task.close()
                self._fail(failure)
            except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
                await self._failed(tp, task, error)

    def _expect(self, written: Mapping[tuple[str, int], int]) -> None:
        """What a task wrote for others of this worker will come: the next round is for all of it."""
        for (topic, partition), end in written.items():
            if self._is_open(tp := TP(topic, partition)):
                self._inboxes.expect(tp, end)

    async def _go_back(self, tp: TP, task: Task, hole: InRecord) -> None:
        """Records before `hole` did not reach us: fetch them again."""
        if time.monotonic() - self._sought_at_s.get(tp, 0.0) < SEEK_PATIENCE_S:
            self._searched.pop(tp, None)  # what was fetched before the last seek is still coming in; if not, look later
            return
        if await self._skip_deleted(tp, task):
            return
        log.warning(
            "%s: records between %d and %d did not arrive: going back", task.name, task.progress.position, hole.offset
        )
        self._metrics.add("holes", processor=task.spec.name)
        await self._seek(tp)

    async def _skip_deleted(self, tp: TP, task: Task) -> bool:
        """Whether the log begins after our position. Of a log that others write, the rest is all there is."""
        begins = (await self.app.consumer.earliest_offsets(tp))[tp]
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
        await task.skip_to(begins)
        await self._seek(tp)
        return True

    async def _seek(self, tp: TP) -> None:
        self._sought_at_s[tp] = time.monotonic()
        self._inboxes.clear(tp)
        if tp in self._tasks and self._tasks[tp].is_open:
            # in the consumer's own thread: a seek beside a running fetch would be lost
            await self.app.consumer.seek_wait({tp: self._tasks[tp].progress.position})

    async def _check_ends(self) -> None:
        """A hole at the end of a log is followed by nothing that would show it: who stands still before the end goes
        back once. What remains then is transaction markers."""
        assigned = self.app.consumer.assignment()
        await asyncio.gather(*(self._check_end(tp, task) for tp, task in self._tasks.items() if tp in assigned))

    async def _check_end(self, tp: TP, task: Task) -> None:
        if not task.is_open or task.lock.locked():
            return
        seen = (task.progress.position, self.app.consumer.highwater(tp) or 0)
        lag = max(0, seen[1] - seen[0])
        self._metrics.set("lag", lag, processor=task.spec.name, partition=str(tp.partition))
        if self._is_resting(tp, seen):
            await self._rest(tp, task)
            if lag and self._searched.get(tp) != seen:
                self._searched[tp] = seen
                await self._search(tp, task)

    def _is_resting(self, tp: TP, seen: tuple[int, int]) -> bool:
        """Whether a task has stood still while there was time to work: records may be on their way to a busy worker."""
        now_s = time.monotonic()
        known, since_s = self._idle.get(tp, (None, 0.0))
        waiting = self._inboxes.waiting()
        if known != seen or tp in waiting:
            self._idle[tp] = (seen, now_s)
            return False
        quiet = not waiting and now_s - self._busy_until_s > IDLE_CHECK_INTERVAL_S
        return quiet or now_s - since_s > STUCK_S

    async def _search(self, tp: TP, task: Task) -> None:
        async with task.lock:
            try:
                if task.is_open and not await self._skip_deleted(tp, task):
                    await self._seek(tp)
            except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
                await self._failed(tp, task, error)

    async def _rest(self, tp: TP, task: Task) -> None:
        async with task.lock:
            try:
                if task.is_open:
                    await task.rest()
            except DustreamError as failure:
                await task.close()
                self._fail(failure)
            except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
                await self._failed(tp, task, error)


async def _give_way() -> None:
    """Let the transactions under way take their next steps: one step is a few turns of the event loop."""
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


def _credentials(cluster: Cluster) -> Any:
    if cluster.uses_sasl:
        return faust.SASLCredentials(
            username=cluster.username,
            password=cluster.password,
            mechanism=cluster.mechanism,
            ssl_context=cluster.ssl_context(),
        )
    return faust.SSLCredentials(cluster.ssl_context()) if cluster.uses_tls else None
