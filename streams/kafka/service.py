"""A worker's life: warm up, wait for the cluster, check the topics, work; after a breakdown, begin anew."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
import time
from dataclasses import dataclass
from types import FrameType

from aiokafka.errors import KafkaError

from dustream.core.errors import DustreamError
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import PartitionMap, map_id
from dustream.streams.embedded.engine import rare_collections
from dustream.streams.embedded.state_rows import STATE_FORMAT
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology, running_topology
from dustream.streams.kafka.cluster import Cluster, Unreachable, why_silent
from dustream.streams.kafka.health import require_port
from dustream.streams.kafka.local_state import LocalState, StateLost
from dustream.streams.kafka.maps import read_map, require_settings
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.topics import plan_topics, require_topics
from dustream.streams.kafka.worker import Worker, WorkerCrashed, WorkerOptions
from dustream.streams.warm_up import learn_some_rules, warm_up_pages

log = logging.getLogger(__name__)

RETRY_S = 1.0
RETRY_S_MAX = 30.0
TRIES_UNTOLD = 30
STEADY_S = 60.0  # who worked this long before a breakdown starts again at once


@dataclass(frozen=True)
class Service:
    """What to run where."""

    cluster: Cluster
    application: Application
    settings: Settings
    options: WorkerOptions


def run_service(service: Service) -> None:
    """Work until SIGTERM or SIGINT. Breakdowns of the connection and of the local copy are survived; wrong settings and
    topics that do not fit are not."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    require_free(service.options)
    log.info("warming up")
    warm_up_pages(service.settings)  # before any partition is ours: heartbeats would wait for it
    learn_some_rules()
    gc.freeze()  # what the compiler left is never garbage, and too much to look through again and again
    with rare_collections():
        _work_until(stopping, service)
    log.info("stopped")


def require_free(options: WorkerOptions) -> None:
    """What another process may use, tried before the warm-up takes its time: the folder and the health port."""
    LocalState(options.data).close()
    if options.health_port is not None:
        require_port(options.health_port)


def _work_until(stopping: threading.Event, service: Service) -> None:
    metrics = Metrics()
    delay_s = RETRY_S
    while not stopping.is_set():
        _await_broker(stopping, service.cluster)
        if stopping.is_set():
            return
        started = time.monotonic()
        try:
            cells = _partition_map(service)
            asyncio.run(_work(service, cells, metrics))
            return
        except (WorkerCrashed, StateLost, Unreachable) as error:
            delay_s = RETRY_S if time.monotonic() - started > STEADY_S else min(delay_s * 2, RETRY_S_MAX)
            log.error("%s; beginning anew in %.0f s", error, delay_s)
            stopping.wait(delay_s)


def _await_broker(stopping: threading.Event, cluster: Cluster) -> None:
    """Tell once in a while that none answers, not at every try."""
    tries = 0
    while not stopping.is_set() and (reason := why_silent(cluster)) is not None:
        if tries % TRIES_UNTOLD == 0:
            log.warning("no broker answers at %s (%s): waiting for it", cluster.bootstrap, reason)
        stopping.wait(RETRY_S)
        tries += 1


def _partition_map(service: Service) -> PartitionMap:
    """The application's map, once its topics are found to be as they should be."""
    planned = planned_topology(service.settings, service.cluster, service.application)
    require_topics(service.cluster, plan_topics(planned, service.application))
    require_settings(service.cluster, service.application, service.settings)
    return read_map(service.cluster, service.application, service.settings)


async def _work(service: Service, cells: PartitionMap, metrics: Metrics) -> None:
    planned = planned_topology(service.settings, service.cluster, service.application, cells)
    topology = running_topology(planned, service.settings, service.options.data, metrics)
    fingerprint = f"{service.settings.fingerprint()}-{map_id(cells)}-{STATE_FORMAT}"
    worker = Worker(service.cluster, service.application, topology, fingerprint, service.options, metrics)
    try:
        await worker.run()
    except DustreamError:
        raise
    except (KafkaError, ConnectionError) as error:  # the cluster has gone: expected now and then, and no fault of ours
        raise WorkerCrashed(f"the connection to Kafka broke down: {error!r}") from error
    except Exception as error:
        log.exception("the worker broke down")
        raise WorkerCrashed(f"the worker broke down: {error!r}") from error
