"""Tasks that run in a process of their own, beside those of the main process.

The main process owns the state. At a commit, the other process hands over what its tasks have changed, and the main
process writes everything as one batch:

- The main process sends `Commit`. The answer, `Changed`, follows all messages that were sent before the changes were
  made; the main process appends them to its queues, and commits these with the rest. Messages that it has sent itself
  arrive before `Commit`, so they are processed, or in the queues that `Changed` contains.
- The other process reads the state as it was opened, below the changes that it has handed over (`HandedOver`).
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
from msgspec import Struct

from dustream.core.errors import BrokenProgram
from dustream.core.kernels.compile import compile_clock
from dustream.core.processor import Send
from dustream.core.topology import Topology
from dustream.streams.embedded.parcels import Parcel, Parcels
from dustream.streams.embedded.tasks import Opening, Tasks
from dustream.streams.engine.feed import rare_collections
from dustream.streams.engine.worker_processes import (
    follow_parent,
    interrupts_ignored,
    peak_memory_mb,
    pickled,
    worker_context,
)
from dustream.streams.store.base import Change
from dustream.streams.store.extent import open_to_read
from dustream.streams.store.handed_over import HandedOver

AHEAD_MAX = 2_048  # messages sent to the other process and not yet processed
SENT_AT_ONCE = 512
READER_WAITS_S = 1e-4  # until a thread that reads is let in: the default makes the main process wait for milliseconds
CACHE_SHARE = 4  # of the memory, for blocks of the state; the rest is for changes handed over


Deliver = Callable[[str, int | str, list[Any]], None]
"""Takes messages of those tasks: topic, partition or key, and messages."""


class BesideRequest(Struct, frozen=True):
    """What another process is to run. `make_topology` is called there."""

    make_topology: Callable[[], Topology]
    processors: tuple[str, ...]
    state: Path
    memory_bytes: int


# To the other process


class _Deliver(Struct, frozen=True, array_like=True, tag=True):
    parcels: list[Parcel]
    count: int


class _Rest(Struct, frozen=True, array_like=True, tag=True):
    """The input is exhausted: do the postponed work of the tasks that read this topic."""

    topic: str


class _Commit(Struct, frozen=True, array_like=True, tag=True):
    """Hand over all changes."""


class _Committed(Struct, frozen=True, array_like=True, tag=True):
    """They are in the state."""


# From it


class _Opening(Struct, frozen=True, array_like=True, tag=True):
    task: str
    number: int
    tasks: int
    rows: int


class _Opened(Struct, frozen=True, array_like=True, tag=True):
    """All tasks are open."""


class _Compiling(Struct, frozen=True, array_like=True, tag=True):
    """Code is compiled, for the first time after an update."""


class _Sent(Struct, frozen=True, array_like=True, tag=True):
    """Messages for other tasks. `through`: how many messages have been processed, with everything that followed."""

    parcels: list[Parcel]
    through: int
    processed: int
    writes: int


class _Changed(Struct, frozen=True, array_like=True, tag=True):
    changes: list[Change]
    seconds: dict[str, float]
    messages: dict[str, int]
    peak_memory_mb: int


class _Rested(Struct, frozen=True, array_like=True, tag=True):
    has_sent: bool


class _Stopped(Struct, frozen=True, array_like=True, tag=True):
    """The run cannot go on; `error` is the exception, pickled."""

    error: bytes


_Order = _Deliver | _Rest | _Commit | _Committed
_Report = _Opening | _Opened | _Compiling | _Sent | _Changed | _Rested | _Stopped
_ENCODER = msgspec.msgpack.Encoder()
_ORDERS: msgspec.msgpack.Decoder[_Order] = msgspec.msgpack.Decoder(_Order)
_REPORTS: msgspec.msgpack.Decoder[_Report] = msgspec.msgpack.Decoder(_Report)


# ---------------------------------------------------------------- in the other process


def _run(request: BesideRequest, connection: Connection) -> None:
    follow_parent()
    sys.setswitchinterval(READER_WAITS_S)
    reports: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_send_all, args=(reports, connection), daemon=True).start()
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive_all, args=(orders, connection), daemon=True).start()

    def report(each: _Report) -> None:
        reports.put(_ENCODER.encode(each))

    try:
        with compile_clock(lambda: report(_Compiling())), rare_collections():
            _Beside(request, orders, report).run()
    except Exception as error:
        report(_Stopped(pickled(error)))
        threading.Event().wait()  # until the main process has read it, and ends this one


def _send_all(reports: SimpleQueue[bytes], connection: Connection) -> None:
    try:
        while True:
            connection.send_bytes(reports.get())
    except OSError:
        return  # the main process ends this one


def _receive_all(orders: SimpleQueue[bytes], connection: Connection) -> None:
    try:
        while True:
            orders.put(connection.recv_bytes())
    except (EOFError, OSError):
        return  # the main process ends this one


class _Beside:
    """The tasks, and what is to be sent to the main process."""

    def __init__(self, request: BesideRequest, orders: SimpleQueue[bytes], report: Callable[[_Report], None]) -> None:
        self._orders = orders
        self._report = report
        topology = request.make_topology()
        cache_bytes = request.memory_bytes // CACHE_SHARE
        self._held_bytes_max = request.memory_bytes - cache_bytes
        self._store = HandedOver(lambda: open_to_read(request.state, memory_bytes=cache_bytes))
        self._out = Parcels(topology)
        self._tasks = Tasks(topology, request.processors, self._store, on_other=self._out.add)
        self._received = 0

    def run(self) -> None:
        self._tasks.open(lambda opening: self._report(_Opening(*opening)))
        self._report(_Opened())
        while True:
            self._follow(_ORDERS.decode(self._orders.get()))
            self._follow_waiting()
            for _ in self._tasks.steps():
                if self._out.count >= SENT_AT_ONCE:
                    self._send(through=0)
                self._follow_waiting()
            self._send(self._received)

    def _follow_waiting(self) -> None:
        try:
            while True:
                self._follow(_ORDERS.decode(self._orders.get_nowait()))
        except Empty:
            return

    def _follow(self, order: _Order) -> None:
        if isinstance(order, _Deliver):
            self._received += order.count
            for topic, partition, messages in self._out.opened(order.parcels):
                assert isinstance(partition, int)
                self._tasks.append(topic, partition, messages)
        elif isinstance(order, _Rest):
            self._received += 1
            has_sent = any(list(self._tasks.rest(order.topic)))
            self._report(_Rested(has_sent))
        elif isinstance(order, _Commit):
            self._send(through=0)
            changes = list(chain.from_iterable(self._tasks.drain()))
            self._store.write(changes)
            self._report(_Changed(changes, self._tasks.seconds, self._tasks.messages, peak_memory_mb()))
        elif self._store.bytes_held > self._held_bytes_max:
            self._store.catch_up()

    def _send(self, through: int) -> None:
        """`through` 0: there is more to process."""
        tasks = self._tasks
        self._report(_Sent(self._out.take(), through, tasks.processed, tasks.writes))


# ---------------------------------------------------------------- in the main process


class TasksBeside:
    """The tasks of a process of their own, which is started here."""

    def __init__(
        self,
        topology: Topology,
        deliver: Deliver,
        request: BesideRequest,
        on_compile: Callable[[], None] = lambda: None,
    ) -> None:
        specs = [topology.processor(name) for name in request.processors]
        self.topics = [spec.input for spec in specs]
        self.count = sum(spec.partitions for spec in specs)
        self._deliver = deliver
        self._on_compile = on_compile
        self._out = Parcels(topology)
        self._delivered = self._through = 0
        self.processed = self.writes = 0  # messages and rows since the last commit
        self.seconds: dict[str, float] = dict.fromkeys(request.processors, 0.0)
        self.messages: dict[str, int] = dict.fromkeys(request.processors, 0)
        self.peak_memory_mb = 0
        self._connection, theirs = multiprocessing.Pipe()
        self._process = worker_context().Process(target=_run, args=(request, theirs), daemon=True)
        with interrupts_ignored():
            self._process.start()
        theirs.close()

    def wait_until_open(self, on_open: Callable[[Opening], None]) -> None:
        while not isinstance(report := self._next(), _Opened):
            if isinstance(report, _Opening):
                on_open(Opening(report.task, report.number, report.tasks, report.rows))

    def add(self, send: Send) -> None:
        """A message for one of these tasks; it is under way after `flush`."""
        self._out.add(send)

    def flush(self) -> None:
        if count := self._out.count:
            self._delivered += count
            self._send(_Deliver(self._out.take(), count))

    @property
    def is_quiet(self) -> bool:
        """Whether all messages have been processed, with everything that followed from them."""
        return self._through == self._delivered and not self._out.count

    @property
    def is_behind(self) -> bool:
        return self._delivered - self._through > AHEAD_MAX

    def receive(self, *, wait: bool) -> bool:
        """Deliver the messages that have arrived; returns whether there were any reports."""
        found = False
        while (wait and not found) or self._connection.poll():
            self._take(self._next())
            found = True
        return found

    def changes(self) -> list[Change]:
        """All changes since the last commit. Messages sent before are delivered."""
        self.flush()
        self._send(_Commit())
        while not isinstance(report := self._next(), _Changed):
            self._take(report)
        self.seconds, self.messages, self.peak_memory_mb = report.seconds, report.messages, report.peak_memory_mb
        self.processed = self.writes = 0
        return report.changes

    def committed(self) -> None:
        self._send(_Committed())

    def rest(self, topic: str) -> bool:
        """Have the tasks that read this topic do their postponed work; returns whether they sent anything."""
        self._delivered += 1
        self._send(_Rest(topic))
        while not isinstance(report := self._next(), _Rested):
            self._take(report)
        return report.has_sent

    def close(self) -> None:
        self._process.kill()  # before its pipe is closed, which it would complain about
        self._process.join()
        self._connection.close()

    def _take(self, report: _Report) -> None:
        if isinstance(report, _Sent):
            for topic, key, messages in self._out.opened(report.parcels):
                self._deliver(topic, key, messages)
            self._through = max(self._through, report.through)
            self.processed, self.writes = report.processed, report.writes

    def _send(self, order: _Order) -> None:
        try:
            self._connection.send_bytes(_ENCODER.encode(order))
        except OSError:
            raise self._lost() from None

    def _next(self) -> _Report:
        while True:
            try:
                report = _REPORTS.decode(self._connection.recv_bytes())
            except (EOFError, OSError):
                raise self._lost() from None
            if isinstance(report, _Stopped):
                raise pickle.loads(report.error)
            if not isinstance(report, _Compiling):
                return report
            self._on_compile()

    def _lost(self) -> BrokenProgram:
        self._process.join()
        return BrokenProgram(
            f"the process that compares pages ended with exit code {self._process.exitcode}, as it does when memory is "
            "exhausted: free some, and run the same command again to resume; with --jobs 1 there is no such "
            "process"
        )
