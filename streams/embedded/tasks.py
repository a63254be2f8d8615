"""Tasks of the embedded engine: processors on their partitions, with FIFO queues between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from dustream.core.errors import stop_if_fatal
from dustream.core.processor import Processor, Resting, Send
from dustream.core.topology import ProcessorSpec, Topology, partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.tables import StoredKeys, TaskTables
from dustream.streams.store.base import Change, Store

BATCH_MESSAGES_MAX = 1_024
TASK_PREFIX = b"task/"
FAILED_MESSAGE_EXCERPT_BYTES = 400

_ENCODER = msgspec.msgpack.Encoder()


class Opening(NamedTuple):
    """Progress in rebuilding the data that tasks derive from their tables."""

    task: str
    number: int  # of this task, from 1
    tasks: int
    rows: int  # read so far, by all tasks


class EmbeddedTask:
    """A processor on one partition: its tables, and the queue that is its input log."""

    def __init__(
        self, spec: ProcessorSpec, partition: int, store: Store, message: Any, stored: StoredKeys | None
    ) -> None:
        self.spec = spec
        self.partition = partition
        self.tables = TaskTables(store, spec, partition, stored)
        self.processor: Processor = spec.make()
        self.queue: deque[Any] = deque()
        self._head = 0  # number of the first message in the queue
        self._stored = (0, 0)  # the numbers [from, to) that are in the store
        self._prefix = f"queue/{spec.name}/{partition:05d}/".encode()
        self._load(store, message)

    def _load(self, store: Store, message: Any) -> None:
        decoder = msgspec.msgpack.Decoder(message)
        numbers = []
        for key, data in store.scan(self._prefix):
            numbers.append(int(key[len(self._prefix) :]))
            self.queue.append(decoder.decode(data))
        if numbers:
            self._head = numbers[0]
            self._stored = (numbers[0], numbers[-1] + 1)

    def take(self, count: int) -> list[Any]:
        batch = [self.queue.popleft() for _ in range(min(count, len(self.queue)))]
        self._head += len(batch)
        return batch

    def drain(self) -> Iterator[Change]:
        """The changes that bring the stored queue up to date, and the tables' changes."""
        low, high = self._stored
        changes: list[Change] = [(self._queue_key(number), None) for number in range(low, min(self._head, high))]
        tail = self._head + len(self.queue)
        for number in range(max(self._head, high), tail):
            changes.append((self._queue_key(number), _ENCODER.encode(self.queue[number - self._head])))
        self._stored = (self._head, tail)
        return chain(changes, self.tables.drain())

    def _queue_key(self, number: int) -> bytes:
        return self._prefix + b"%016d" % number


class Tasks:
    """All tasks of some processors. Messages for topics that none of them reads go to `on_other`."""

    def __init__(
        self,
        topology: Topology,
        processors: Iterable[str],
        store: Store,
        *,
        on_other: Callable[[Send], None],
        batch_messages_max: int = BATCH_MESSAGES_MAX,
    ) -> None:
        self._batch_messages_max = batch_messages_max
        self._on_other = on_other
        is_fresh = next(store.scan(TASK_PREFIX), None) is None
        stored = StoredKeys() if is_fresh else None
        specs = [topology.processor(name) for name in processors]
        self._tasks = {
            spec.input: [
                EmbeddedTask(spec, number, store, topology.topic(spec.input).message, stored)
                for number in range(spec.partitions)
            ]
            for spec in specs
        }
        self._queues = {topic: [task.queue for task in tasks] for topic, tasks in self._tasks.items()}
        self.processed = self.writes = 0  # messages, and rows, since the last `drain`
        self.seconds: dict[str, float] = {spec.name: 0.0 for spec in specs}
        self.messages: dict[str, int] = {spec.name: 0 for spec in specs}

    @property
    def count(self) -> int:
        return sum(map(len, self._tasks.values()))

    def open(self, on_open: Callable[[Opening], None]) -> int:
        """Build the data that tasks derive from their tables; returns the number of rows read."""
        rows, count = 0, self.count
        for number, task in enumerate(self._all(), start=1):
            opening = Opening(f"{task.spec.name}-{task.partition}", number, count, rows)
            on_open(opening)
            rows = _open_task(task, opening, on_open)
        return rows

    def route(self, sends: Iterable[Send]) -> None:
        queues, on_other = self._queues, self._on_other
        for send in sends:
            topic, key, message = send
            if topic in queues:
                some = queues[topic]
                some[partition_of(key, len(some))].append(message)
            else:
                on_other(send)

    def append(self, topic: str, partition: int, messages: list[Any]) -> None:
        """Messages from tasks elsewhere."""
        self._queues[topic][partition].extend(messages)

    def steps(self) -> Iterator[None]:
        """Run the tasks until all queues are empty, step by step."""
        busy = True
        while busy:
            busy = False
            for task in self._all():
                if task.queue:
                    busy = True
                    self._step(task)
                    yield

    def processors(self, topic: str) -> list[Processor]:
        return [task.processor for task in self._tasks[topic]]

    def rest(self, topic: str) -> Iterator[bool]:
        """Have the tasks that read this topic do their postponed work, one after the other: whether each of them sent
        anything."""
        for task in self._tasks[topic]:
            yield self._rest_task(task, task.processor)

    def took(self, topic: str, seconds: float) -> None:
        """Count time spent for the tasks that read this topic."""
        self.seconds[self._tasks[topic][0].spec.name] += seconds

    def drain(self) -> Iterator[Iterable[Change]]:
        """What has changed since the last time."""
        self.processed = self.writes = 0
        for task in self._all():
            yield task.drain()

    def _rest_task(self, task: EmbeddedTask, processor: Processor) -> bool:
        if not isinstance(processor, Resting):
            return False
        started = time.perf_counter()
        try:
            sends = processor.at_rest(task.tables)
            self.writes += task.tables.accept()
        except Exception as error:  # it is retried after the next input, not at once
            stop_if_fatal(error)
            self._reopen(task)
            self.route([_failed_message(task, None, error)])
            return False
        self.seconds[task.spec.name] += time.perf_counter() - started
        self.route(sends)
        return bool(sends)

    def _step(self, task: EmbeddedTask) -> None:
        started = time.perf_counter()
        batch = task.take(self._batch_messages_max)
        try:
            sends = task.processor.process(task.tables, batch)
            self.writes += task.tables.accept()
        except Exception as error:
            stop_if_fatal(error)
            sends = self._one_by_one(task, batch)
        name = task.spec.name
        self.seconds[name] += time.perf_counter() - started
        self.messages[name] += len(batch)
        self.processed += len(batch)
        self.route(sends)

    def _one_by_one(self, task: EmbeddedTask, batch: list[Any]) -> list[Send]:
        """A message made its handler fail: undo the batch, process the others, and make that one a dead letter."""
        sends: list[Send] = []
        self._reopen(task)
        for message in batch:
            try:
                sends += task.processor.process(task.tables, [message])
                self.writes += task.tables.accept()
            except Exception as error:
                stop_if_fatal(error)
                self._reopen(task)
                sends.append(_failed_message(task, message, error))
        return sends

    def _reopen(self, task: EmbeddedTask) -> None:
        task.tables.undo()
        task.processor = task.spec.make()
        task.processor.open(task.tables)

    def _all(self) -> Iterator[EmbeddedTask]:
        for tasks in self._tasks.values():
            yield from tasks


def _open_task(task: EmbeddedTask, opening: Opening, on_open: Callable[[Opening], None]) -> int:
    """Returns the number of rows that all tasks have read so far."""
    rows = opening.rows

    def read(more: int) -> None:
        nonlocal rows
        rows += more
        on_open(opening._replace(rows=rows))

    with task.tables.watched(read):
        task.processor.open(task.tables)
    return rows


def _failed_message(task: EmbeddedTask, message: Any, error: Exception) -> Send:
    source = f"{task.spec.input}-{task.partition}"
    moment = "at rest" if message is None else "on this message"
    letter = DeadLetter(
        source=source,
        position=-1,
        reason=f"the {task.spec.name} processor failed {moment}: {type(error).__name__}: {error}",
        url=getattr(message, "url", None),
        excerpt=None if message is None else repr(message)[:FAILED_MESSAGE_EXCERPT_BYTES],
    )
    return Send("dead.letters", source, letter)
