"""The life cycle of a worker: warm up, wait for the cluster, check the topics, work; restart after a failure."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from aiokafka.errors import KafkaError

from dustream.core.errors import DustreamError, stop_if_fatal
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import PartitionMap, map_id
from dustream.streams.engine.feed import rare_collections
from dustream.streams.engine.state_rows import STATE_FORMAT
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology, running_topology
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable, why_silent
from dustream.streams.kafka.health import Health, serve
from dustream.streams.kafka.local_state import DiskFull, LocalState, StateLost, has_room, is_no_room, no_room
from dustream.streams.kafka.maps import read_map, require_settings
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.server_thread import ServerThread
from dustream.streams.kafka.topics import plan_topics, require_topics
from dustream.streams.kafka.worker import Worker, WorkerCrashed
from dustream.streams.kafka.worker_options import WorkerOptions
from dustream.streams.warm_up import learn_some_rules, warm_up_pages

log = logging.getLogger(__name__)

RETRY_S = 1.0
RETRY_S_MAX = 30.0
TRIES_PER_WARNING = 30
SIGNAL_INTERVAL_S = 0.1
STEADY_S = 60.0  # running this long resets the back-off


@dataclass(frozen=True)
class Service:
    """The configuration of a worker process."""

    cluster: KafkaCluster
    application: Application
    settings: Settings
    options: WorkerOptions
    lookups: Callable[[Health], AbstractContextManager[None]] | None = None
    """Serves lookups while the worker runs (streams/kafka_serve)."""


def run_service(service: Service) -> None:
    """Work until SIGTERM or SIGINT. The worker survives connection failures, a damaged local copy and a full disk, but
    not wrong settings or topics that do not fit."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with suppress(DiskFull):  # handled later
        LocalState(service.options.data).close()  # fails early, before the warm-up
    health = Health(Metrics())
    lookups = nullcontext() if service.lookups is None else service.lookups(health)
    with _endpoints(health, service.options), lookups:
        _warm_up(stopping, service, health)
        gc.freeze()  # the compiler's objects are never garbage, and too many to scan again and again
        with rare_collections():
            _work_until(stopping, service, health)
    log.info("stopped")


@contextmanager
def _endpoints(health: Health, options: WorkerOptions) -> Iterator[None]:
    if options.health_port is None:
        yield
        return
    server = ServerThread("health", partial(serve, health, options.health_host, options.health_port))
    server.start()
    try:
        yield
    finally:
        server.stop()


def _warm_up(stopping: threading.Event, service: Service, health: Health) -> None:
    """Compile before joining the group: heartbeats would be blocked. It runs in a thread, so that signals are handled;
    nothing can be lost yet, so they end the process at once."""
    health.stage = "warming up"
    log.info("warming up")
    failures: list[BaseException] = []

    def warm_up() -> None:
        try:
            warm_up_pages(service.settings)
            learn_some_rules()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=warm_up, name="warm-up", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SIGNAL_INTERVAL_S)
        if stopping.is_set():
            log.info("stopped while warming up")
            logging.shutdown()
            os._exit(0)
    if failures:
        raise failures[0]


def _work_until(stopping: threading.Event, service: Service, health: Health) -> None:
    delay_s = RETRY_S
    while not stopping.is_set():
        health.rest("waiting for a broker")
        _await_broker(stopping, service.cluster)
        if stopping.is_set():
            return
        health.contact(time.monotonic())
        started = time.monotonic()
        try:
            cells = _partition_map(service)
            asyncio.run(_work(service, cells, health))
            return
        except DiskFull as error:
            log.error("%s", error)
            _await_room(stopping, service.options.data, health)
        except (WorkerCrashed, StateLost, Unreachable) as error:
            delay_s = RETRY_S if time.monotonic() - started > STEADY_S else min(delay_s * 2, RETRY_S_MAX)
            log.error("%s; restarting in %.0f s", error, delay_s)
            health.rest("restarting")
            stopping.wait(delay_s)
        health.metrics.add("restarts")


def _await_room(stopping: threading.Event, data: Path, health: Health) -> None:
    """Wait for room. The state is closed and unchanged; the group has reassigned our partitions, if it has others."""
    health.rest(f"no room in {data}")
    health.metrics.set("disk_full", 1)
    tries = 0
    while not has_room(data) and not stopping.wait(RETRY_S):
        tries += 1
        if tries % TRIES_PER_WARNING == 0:
            log.warning("still no room in %s: waiting for it", data)
    health.metrics.set("disk_full", 0)
    if not stopping.is_set():
        log.info("there is room in %s again: continuing", data)


def _await_broker(stopping: threading.Event, cluster: KafkaCluster) -> None:
    """Wait for a broker, and log that none answers once in a while, not at every try."""
    tries = 0
    while not stopping.is_set() and (reason := why_silent(cluster)) is not None:
        if tries % TRIES_PER_WARNING == 0:
            log.warning("no broker answers at %s (%s): waiting for it", cluster.bootstrap, reason)
        stopping.wait(RETRY_S)
        tries += 1


def _partition_map(service: Service) -> PartitionMap:
    """The application's map, after checking its topics."""
    planned = planned_topology(service.settings, service.cluster, service.application)
    require_topics(service.cluster, plan_topics(planned, service.application))
    require_settings(service.cluster, service.application, service.settings)
    return read_map(service.cluster, service.application, service.settings)


async def _work(service: Service, cells: PartitionMap, health: Health) -> None:
    data = service.options.data
    try:
        await _worker(service, cells, health).run()
    except DustreamError:
        raise
    except (KafkaError, ConnectionError) as error:  # the cluster is gone: expected now and then, not a bug
        raise WorkerCrashed(f"the connection to Kafka broke down: {error!r}") from error
    except Exception as error:
        stop_if_fatal(error)
        raise no_room(data, error) if is_no_room(error) else _broken_down(error) from error


def _worker(service: Service, cells: PartitionMap, health: Health) -> Worker:
    application, options = service.application, service.options
    planned = planned_topology(service.settings, service.cluster, application, cells)
    topology = running_topology(planned, service.settings, options.data, health.metrics)
    fingerprint = f"{service.settings.fingerprint()}-{map_id(cells)}-{STATE_FORMAT}"
    return Worker(service.cluster, application, topology, fingerprint, options, health.metrics, health=health)


def _broken_down(error: Exception) -> WorkerCrashed:
    log.error("the worker broke down", exc_info=error)
    return WorkerCrashed(f"the worker broke down: {error!r}")
