"""The tasks of a running worker, for readers in other threads: their committed rows, how far they are, and which worker
holds the tasks that are not here.

The local copy has what is committed: a round is written to it after its transaction, in one batch. So a reader never
sees a part of a round, and waits for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from faust.types import TP

from dustream.core.errors import Unavailable
from dustream.core.topology import Topology
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.health_report import HealthReport
from dustream.streams.kafka.local_state import LocalState, task_prefix
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import TaskProgress, decode_progress
from dustream.streams.kafka.task import Runtime

TaskPlace = tuple[str, int]
"""A processor and a partition."""


class HeldTask(NamedTuple):
    """How far a task's local copy is: `copied` is the position in its changelog."""

    copied: int
    progress: TaskProgress


class HeldTasks:
    """The tasks that this worker holds now."""

    def __init__(self, runtime: Runtime, tasks: AssignedTasks, group: ConsumerGroup, report: HealthReport) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._group = group
        self._report = report
        self._topics = {spec.name: runtime.application.topic(spec.input) for spec in runtime.topology.processors}

    @property
    def topology(self) -> Topology:
        return self._runtime.topology

    @property
    def cluster(self) -> KafkaCluster:
        return self._runtime.cluster

    @property
    def application(self) -> Application:
        return self._runtime.application

    def holds(self, processor: str, partition: int) -> bool:
        """Whether a task is open here. A worker that the broker has not answered for a session may have lost it."""
        tasks, tp = self._tasks, TP(self._topics[processor], partition)
        return tasks.membership is not None and tasks.is_ours(tp) and self._report.is_in_contact()

    def rows(self, processor: str, partition: int) -> LocalState:
        """The store with a task's rows; Unavailable if the task is not open here."""
        if not self.holds(processor, partition):
            raise Unavailable(f"the task {processor}-{partition} is not open at this worker")
        return self._runtime.state

    def addresses(self) -> Mapping[TaskPlace, str]:
        """Which worker has which task, by the address that it told the group."""
        found = self._group.addresses()
        return {
            (name, partition): found[topic, partition]
            for name, topic in self._topics.items()
            for partition in range(self._runtime.topology.processor(name).partitions)
            if (topic, partition) in found
        }

    def address(self, processor: str, partition: int) -> str | None:
        """Which worker has a task."""
        return self._group.address(self._topics[processor], partition)

    def progress(self) -> tuple[dict[TaskPlace, HeldTask], bool]:
        """How far the tasks are, as of one moment, and whether none of them has postponed work.

        One scan reads all: the tasks of a worker pass messages within a transaction, which only a common moment shows
        either not at all or with everything that was sent because of them."""
        rested = self._tasks.are_rested()
        found: dict[TaskPlace, HeldTask] = {}
        headers = dict(self._runtime.state.headers())
        for spec in self._runtime.topology.processors:
            for partition in range(spec.partitions):
                header = headers.get(task_prefix(spec.name, partition))
                if header is not None and header.progress and self.holds(spec.name, partition):
                    found[spec.name, partition] = HeldTask(header.position, decode_progress(header.progress))
                elif self.holds(spec.name, partition):
                    found[spec.name, partition] = HeldTask(0, TaskProgress(self._runtime.fingerprint))
        return found, rested and self._tasks.are_rested()

    def opening(self) -> tuple[int, int]:
        """How many tasks are assigned, and how many of them are open."""
        return self._tasks.opened()

    @property
    def metrics(self) -> Metrics:
        return self._runtime.metrics
