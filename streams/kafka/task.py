"""The task: a processor on one partition, with its state and its position in the input log.

Its worker's transactions (round.py, transactions.py) contain its messages, its changed state rows (to the changelog),
and its progress row (position in the input log, numbers of the links). After a commit, the same rows are written to the
local copy.

    open      wait until no former owner can commit, catch up from the changelog, build the derived data
    admit     select the next records: repeats are left out, a hole is reported
    process   handle messages; the round writes the messages sent and the rows changed
    at_rest   no input for a while: do the postponed work
    close     discard everything uncommitted

A former owner that could still commit has an open transaction. All its writes are in the changelog already, and since
the generation that assigned the task to us the group rejects its positions (transactions.py). So once everything that
was in the changelog at the time of the assignment is committed or aborted, no more can follow. A transaction that stays
open is ended by opening its writer's transactional id, which is in its (uncommitted) progress row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from confluent_kafka.admin import AdminClient

from dustream.core.errors import StateMismatch, stop_if_fatal
from dustream.core.processor import Processor, Resting, Send
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.engine.tables import StoredKeys, TaskTables
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import catch_up, log_end, open_writers, topic_id
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.local_state import LocalState, task_prefix
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import PROGRESS_KEY, TaskProgress, decode_progress
from dustream.streams.kafka.records import (
    InRecord,
    Letter,
    LinkBatch,
    OutRecord,
    message_letter,
    read_link_batches,
    record_letter,
    unusable,
)
from dustream.streams.kafka.transactions import Transactions
from dustream.streams.store.base import Change

log = logging.getLogger(__name__)

REST_AFTER_S = 0.3  # without input
REST_SHARE_MAX = 0.2  # of a task's time since it last rested, while there is little input
FORMER_OWNER_PATIENCE_S = 2.0
FORMER_OWNER_POLL_S = 0.05

NOWHERE = -1

Result = TypeVar("Result")


@runtime_checkable
class Foresighted(Protocol):
    """A processor that can do the stateless part of its work ahead of a record's turn."""

    def look_ahead(self, record: InRecord) -> None:
        """The result is kept until the record's turn."""


@dataclass(frozen=True)
class Runtime:
    """Shared by all tasks of a worker. Handlers run on the event loop: heartbeats have a separate thread (Faust's
    consumer). Calls that wait for the broker run on `readers`."""

    cluster: KafkaCluster
    application: Application
    topology: Topology
    fingerprint: str
    state: LocalState
    stored: StoredKeys
    readers: Executor
    metrics: Metrics
    transactions: Transactions

    async def read(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.readers, work, *args)


class Abandoned(Exception):
    """The task was assigned to another worker while it was being opened."""


class Admission(NamedTuple):
    """The next messages, each with the record it came in; letters for unreadable records; the progress after them; and
    the first record after a hole, if there is one."""

    messages: list[Any]
    sources: list[InRecord]
    letters: list[Letter]
    progress: TaskProgress
    hole: InRecord | None = None


class KafkaTask:
    """See the head of this file. Rounds use it one at a time; the owner holds `lock` to open or close it."""

    def __init__(self, spec: ProcessorSpec, partition: int, runtime: Runtime) -> None:
        self.spec = spec
        self.partition = partition
        self.name = f"{spec.name}-{partition}"
        self.lock = asyncio.Lock()
        self.is_open = False
        self.progress = TaskProgress(runtime.fingerprint)
        self._runtime = runtime
        self._topic = runtime.topology.topic(spec.input)
        self.linked = not self._topic.public
        self._decoder = msgspec.msgpack.Decoder(list[self._topic.message]) if self.linked else None  # type: ignore[name-defined]
        self.changelog = runtime.application.changelog(spec.name)
        self._changelog_id = ""
        self._prefix = task_prefix(spec.name, partition)
        self._abandoned = False
        self._tables: TaskTables
        self._processor: Processor
        self._resting: Resting | None = None
        self._foresighted: Foresighted | None = None
        self.is_rested = True
        self._worked_at_s = 0.0
        self._rested_at_s = 0.0
        self._rest_took_s = 0.0
        self.here = InRecord(runtime.application.topic(spec.input), partition, NOWHERE, NOWHERE, None, None, {})
        """Stands for the record of messages that came without a record."""

    # ---------------------------------------------------------------- open and close

    async def open(self) -> None:
        """Take the task over. After any error it is not open: close it and try again later."""
        runtime = self._runtime
        admin = AdminClient(runtime.cluster.confluent())  # an older one may not know of a broker's restart
        await self._outlast_former_owner(admin)
        self._changelog_id = await runtime.read(topic_id, admin, self.changelog)
        await runtime.read(self._catch_up)
        await runtime.read(self.load)
        self.is_open = True

    async def _outlast_former_owner(self, admin: AdminClient) -> None:
        runtime, place = self._runtime, (self.changelog, self.partition)
        end = await runtime.read(log_end, admin, *place)
        patient_until_s = time.monotonic() + FORMER_OWNER_PATIENCE_S
        while (committed := await runtime.read(log_end, admin, *place, True)) < end:
            self._check_abandoned()
            await asyncio.sleep(FORMER_OWNER_POLL_S)
            if time.monotonic() > patient_until_s:
                for writer in await runtime.read(open_writers, runtime.cluster, *place, committed):
                    await self._shut_out(writer)
                patient_until_s = time.monotonic() + FORMER_OWNER_PATIENCE_S

    async def _shut_out(self, writer: str) -> None:
        """End a transaction that stays open. It may be our own that was rejected: no round ends it, because rounds wait
        for records, and records for open tasks."""
        transactions = self._runtime.transactions
        if writer == transactions.transactional_id:
            await transactions.open()
        else:
            log.warning("%s: its former owner %s has a transaction open: fencing it", self.name, writer)
            await transactions.shut_out(writer)

    def _catch_up(self) -> None:
        runtime = self._runtime
        catch_up(
            runtime.cluster,
            self.changelog,
            self._changelog_id,
            self.spec.name,
            self.partition,
            runtime.state,
            self._caught_up,
        )

    def _caught_up(self, rows: int) -> None:
        self._runtime.metrics.add("recovered_rows", rows, processor=self.spec.name)
        self._check_abandoned()

    def abandon(self) -> None:
        """Stop opening."""
        self._abandoned = True

    def _check_abandoned(self) -> None:
        if self._abandoned:
            raise Abandoned(f"{self.name} belongs to another worker now")

    def load(self) -> None:
        """Start from the local copy."""
        header = self._runtime.state.header(self._prefix)
        known = decode_progress(header.progress) if header and header.progress else None
        fingerprint = self._runtime.fingerprint
        if known is not None and known.fingerprint != fingerprint:
            raise StateMismatch(
                f"the state of the application {self._runtime.application.name} was written by another version of this "
                "program, with other signatures or rows: run that version, or replay into another --name"
            )
        self.progress = known or TaskProgress(fingerprint)
        self._renew()
        self.is_rested = self._resting is None

    def _renew(self) -> None:
        """Reset tables and derived data to the last commit."""
        state = self._runtime.state
        is_empty = next(state.scan(self._prefix), None) is None
        stored = self._runtime.stored if is_empty else None
        self._tables = TaskTables(state, self.spec, self.partition, stored)
        self._make_processor()
        with self._tables.watched(self._rebuilt):
            self._processor.open(self._tables)

    def _make_processor(self) -> None:
        """Make a new processor and cache its capabilities: an isinstance check of a protocol is slow."""
        self._processor = self.spec.make()
        self._resting = self._processor if isinstance(self._processor, Resting) else None
        self._foresighted = self._processor if isinstance(self._processor, Foresighted) else None

    def _rebuilt(self, rows: int) -> None:
        self._runtime.metrics.add("rebuilt_rows", rows, processor=self.spec.name)
        self._check_abandoned()

    def close(self) -> None:
        """Release the task."""
        self.is_open = False

    # ---------------------------------------------------------------- input

    def admit(self, records: Sequence[InRecord]) -> Admission:
        """Leave out repeats, and stop before a hole: a record before which another one is missing."""
        position = self.progress.position
        come: list[InRecord] = []
        hole = None
        for record in records:
            if record.offset < position:
                continue
            if record.since > position:
                hole = record
                break
            position = record.offset + 1
            come.append(record)
        return self._unpack(come, position, hole)

    def _unpack(self, records: Sequence[InRecord], position: int, hole: InRecord | None) -> Admission:
        received = dict(self.progress.received)
        messages: list[Any] = []
        sources: list[InRecord] = []
        letters: list[Letter] = []
        for record in records:
            found = self._messages(record, received, letters)
            messages += found
            sources += [record] * len(found)
        progress = TaskProgress(self.progress.fingerprint, position, received, self.progress.sent)
        return Admission(messages, sources, letters, progress, hole)

    def _messages(self, record: InRecord, received: dict[str, int], letters: list[Letter]) -> list[Any]:
        if why := unusable(record):
            letters.append(record_letter(record, self._topic.name, why))
            return []
        if self._decoder is None:
            return [record]
        found: list[Any] = []
        try:
            batches = read_link_batches(record.value or b"")
        except msgspec.MsgspecError as error:
            letters.append(self._unreadable(record, f"it was not sent by a task of this application ({error})"))
            return []
        for batch in batches:
            if self._is_new(batch, record, received):
                try:
                    found += self._decoder.decode(batch.messages)
                except msgspec.MsgspecError as error:
                    letters.append(self._unreadable(record._replace(value=bytes(batch.messages)), str(error)))
        return found

    def _unreadable(self, record: InRecord, why: str) -> Letter:
        return record_letter(record, self._topic.name, f"the record cannot be read: {why}")

    def _is_new(self, batch: LinkBatch, record: InRecord, received: dict[str, int]) -> bool:
        """Check the number of a batch, and count it."""
        expected = received.get(batch.sender, 0)
        if batch.number > expected:
            raise StateMismatch(
                f"{record.topic}-{record.partition} lacks batches {expected} to {batch.number - 1} of "
                f"{batch.sender}: they were deleted before they were read. Replay the crawl topic into a fresh "
                "application"
            )
        if batch.number < expected:
            self._runtime.metrics.add("repeated_batches", processor=self.spec.name)
            return False
        received[batch.sender] = expected + 1
        return True

    # ---------------------------------------------------------------- work

    def process(self, messages: Sequence[Any], sources: Sequence[InRecord]) -> tuple[list[Send], list[Letter]]:
        """Handle messages; a message whose handler fails becomes a dead letter."""
        self.is_rested = self._resting is None
        self._worked_at_s = time.monotonic()
        try:
            sends = self._processor.process(self._tables, messages)
            self._tables.accept()
            return sends, []
        except Exception as error:
            stop_if_fatal(error)
            log.exception("%s: a message made the handler fail; the batch is processed again one by one", self.name)
            return self._one_by_one(messages, sources)

    def _one_by_one(self, messages: Sequence[Any], sources: Sequence[InRecord]) -> tuple[list[Send], list[Letter]]:
        sends: list[Send] = []
        letters: list[Letter] = []
        self._undo()
        for message, source in zip(messages, sources, strict=True):
            try:
                sends += self._processor.process(self._tables, [message])
                self._tables.accept()
            except Exception as error:
                stop_if_fatal(error)
                self._undo()
                letters.append(self._failed(message, source, error))
        return sends, letters

    def _undo(self) -> None:
        self._tables.undo()
        self._make_processor()
        self._processor.open(self._tables)

    def _failed(self, message: Any, source: InRecord, error: Exception) -> Letter:
        reason = f"the {self.spec.name} processor failed on this message: {type(error).__name__}: {error}"
        letter = (
            record_letter(message, self._topic.name, reason)
            if isinstance(message, InRecord)
            else message_letter(source, self._topic.name, message, reason)
        )
        log.error("%s: dead letter at offset %d, url %s: %s", self.name, source.offset, letter.letter.url, reason)
        return letter

    def look_ahead(self, record: InRecord) -> None:
        """Do the part of a record's work that is possible ahead of its turn."""
        if self._foresighted is not None:
            self._foresighted.look_ahead(record)

    # ---------------------------------------------------------------- rest

    def is_rest_due(self, after_s: float) -> bool:
        """Whether there is postponed work, and no input for a while, at least `after_s`."""
        now_s = time.monotonic()
        if self.is_rested or now_s - self._rested_at_s < self._rest_took_s / REST_SHARE_MAX:
            return False
        return now_s - self._worked_at_s > max(after_s, REST_AFTER_S)

    def at_rest(self) -> list[Send]:
        """Do the postponed work. It may take seconds; until it is written, no other round may use the task."""
        started = time.monotonic()
        sends: list[Send] = []
        try:
            if self._resting is not None:
                sends = self._resting.at_rest(self._tables)
            self._tables.accept()
        except Exception as error:
            stop_if_fatal(error)
            log.exception("%s: its postponed work failed; it is retried after the next input", self.name)
            self._undo()
        self._rested_at_s = time.monotonic()
        self._rest_took_s = self._rested_at_s - started
        self.is_rested = True
        return sends

    # ---------------------------------------------------------------- output

    def drain(self) -> list[Change]:
        """The rows changed since the last call. They count as committed from here on."""
        return list(self._tables.drain())

    def rows(self, changes: Sequence[Change], progress: TaskProgress) -> list[OutRecord]:
        """The records for the changelog, the progress row first: it names the writer of the transaction."""
        cut, place = len(self._prefix), (self.changelog, self.partition)
        rows = [OutRecord(*place, key[cut:], value) for key, value in changes]
        return [OutRecord(*place, PROGRESS_KEY, progress.encode()), *rows]

    def copied(self, progress: TaskProgress, end: int) -> Change:
        """After the commit: advance to this progress. Returns the change for the local copy."""
        self.progress = progress
        self._runtime.metrics.set(
            "position", progress.position, processor=self.spec.name, partition=str(self.partition)
        )
        return self._runtime.state.header_change(self._prefix, self._changelog_id, end, progress.encode())
