"""A round: processes the records that wait for the tasks of a worker, and writes the results in one transaction.

A message from one task to another of the same worker is passed directly and goes into no log: both sides of it are in
the same transaction, so it is atomic. All other messages are written: to tasks of other workers, and to public topics.

Messages of a link (sending task to receiving partition) must stay in order, even if the receiver has just moved here
and has not read all that was written for it. The numbers of the links decide: if as many were received as sent, the
log has nothing left of this link. Otherwise its messages are written to the log, after those.

A round has a limit: a step of a giant group may send a hundred thousand messages. Messages beyond the limit are written
to the log, too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dustream.core.processor import Send
from dustream.core.topology import Topology, partition_of
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import END_OF_NOTE, WORK_LEFT, TaskProgress
from dustream.streams.kafka.records import (
    DEAD_LETTERS,
    InRecord,
    Letter,
    LinkBatch,
    Outbox,
    OutRecord,
    pack_link_batches,
)
from dustream.streams.kafka.task import Admission, KafkaTask
from dustream.streams.kafka.transactions import Place
from dustream.streams.store.base import Change

STEP_MESSAGES_MAX = 1_024
HANDED_OVER_MAX = 100_000  # messages passed directly in a round


class Waiting(NamedTuple):
    """A message in a task's queue: with the record it came in, or from a task of this worker."""

    message: Any
    source: InRecord
    sender: Part | None = None


@dataclass
class Part:
    """A task's part in a round."""

    task: KafkaTask
    place: Place
    ahead: TaskProgress
    outbox: Outbox
    queue: deque[Waiting] = field(default_factory=deque)
    messages: int = 0
    dead: int = 0
    seconds: float = 0.0


class Written(NamedTuple):
    """The output of a round: records by log, positions to commit, and for each task its changes and its progress."""

    records: Mapping[Place, Sequence[OutRecord]]
    positions: Mapping[Place, tuple[int, str]]
    tasks: Sequence[tuple[KafkaTask, list[Change], TaskProgress]]

    def local_changes(self, ends: Mapping[Place, int]) -> Iterator[Change]:
        """After the commit: advance the tasks, and return the changes for the local copy."""
        for task, changes, progress in self.tasks:
            yield from changes
            yield task.copied(progress, ends[task.changelog, task.partition])


class Round:
    """See the head of this file. `tasks`: the tasks that may take part, by topic of the topology and partition."""

    def __init__(
        self,
        topology: Topology,
        application: Application,
        writer: str,
        tasks: Mapping[Place, KafkaTask],
        metrics: Metrics,
    ) -> None:
        self._topology = topology
        self._application = application
        self._writer = writer
        self._tasks = tasks
        self._metrics = metrics
        self._partitions_of = {spec.input: spec.partitions for spec in topology.processors}
        self._stages = {spec.input: number for number, spec in enumerate(topology.processors)}
        self._parts: dict[Place, Part] = {}
        self._receivers: dict[tuple[Place, Place], Part | None] = {}
        self._handed_over = 0
        self._is_over = False

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def touched(self) -> list[KafkaTask]:
        """The tasks with uncommitted work."""
        return [part.task for part in self._parts.values()]

    # ---------------------------------------------------------------- input

    def admit(self, place: Place, admission: Admission) -> None:
        """Add the next records of a task. All must be added before the first step."""
        part = self._part(place)
        part.ahead = admission.progress
        part.queue.extend(map(Waiting, admission.messages, admission.sources))
        self._bury(part, admission.letters)

    def rested(self, place: Place, sends: Sequence[Send]) -> None:
        """Add the messages of a task's postponed work."""
        self._route(self._part(place), sends)

    def _part(self, place: Place) -> Part:
        part = self._parts.get(place)
        if part is None:
            task = self._tasks[place]
            outbox = Outbox(self._topology, self._application, task.name, task.progress.sent)
            part = self._parts[place] = Part(task, place, task.progress, outbox)
        return part

    # ---------------------------------------------------------------- work

    def steps(self) -> Iterator[None]:
        """Run until all queues are empty, a batch of one task at a time."""
        while busy := [part for part in self._in_order() if part.queue]:
            for part in busy:
                self._step(part)
                yield

    def _in_order(self) -> list[Part]:
        """By stage, in the direction of the data flow, then by partition."""
        return sorted(self._parts.values(), key=lambda part: (self._stages[part.place[0]], part.place[1]))

    def _step(self, part: Part) -> None:
        started = time.perf_counter()
        batch = [part.queue.popleft() for _ in range(min(STEP_MESSAGES_MAX, len(part.queue)))]
        sends, letters = part.task.process([item.message for item in batch], [item.source for item in batch])
        part.messages += len(batch)
        part.seconds += time.perf_counter() - started
        self._bury(part, letters)
        self._route(part, sends)

    def _bury(self, part: Part, letters: Sequence[Letter]) -> None:
        part.outbox.add(Send(DEAD_LETTERS, letter.letter.source, letter) for letter in letters)
        part.dead += len(letters)

    def _route(self, sender: Part, sends: Sequence[Send]) -> None:
        written = []
        for send in sends:
            partitions = self._partitions_of.get(send.topic)
            to = None if partitions is None else (send.topic, partition_of(send.key, partitions))
            receiver = None if to is None else self._receiver(sender, to)
            if receiver is None:
                written.append(send)
            else:
                receiver.queue.append(Waiting(send.message, receiver.task.here, sender))
                self._handed_over += 1
        sender.outbox.add(written)
        sender.dead += sum(isinstance(send.message, Letter) for send in written)
        if self._handed_over > HANDED_OVER_MAX and not self._is_over:
            self._spill()

    def _receiver(self, sender: Part, to: Place) -> Part | None:
        """The part that gets a message directly, if any."""
        link = sender.place, to
        if link not in self._receivers:
            self._receivers[link] = self._part(to) if self._is_direct(sender, to) else None
        return self._receivers[link]

    def _is_direct(self, sender: Part, to: Place) -> bool:
        if to not in self._tasks or self._is_over:
            return False
        known = self._parts.get(to)
        received = (known.ahead if known else self._tasks[to].progress).received
        return received.get(sender.task.name, 0) == sender.task.progress.sent.get(f"{to[0]}-{to[1]}", 0)

    def _spill(self) -> None:
        """The limit is reached: messages passed and not processed yet go to the log, and so do all that follow."""
        self._is_over = True
        self._receivers = dict.fromkeys(self._receivers)
        for part in list(self._parts.values()):
            over = [item for item in part.queue if item.sender is not None]
            part.queue = deque(item for item in part.queue if item.sender is None)
            for item in over:
                if item.sender is not None:
                    item.sender.outbox.add([Send(*part.place, item.message)])

    # ---------------------------------------------------------------- output

    def written(self) -> Written:
        """The output, once everything is processed."""
        records = self._between_stages()
        tasks: list[tuple[KafkaTask, list[Change], TaskProgress]] = []
        positions: dict[Place, tuple[int, str]] = {}
        for part in self._parts.values():
            task, ahead, changes = part.task, part.ahead, part.task.drain()
            progress = TaskProgress(ahead.fingerprint, ahead.position, ahead.received, part.outbox.sent, self._writer)
            for record in (*part.outbox.public, *task.rows(changes, progress)):
                records.setdefault((record.topic, record.partition), []).append(record)
            tasks.append((task, changes, progress))
            where = self._application.topic(task.spec.input), task.partition
            positions[where] = (progress.position, "" if task.is_rested else WORK_LEFT + END_OF_NOTE)
            self._measure(part, len(changes))
        self._metrics.add("handed_over", self._handed_over)
        self._metrics.add("records_out", sum(map(len, records.values())))
        return Written(records, positions, tasks)

    def _between_stages(self) -> dict[Place, list[OutRecord]]:
        """The records for tasks that are reached by the log: one for each, unless it gets too large."""
        batches: dict[Place, list[LinkBatch]] = {}
        for part in self._parts.values():
            for to, batch in part.outbox.link_batches():
                batches.setdefault(to, []).append(batch)
        records: dict[Place, list[OutRecord]] = {}
        for (topic, partition), some in batches.items():
            place = self._application.topic(topic), partition
            records[place] = [OutRecord(*place, None, value) for value in pack_link_batches(some)]
        return records

    def _measure(self, part: Part, rows: int) -> None:
        metrics, stage = self._metrics, part.task.spec.name
        metrics.add("batches", processor=stage)
        metrics.add("messages", part.messages, processor=stage)
        metrics.add("state_rows", rows, processor=stage)
        metrics.add("dead_letters", part.dead, processor=stage)
        metrics.add("handling_seconds", part.seconds, processor=stage)
