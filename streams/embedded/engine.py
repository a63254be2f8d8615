"""The embedded engine: the whole topology with FIFO queues between tasks, exactly once. Tasks may run in a process
beside this one (beside.py).

Input position, state changes and queued messages are written in one batch. A process killed at any moment resumes from
the last batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from dustream.core.errors import stop_if_fatal
from dustream.core.processor import Dividing, RestPart, Send
from dustream.core.topology import Topology
from dustream.streams.embedded.beside import Deliver, TasksBeside
from dustream.streams.embedded.tasks import BATCH_MESSAGES_MAX, Opening, Tasks
from dustream.streams.engine.feed import Feed, rare_collections
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.store.base import Change, Store

GATHERED_MESSAGES = 512  # collected from feeds before the tasks run: every step has a fixed cost
COMMIT_MESSAGES = 20_000
COMMIT_WRITES = 100_000
COMMIT_INTERVAL_S = 2.0
OVERDUE_TIMES = 2  # a killed run loses at most so many times of these

DoParts = Callable[[list[RestPart]], Any]
"""Does the parts of the work of tasks at rest; None if they had better do it themselves."""

_JSON = msgspec.json.Encoder()


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
        start_beside: Callable[[Topology, Deliver], TasksBeside] | None = None,
    ) -> None:
        """`do_parts` may do the work of tasks at rest on other cores; `start_beside` may start a process of its own for
        some processors."""
        self._store = store
        self._do_parts = do_parts
        self._clock = clock
        self._commit_messages = commit_messages
        self._beside = start_beside(topology, self._deliver) if start_beside is not None else None
        self._beside_topics = frozenset(self._beside.topics if self._beside is not None else ())
        self._topics = [spec.input for spec in topology.processors]
        self._tasks = Tasks(
            topology,
            [spec.name for spec in topology.processors if spec.input not in self._beside_topics],
            store,
            on_other=self._send_out,
            batch_messages_max=batch_messages_max,
        )
        self._views = {
            topic.name: View(topic.name, compacted=topic.compacted, store=store) if topic.kept else None
            for topic in topology.topics
            if topic.name not in self._topics
        }
        self._changes: list[Change] = []
        self._committed_at = clock()
        self._commit_seconds = 0.0
        self._open_tasks(on_open)

    def _open_tasks(self, on_open: Callable[[Opening], None]) -> None:
        beside, here = self._beside, self._tasks.count
        if beside is None:
            self._tasks.open(on_open)
            return
        count = here + beside.count
        rows = self._tasks.open(lambda opening: on_open(opening._replace(tasks=count)))
        beside.wait_until_open(
            lambda each: on_open(each._replace(number=here + each.number, tasks=count, rows=rows + each.rows))
        )

    @property
    def seconds(self) -> dict[str, float]:
        """By stage. Stages of another process overlap with the others."""
        beside = self._beside.seconds if self._beside is not None else {}
        return self._tasks.seconds | beside | {"commit": self._commit_seconds}

    @property
    def messages(self) -> dict[str, int]:
        """By processor."""
        return self._tasks.messages | (self._beside.messages if self._beside is not None else {})

    @property
    def peak_memory_beside_mb(self) -> int:
        return self._beside.peak_memory_mb if self._beside is not None else 0

    def run(self, feeds: Iterable[Feed]) -> None:
        """Process all input until the queues are empty and everything is committed."""
        with rare_collections():
            self._settle()
            waiting = 0
            for feed in feeds:
                self._tasks.route(feed.sends)
                self._changes += feed.changes
                waiting += len(feed.sends)
                if waiting >= GATHERED_MESSAGES or self._is_due():
                    self._settle()
                    waiting = 0
            self._settle(completely=True)
            self._rest()
            self.commit()

    def commit(self) -> None:
        """Commit everything so far atomically."""
        started = time.perf_counter()
        changes = self._beside.changes() if self._beside is not None else []
        self._store.write(chain(changes, chain.from_iterable(self._drain())))
        if self._beside is not None:
            self._beside.committed()
        self._committed_at = self._clock()
        self._commit_seconds += time.perf_counter() - started

    def close(self) -> None:
        """End the process beside this one."""
        if self._beside is not None:
            self._beside.close()

    def _is_due(self, times: int = 1) -> bool:
        """The time of a commit affects only how much work a killed run repeats."""
        processed, writes = self._tasks.processed, self._tasks.writes
        if self._beside is not None:
            processed, writes = processed + self._beside.processed, writes + self._beside.writes
        return (
            processed >= times * self._commit_messages
            or writes >= times * COMMIT_WRITES
            or self._clock() - self._committed_at >= times * COMMIT_INTERVAL_S
        )

    def _drain(self) -> Iterator[Iterable[Change]]:
        changes, self._changes = self._changes, []
        yield changes
        yield from self._tasks.drain()
        for view in self._views.values():
            if view is not None:
                yield view.drain()

    def _settle(self, *, completely: bool = False) -> None:
        """Run the tasks until all queues here are empty (`completely`: those beside, too), and commit if it is due when
        all are: then no message need be stored. While they do not get empty, only what is long due is committed."""
        self._work_off(completely=completely)
        if self._is_due():
            self._work_off(completely=True)
            self.commit()

    def _work_off(self, *, completely: bool) -> None:
        beside, has_more = self._beside, True
        while has_more:
            for _ in self._tasks.steps():
                if self._is_due(OVERDUE_TIMES):
                    self.commit()
            has_more = False
            if beside is not None:
                beside.flush()
                has_more = beside.receive(wait=not beside.is_quiet if completely else beside.is_behind)

    def _rest(self) -> None:
        """After the last input: do the postponed work, in the topology's order, until no task sends anything. Messages
        of one task may be input for another."""
        has_sent = True
        while has_sent:
            has_sent = False
            for topic in self._topics:
                if self._beside is not None and topic in self._beside_topics:
                    has_sent |= self._beside.rest(topic)
                    self._settle(completely=True)
                    continue
                self._divide_rest(topic)
                for task_has_sent in self._tasks.rest(topic):
                    has_sent |= task_has_sent
                    self._settle(completely=True)

    def _divide_rest(self, topic: str) -> None:
        """Have the work of these tasks done in parts, if it can be. What fails in parts fails in the task, too, and is
        reported there."""
        started = time.perf_counter()
        dividing = [processor for processor in self._tasks.processors(topic) if isinstance(processor, Dividing)]
        parts = [part for processor in dividing for part in processor.parts_at_rest()]
        try:
            done = self._do_parts(parts) if parts else None
        except Exception as error:
            stop_if_fatal(error)
            done = None
        for processor in dividing if done is not None else ():
            processor.take_done(done)
        self._tasks.took(topic, time.perf_counter() - started)

    def _deliver(self, topic: str, key: int | str, messages: list[Any]) -> None:
        """Messages of tasks beside this process."""
        if isinstance(key, int):
            self._tasks.append(topic, key, messages)
        else:
            self._tasks.route(Send(topic, key, message) for message in messages)

    def _send_out(self, send: Send) -> None:
        """A message for a task beside, or for readers outside."""
        topic, key, message = send
        if topic in self._beside_topics:
            assert self._beside is not None
            self._beside.add(send)
        elif (view := self._views[topic]) is not None:
            view.append(key, message)
