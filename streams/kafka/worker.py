"""The worker: one process's tasks on Kafka, exactly once.

consumer_group    Faust delivers records and assigns partitions
assigned_tasks    tasks are opened and closed as partitions are assigned
round_loop        waiting records are processed in rounds
round_writer      each round is one transaction
hole_recovery     records that were not delivered are fetched again
rest_work         tasks without input do postponed work
health_report     the health endpoints and metrics follow
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

from dustream.core.errors import DustreamError
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.engine.tables import StoredKeys
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.health_report import HealthReport
from dustream.streams.kafka.held import HeldTasks
from dustream.streams.kafka.hole_recovery import IDLE_CHECK_INTERVAL_S, HoleRecovery
from dustream.streams.kafka.local_state import LocalState
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.rest_work import RestWork
from dustream.streams.kafka.round_loop import RoundLoop
from dustream.streams.kafka.round_writer import RoundWriter
from dustream.streams.kafka.task import Runtime
from dustream.streams.kafka.transactions import Transactions
from dustream.streams.kafka.worker_options import WorkerOptions

log = logging.getLogger(__name__)

SUPERVISE_INTERVAL_S = 0.1
LEAVE_GRACE_S = 5.0  # after the drain timeout
READER_THREADS = 4


class WorkerCrashed(DustreamError):
    """The connection to the cluster failed permanently: start the worker again."""


class Worker:
    """The life of a worker: start, supervise, drain. Built inside a running event loop."""

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
        metrics.begin([spec.name for spec in topology.processors])
        self._options = options
        self._health = health or Health(metrics)
        self._readers = ThreadPoolExecutor(READER_THREADS, "readers")
        state, transactions = LocalState(options.data), Transactions(cluster, application, options.data, faults)
        self._runtime = runtime = Runtime(
            cluster, application, topology, fingerprint, state, StoredKeys(), self._readers, metrics, transactions
        )
        specs = _chosen(topology, options.processors)
        self._group = group = ConsumerGroup(cluster, application, specs, options)
        self._tasks = tasks = AssignedTasks(runtime, specs, group, self._fail)
        self._report = HealthReport(self._health, runtime, tasks, group, options.session_timeout_s)
        writer = RoundWriter(runtime, tasks, group, faults)
        self._holes = HoleRecovery(runtime, tasks, group, writer, self._report.is_in_contact)
        self._rest = RestWork(runtime, tasks, self._fail)
        self._rounds = RoundLoop(tasks, group, writer, self._holes, self._rest, options.round_bytes, self._fail)
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        group.connect(tasks.deliver, tasks.turn, self._fail)

    async def run(self) -> None:
        """Work until stopped; raises the error that made it impossible to continue."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop, name.name)
        reports = self._report.begin()
        self._health.held = HeldTasks(self._runtime, self._tasks, self._group, self._report)
        supervisor = asyncio.create_task(self._supervise())
        rounds = asyncio.create_task(self._rounds.run(self._stopping))
        rounds.add_done_callback(self._rounds_ended)
        try:
            await self._group.start()
            await self._stopping.wait()
        finally:
            supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await supervisor
            self._health.held = None
            await self._drain()
            for each in (rounds, *reports):
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

    async def _supervise(self) -> None:
        """Follow the assignment, start postponed work, look for records that did not arrive."""
        checked_at_s = 0.0
        while True:
            await asyncio.sleep(SUPERVISE_INTERVAL_S)
            try:
                reason = self._group.crash_reason
                if reason is not None and not self._stopping.is_set():
                    self._fail(WorkerCrashed(f"the connection to Kafka broke down: {reason}"))
                await self._tasks.follow_assignment()
                self._rest.begin()
                if time.monotonic() - checked_at_s > IDLE_CHECK_INTERVAL_S:
                    checked_at_s = time.monotonic()
                    await self._holes.check_ends()
            except asyncio.CancelledError:
                raise
            except DustreamError as failure:
                self._fail(failure)
            except Exception:
                log.exception("the supervisor failed; it continues")

    async def _drain(self) -> None:
        """Let running batches finish, within the deadline, then release everything."""
        timeout_s = self._options.drain_timeout_s
        try:
            await asyncio.wait_for(self._tasks.close_all(), timeout_s)
        except TimeoutError:
            log.warning("not all tasks ended within %.0f s: their open batches will be repeated", timeout_s)
        await self._runtime.transactions.close()
        with suppress(TimeoutError, asyncio.CancelledError, Exception):
            await asyncio.wait_for(self._group.stop(), timeout_s)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._runtime.state.close()


def leave_after(seconds: float) -> None:
    """End the process after this time, even if it waits for a broker: a kill only costs time."""
    timer = threading.Timer(seconds, _leave)
    timer.daemon = True
    timer.start()


def _leave() -> None:
    log.warning("not stopped in time: exiting; uncommitted work will be repeated")
    logging.shutdown()
    os._exit(1)


def _chosen(topology: Topology, names: tuple[str, ...]) -> tuple[ProcessorSpec, ...]:
    known = {spec.name: spec for spec in topology.processors}
    if unknown := sorted(set(names) - set(known)):
        raise DustreamError(f"no such processors: {', '.join(unknown)}. There are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else topology.processors
