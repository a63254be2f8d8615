"""The embedded engine: the whole topology in one process, FIFO queues between tasks, exactly once.

Input position, state changes and queued messages are written in one batch. A process killed at any moment resumes from
the last batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from dustream.core.errors import stop_if_fatal
from dustream.core.processor import Dividing, Processor, Resting, RestPart, Send
from dustream.core.topology import ProcessorSpec, Topology, partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.feed import Feed, rare_collections
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.engine.tables import StoredKeys, TaskTables
from dustream.streams.store.base import Change, Store

BATCH_MESSAGES_MAX = 1_024
GATHERED_MESSAGES = 512  # collected from feeds before the tasks run: every step has a fixed cost
COMMIT_MESSAGES = 20_000
COMMIT_WRITES = 100_000
COMMIT_INTERVAL_S = 2.0
OVERDUE_TIMES = 2  # a killed run loses at most so many times of these
TASK_PREFIX = b"task/"
FAILED_MESSAGE_EXCERPT_BYTES = 400

DoParts = Callable[[list[RestPart]], Any]
"""Does the parts of the work of tasks at rest; None if they had better do it themselves."""

_ENCODER = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()


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


class View:
    """A topic that no processor reads, as stored for readers outside: the newest message per key if compacted, else a
    log."""

    def __init__(self, name: str, *, compacted: bool, store: Store) -> None:
        self._prefix = view_prefix(name)
        self._compacted = compacted
        self._next = 0 if compacted else sum(1 for _ in store.scan(self._prefix))
        self.pending: dict[bytes, Any] = {}

    def append(self, key: str | int, message: Any) -> None:
        if self._compacted:
            self.pending[self._prefix + str(key).encode()] = message
        else:
            self.pending[self._prefix + b"%016d" % self._next] = message
            self._next += 1

    def drain(self) -> Iterator[Change]:
        pending, self.pending = self.pending, {}
        return ((key, _JSON.encode(message)) for key, message in pending.items())


class EmbeddedEngine:
    """Runs a topology on a store."""

    def __init__(
        self,
        topology: Topology,
        store: Store,
        *,
        batch_messages_max: int = BATCH_MESSAGES_MAX,
        commit_messages: int = COMMIT_MESSAGES,
        on_open: Callable[[Opening], None] = lambda opening: None,
        clock: Callable[[], float] = time.monotonic,
        do_parts: DoParts = lambda parts: None,
    ) -> None:
        """`do_parts` may do the work of tasks at rest on other cores."""
        self._store = store
        self._do_parts = do_parts
        self._clock = clock
        self._batch_messages_max = batch_messages_max
        self._commit_messages = commit_messages
        self._tasks: dict[str, list[EmbeddedTask]] = {}
        is_fresh = next(store.scan(TASK_PREFIX), None) is None
        stored = StoredKeys() if is_fresh else None
        for spec in topology.processors:
            message = topology.topic(spec.input).message
            self._tasks[spec.input] = [
                EmbeddedTask(spec, number, store, message, stored) for number in range(spec.partitions)
            ]
        self._queues = {topic: [task.queue for task in tasks] for topic, tasks in self._tasks.items()}
        self._views = {
            topic.name: View(topic.name, compacted=topic.compacted, store=store) if topic.kept else None
            for topic in topology.topics
            if topic.name not in self._tasks
        }
        self._changes: list[Change] = []
        self._processed_since_commit = 0
        self._writes_since_commit = 0
        self._committed_at = clock()
        self.seconds: dict[str, float] = {spec.name: 0.0 for spec in topology.processors} | {"commit": 0.0}
        self.messages: dict[str, int] = {spec.name: 0 for spec in topology.processors}
        self._open_tasks(on_open)

    def _open_tasks(self, on_open: Callable[[Opening], None]) -> None:
        tasks, rows = list(self._all_tasks()), 0
        for number, task in enumerate(tasks, start=1):
            opening = Opening(f"{task.spec.name}-{task.partition}", number, len(tasks), rows)
            on_open(opening)
            rows = _open_task(task, opening, on_open)

    def run(self, feeds: Iterable[Feed]) -> None:
        """Process all input until the queues are empty and everything is committed."""
        with rare_collections():
            self._settle()
            waiting = 0
            for feed in feeds:
                self._route_all(feed.sends)
                self._changes += feed.changes
                waiting += len(feed.sends)
                if waiting >= GATHERED_MESSAGES or self._is_due():
                    self._settle()
                    waiting = 0
            self._settle()
            self._rest()
            self.commit()

    def commit(self) -> None:
        """Commit everything so far atomically."""
        started = time.perf_counter()
        self._store.write(chain.from_iterable(self._drain()))
        self._processed_since_commit = self._writes_since_commit = 0
        self._committed_at = self._clock()
        self.seconds["commit"] += time.perf_counter() - started

    def _is_due(self, times: int = 1) -> bool:
        """The time of a commit affects only how much work a killed run repeats."""
        return (
            self._processed_since_commit >= times * self._commit_messages
            or self._writes_since_commit >= times * COMMIT_WRITES
            or self._clock() - self._committed_at >= times * COMMIT_INTERVAL_S
        )

    def _drain(self) -> Iterator[Iterable[Change]]:
        changes, self._changes = self._changes, []
        yield changes
        for task in self._all_tasks():
            yield task.drain()
        for view in self._views.values():
            if view is not None:
                yield view.drain()

    def _settle(self) -> None:
        """Run the tasks until all queues are empty, and commit if it is due: then no message need be stored. While they
        do not get empty, only what is long due is committed."""
        busy = True
        while busy:
            busy = False
            for task in self._all_tasks():
                if task.queue:
                    busy = True
                    self._step(task)
                    if self._is_due(OVERDUE_TIMES):
                        self.commit()
        if self._is_due():
            self.commit()

    def _rest(self) -> None:
        """After the last input: do the postponed work, in the topology's order, until no task sends anything. Messages
        of one task may be input for another."""
        has_sent = True
        while has_sent:
            has_sent = False
            for tasks in self._tasks.values():
                self._divide_rest(tasks)
                has_sent |= bool(sum(self._rest_task(task, task.processor) for task in tasks))

    def _divide_rest(self, tasks: list[EmbeddedTask]) -> None:
        """Have the work of these tasks done in parts, if it can be. What fails in parts fails in the task, too, and is
        reported there."""
        started = time.perf_counter()
        dividing = [task.processor for task in tasks if isinstance(task.processor, Dividing)]
        parts = [part for processor in dividing for part in processor.parts_at_rest()]
        try:
            done = self._do_parts(parts) if parts else None
        except Exception as error:
            stop_if_fatal(error)
            done = None
        for processor in dividing if done is not None else ():
            processor.take_done(done)
        self.seconds[tasks[0].spec.name] += time.perf_counter() - started

    def _rest_task(self, task: EmbeddedTask, processor: Processor) -> bool:
        """Returns whether the task sent anything."""
        if not isinstance(processor, Resting):
            return False
        started = time.perf_counter()
        try:
            sends = processor.at_rest(task.tables)
            self._writes_since_commit += task.tables.accept()
        except Exception as error:  # it is retried after the next input, not at once
            stop_if_fatal(error)
            self._reopen(task)
            self._route(_failed_message(task, None, error))
            return False
        self.seconds[task.spec.name] += time.perf_counter() - started
        self._route_all(sends)
        self._settle()
        return bool(sends)

    def _step(self, task: EmbeddedTask) -> None:
        started = time.perf_counter()
        batch = task.take(self._batch_messages_max)
        try:
            sends = task.processor.process(task.tables, batch)
            self._writes_since_commit += task.tables.accept()
        except Exception as error:
            stop_if_fatal(error)
            sends = self._one_by_one(task, batch)
        name = task.spec.name
        self.seconds[name] += time.perf_counter() - started
        self.messages[name] += len(batch)
        self._processed_since_commit += len(batch)
        self._route_all(sends)

    def _one_by_one(self, task: EmbeddedTask, batch: list[Any]) -> list[Send]:
        """A message made its handler fail: undo the batch, process the others, and make that one a dead letter."""
        sends: list[Send] = []
        self._reopen(task)
        for message in batch:
            try:
                sends += task.processor.process(task.tables, [message])
                self._writes_since_commit += task.tables.accept()
            except Exception as error:
                stop_if_fatal(error)
                self._reopen(task)
                sends.append(_failed_message(task, message, error))
        return sends

    def _reopen(self, task: EmbeddedTask) -> None:
        task.tables.undo()
        task.processor = task.spec.make()
        task.processor.open(task.tables)

    def _route(self, send: Send) -> None:
        self._route_all((send,))

    def _route_all(self, sends: Iterable[Send]) -> None:
        queues, views = self._queues, self._views
        for topic, key, message in sends:
            if topic in queues:
                some = queues[topic]
                some[partition_of(key, len(some))].append(message)
            else:
                view = views[topic]
                if view is not None:
                    view.append(key, message)

    def _all_tasks(self) -> Iterator[EmbeddedTask]:
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
