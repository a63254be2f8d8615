"""Keeps a worker's health and metrics up to date while it runs."""

from __future__ import annotations

import asyncio
import logging

from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.consumer_group import ConsumerGroup
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.settled import unsettled
from dustream.streams.kafka.task import Runtime

log = logging.getLogger(__name__)

BEAT_INTERVAL_S = 0.5
SETTLED_INTERVAL_S = 5.0


class HealthReport:
    """What the health endpoints report of a running worker."""

    def __init__(
        self, health: Health, runtime: Runtime, tasks: AssignedTasks, group: ConsumerGroup, session_timeout_s: float
    ) -> None:
        self._health = health
        self._runtime = runtime
        self._tasks = tasks
        self._group = group
        self._session_timeout_s = session_timeout_s

    def begin(self) -> list[asyncio.Task[None]]:
        """Start reporting; the caller cancels the tasks returned."""
        self._health.stage = "recovering"
        self._health.is_ready, self._health.refresh = self.is_ready, self._refresh
        return [asyncio.create_task(each) for each in (self._beat(), self._watch_settled())]

    def is_ready(self) -> bool:
        """Whether every assigned partition has its task open, and the broker has answered recently."""
        return self._tasks.are_all_open() and self.is_in_contact()

    def is_in_contact(self) -> bool:
        return self._health.contact_s <= self._session_timeout_s

    def _refresh(self) -> None:
        """Update the state that changes over time. May be called from any thread."""
        if (contact_at_s := self._group.contact_at_s) is not None:
            self._health.contact(contact_at_s)
        if not self.is_in_contact():
            self._health.stage = f"no answer from the broker for {self._health.contact_s:.0f} s"
            self._runtime.metrics.drop("lag", "lag_seconds", "unsettled")  # the old values are no longer valid
        elif self._health.stage.startswith("no answer"):
            self._health.stage = "recovering"

    async def _beat(self) -> None:
        while True:
            self._health.beat()
            self._refresh()
            await asyncio.sleep(BEAT_INTERVAL_S)

    async def _watch_settled(self) -> None:
        """The work between everything published and the statuses, of all workers together."""
        runtime = self._runtime
        while True:
            await asyncio.sleep(SETTLED_INTERVAL_S)
            try:
                left = await runtime.read(unsettled, runtime.cluster, runtime.application, runtime.topology)
                runtime.metrics.set("unsettled", sum(left.values()))
            except Exception as error:  # the broker is away, or a topic is being created: try again later
                log.debug("cannot tell whether everything is settled: %r", error)
                runtime.metrics.drop("unsettled")
