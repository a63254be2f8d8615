"""The task: a processor on one partition, exactly once by a Kafka transaction.

One transaction per batch holds the outputs, the changed state rows (to the changelog), and the progress row (position
in the input log, numbers of the links). After it commits, the same rows go to the local copy. The transactional id
belongs to the task, not to the worker: opening it fences whoever had it before and ends its open transaction, so a
worker that was paused writes nothing when it wakes.

    open      fence, catch up from the changelog, build the processor's derived state
    admit     which records come next: repeats are left out, a hole is reported
    apply     handle, write in one transaction, then bring the local copy up to date
    rest      nothing has come for a while: do what could wait, and tell the group where the task stands
    failed    an error in a transaction leaves the outcome unknown: close, and open again
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata

from dustream.core.errors import DustreamError, StateMismatch
from dustream.core.processor import Processor, Resting, Send
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.embedded.tables import TaskTables
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import catch_up, topic_id
from dustream.streams.kafka.cluster import Cluster
from dustream.streams.kafka.local_state import LocalState, task_prefix
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import PROGRESS_KEY, Progress, decode_progress, read_link
from dustream.streams.kafka.records import (
    DEAD_LETTERS,
    InRecord,
    Letter,
    Outbox,
    OutRecord,
    message_letter,
    record_letter,
)
from dustream.streams.kafka.topics import RECORD_BYTES_MAX
from dustream.streams.store.base import Change

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_S = 30
BATCH_BYTES = 900 << 10
START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 5.0
OFFSET_HINT_INTERVAL_S = 5.0  # two requests more, and a partition more to mark
REST_AFTER_S = 1.0  # without input
REST_SHARE_MAX = 0.2  # of a task's time, where input comes in drops

Result = TypeVar("Result")


@dataclass(frozen=True)
class Runtime:
    """What all tasks of a worker share. Handlers run on the event loop: heartbeats have a thread of their own (Faust's
    consumer), and while one task waits for its commit, another works. Waiting for the broker is done on `readers`."""

    cluster: Cluster
    application: Application
    topology: Topology
    fingerprint: str
    state: LocalState
    readers: Executor
    metrics: Metrics
    faults: Callable[[str], None] = field(default=lambda moment: None)
    """Told at every moment where a crash would be interesting; tests crash there."""

    async def read(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.readers, work, *args)


class Admission(NamedTuple):
    """The records that come next, the progress they lead to, and the first record after a hole, if there is one."""

    records: list[InRecord]
    progress: Progress
    hole: InRecord | None


class Prepared(NamedTuple):
    """A batch, handled but not yet written."""

    records: list[OutRecord]
    changes: list[Change]
    progress: Progress
    messages: int
    dead: int


class Task:
    """See the head of this file. Not safe for two callers at once; the owner holds `lock`."""

    def __init__(self, spec: ProcessorSpec, partition: int, runtime: Runtime) -> None:
        self.spec = spec
        self.partition = partition
        self.name = f"{spec.name}-{partition}"
        self.lock = asyncio.Lock()
        self.is_open = False
        self.progress = Progress(runtime.fingerprint)
        self._runtime = runtime
        self._topic = runtime.topology.topic(spec.input)
        self.linked = not self._topic.public
        self._decoder = msgspec.msgpack.Decoder(list[self._topic.message]) if self.linked else None  # type: ignore[name-defined]
        self._changelog = runtime.application.changelog(spec.name)
        self._changelog_id = ""
        self._prefix = task_prefix(spec.name, partition)
        self._producer: AIOKafkaProducer | None = None
        self._abandoned = False
        self._tables: TaskTables
        self._processor: Processor
        self._hinted_at_s = 0.0
        self._hinted = -1
        self._applied_at_s = 0.0
        self._rest_took_s = 0.0

    # ---------------------------------------------------------------- open and close

    async def open(self) -> None:
        """Take the task over. Any error means it is not open; close it and try again later."""
        runtime = self._runtime
        self._producer = AIOKafkaProducer(
            **runtime.cluster.aiokafka(),
            transactional_id=runtime.application.transactional_id(self.spec.name, self.partition),
            transaction_timeout_ms=TRANSACTION_TIMEOUT_S * 1000,
            max_request_size=RECORD_BYTES_MAX,
            max_batch_size=BATCH_BYTES,
            linger_ms=0,
        )
        await asyncio.wait_for(self._producer.start(), START_TIMEOUT_S)
        self._changelog_id = await runtime.read(topic_id, runtime.cluster, self._changelog)
        await runtime.read(self._catch_up)
        await runtime.read(self._load)
        self.is_open = True

    def _catch_up(self) -> None:
        runtime = self._runtime
        catch_up(
            runtime.cluster,
            self._changelog,
            self._changelog_id,
            self.spec.name,
            self.partition,
            runtime.state,
            self._caught_up,
        )

    def _caught_up(self, rows: int) -> None:
        self._runtime.metrics.add("recovered_rows", rows, processor=self.spec.name)
        if self._abandoned:
            raise RuntimeError(f"{self.name} belongs to another worker now")

    def abandon(self) -> None:
        """Do not go on opening."""
        self._abandoned = True

    def _load(self) -> None:
        header = self._runtime.state.header(self._prefix)
        known = decode_progress(header.progress) if header and header.progress else None
        fingerprint = self._runtime.fingerprint
        if known is not None and known.fingerprint != fingerprint:
            raise StateMismatch(
                f"the application {self._runtime.application.name} was made with other settings: use the same, "
                "or another --name, and replay into it"
            )
        self.progress = known or Progress(fingerprint)
        self._renew()

    def _renew(self) -> None:
        """Tables and derived state as of the last commit."""
        self._tables = TaskTables(self._runtime.state, self.spec, self.partition)
        self._processor = self.spec.make()
        with self._tables.watched(self._rebuilt):
            self._processor.open(self._tables)

    def _rebuilt(self, rows: int) -> None:
        self._runtime.metrics.add("rebuilt_rows", rows, processor=self.spec.name)
        if self._abandoned:
            raise RuntimeError(f"{self.name} belongs to another worker now")

    async def close(self) -> None:
        """Let go. What was not committed is as if it had never been."""
        self.is_open = False
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            await asyncio.wait_for(producer.stop(), CLOSE_TIMEOUT_S)
        except (TimeoutError, KafkaError, OSError) as error:
            log.info("%s: its producer did not close in peace: %r", self.name, error)

    # ---------------------------------------------------------------- what comes next

    def admit(self, records: Sequence[InRecord]) -> Admission:
        """Leave out repeats, and stop before a hole: a record before which another is missing."""
        position, received = self.progress.position, dict(self.progress.received)
        admitted: list[InRecord] = []
        hole = None
        for record in records:
            if record.offset < position:
                continue
            if record.since > position:
                hole = record
                break
            position = record.offset + 1
            if self._is_new(record, received):
                admitted.append(record)
        sent = self.progress.sent
        return Admission(admitted, Progress(self.progress.fingerprint, position, received, sent), hole)

    def _is_new(self, record: InRecord, received: dict[str, int]) -> bool:
        """Check a record's number, and count it."""
        link = read_link(record.headers) if self.linked else None
        if link is None:
            return True
        expected = received.get(link.sender, 0)
        if link.number > expected:
            raise StateMismatch(
                f"{record.topic}-{record.partition} lacks records {expected} to {link.number - 1} of {link.sender}: "
                "they were deleted before they were read. Replay the crawl topic into a fresh application"
            )
        if link.number < expected:
            self._runtime.metrics.add("repeated_records", processor=self.spec.name)
            return False
        received[link.sender] = expected + 1
        return True

    # ---------------------------------------------------------------- a batch

    async def apply(self, admission: Admission) -> Mapping[tuple[str, int], int]:
        """Handle the records, exactly once; where each log that was written to ends now. Any error means: close, and
        open again."""
        runtime, started = self._runtime, time.perf_counter()
        prepared = self._prepare(admission)
        handled = time.perf_counter()
        ends = await asyncio.wait_for(self._transact(prepared), TRANSACTION_TIMEOUT_S * 2)
        runtime.faults("after-commit")
        self._copy(prepared, ends[self._changelog, self.partition])
        self.progress = prepared.progress
        self._applied_at_s = time.monotonic()
        self._measure(prepared, handled - started, time.perf_counter() - handled)
        return ends

    def _prepare(self, admission: Admission) -> Prepared:
        letters: list[Letter] = []
        sources: list[InRecord] = []
        messages: list[Any] = []
        for record in admission.records:
            try:
                found = self._decode(record)
            except (msgspec.MsgspecError, ValueError) as error:
                reason = f"the record cannot be read: {error}"
                letters.append(record_letter(record, self._topic.name, reason))
                continue
            sources += [record] * len(found)
            messages += found
        sends, failed = self._process(messages, sources)
        return self._written_out(sends, letters + failed, admission.progress, len(messages))

    def _written_out(self, sends: list[Send], letters: list[Letter], ahead: Progress, messages: int) -> Prepared:
        """What was sent and changed, as records."""
        outbox = Outbox(self._runtime.topology, self._runtime.application, self.name, self.progress.sent)
        outbox.add(sends)
        outbox.add(Send(DEAD_LETTERS, letter.letter.source, letter) for letter in letters)
        records = list(outbox.records())
        changes = list(self._tables.drain())
        progress = Progress(ahead.fingerprint, ahead.position, ahead.received, outbox.sent)
        records += self._rows(changes, progress)
        dead = sum(isinstance(send.message, Letter) for send in sends) + len(letters)
        return Prepared(records, changes, progress, messages, dead)

    def _decode(self, record: InRecord) -> list[Any]:
        if self._decoder is None:
            return [record]
        if read_link(record.headers) is None:
            raise ValueError("it was not sent by a task of this application")
        found: list[Any] = self._decoder.decode(record.value or b"")
        return found

    def _process(self, messages: list[Any], sources: list[InRecord]) -> tuple[list[Send], list[Letter]]:
        if not messages:
            return [], []
        try:
            sends = self._processor.process(self._tables, messages)
            self._tables.accept()
            return sends, []
        except DustreamError:
            raise
        except Exception:
            log.exception("%s: a message made the handler fail; the batch is done again one by one", self.name)
            return self._one_by_one(messages, sources)

    def _one_by_one(self, messages: list[Any], sources: list[InRecord]) -> tuple[list[Send], list[Letter]]:
        sends: list[Send] = []
        letters: list[Letter] = []
        self._undo()
        for message, source in zip(messages, sources, strict=True):
            try:
                sends += self._processor.process(self._tables, [message])
                self._tables.accept()
            except DustreamError:
                raise
            except Exception as error:
                self._undo()
                letters.append(self._failed(message, source, error))
        return sends, letters

    def _undo(self) -> None:
        self._tables.undo()
        self._processor = self.spec.make()
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

    def _rows(self, changes: list[Change], progress: Progress) -> list[OutRecord]:
        cut = len(self._prefix)
        rows = [OutRecord(self._changelog, self.partition, key[cut:], value) for key, value in changes]
        return [*rows, OutRecord(self._changelog, self.partition, PROGRESS_KEY, progress.encode())]

    async def _transact(self, prepared: Prepared) -> Mapping[tuple[str, int], int]:
        """Write everything in one transaction; where each log ends after it."""
        producer = self._producer
        if producer is None:
            raise RuntimeError(f"{self.name} is not open")
        by_partition: dict[tuple[str, int], list[OutRecord]] = {}
        for record in prepared.records:
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        self._runtime.faults("before-transaction")
        await producer.begin_transaction()
        ends = await _write(producer, by_partition)
        if not self.works_at_rest and time.monotonic() - self._hinted_at_s > OFFSET_HINT_INTERVAL_S:
            await self._send_hint(producer, prepared.progress.position)
        self._runtime.faults("inside-transaction")
        await producer.commit_transaction()
        return ends

    async def skip_to(self, position: int) -> None:
        """Go on at a later position: what lay between is in no log any more."""
        ahead = Progress(self.progress.fingerprint, position, self.progress.received, self.progress.sent)
        await self.apply(Admission([], ahead, None))

    @property
    def works_at_rest(self) -> bool:
        """Who has work for later is where the group believes it to be only when that is done: else an application would
        seem at rest before it is."""
        return isinstance(self._processor, Resting)

    async def rest(self) -> None:
        """Nothing has come for a while: do what could wait, and tell the group where the task stands."""
        if self._producer is None or self._hinted == self.progress.position:
            return
        if isinstance(self._processor, Resting):
            idle_s = time.monotonic() - self._applied_at_s
            if idle_s < max(REST_AFTER_S, self._rest_took_s / REST_SHARE_MAX):
                return
            await self._do_what_waited(self._processor)
        await self._producer.begin_transaction()
        await self._send_hint(self._producer, self.progress.position)
        await self._producer.commit_transaction()

    async def _do_what_waited(self, processor: Resting) -> None:
        """In a thread: it may take seconds, and other tasks have transactions open."""
        started = time.monotonic()
        try:
            sends = await self._runtime.read(processor.at_rest, self._tables)
            self._tables.accept()
        except DustreamError:
            raise
        except Exception:
            log.exception("%s: what it does at rest failed; it is tried again after the next input", self.name)
            self._undo()
            return
        self._rest_took_s = time.monotonic() - started
        prepared = self._written_out(sends, [], self.progress, 0)
        if sends or prepared.changes:
            handled = time.monotonic()
            ends = await asyncio.wait_for(self._transact(prepared), TRANSACTION_TIMEOUT_S * 2)
            self._copy(prepared, ends[self._changelog, self.partition])
            self.progress = prepared.progress
            self._measure(prepared, self._rest_took_s, time.monotonic() - handled)

    async def _send_hint(self, producer: AIOKafkaProducer, position: int) -> None:
        """The group's committed offset: where the first fetch begins, and what lag displays show. Never the truth."""
        application = self._runtime.application
        place = TopicPartition(application.topic(self.spec.input), self.partition)
        await producer.send_offsets_to_transaction({place: position}, application.group)
        self._hinted_at_s = time.monotonic()
        self._hinted = position

    def _copy(self, prepared: Prepared, position: int) -> None:
        state = self._runtime.state
        header = state.header_change(self._prefix, self._changelog_id, position, prepared.progress.encode())
        state.write([*prepared.changes, header])

    def _measure(self, prepared: Prepared, handling_s: float, writing_s: float) -> None:
        metrics, stage = self._runtime.metrics, self.spec.name
        metrics.add("transactions", processor=stage)
        metrics.add("messages", prepared.messages, processor=stage)
        metrics.add("records_out", len(prepared.records), processor=stage)
        metrics.add("state_rows", len(prepared.changes), processor=stage)
        metrics.add("dead_letters", prepared.dead, processor=stage)
        metrics.add("handling_seconds", handling_s, processor=stage)
        metrics.add("writing_seconds", writing_s, processor=stage)
        metrics.set("position", prepared.progress.position, processor=stage, partition=str(self.partition))


async def _write(
    producer: AIOKafkaProducer, by_partition: Mapping[tuple[str, int], list[OutRecord]]
) -> dict[tuple[str, int], int]:
    """Write the records of each partition in order; the offset after the last of each."""
    batches = [(to, batch) for to, records in by_partition.items() for batch in _batches(producer, records)]
    written = await asyncio.gather(*await _send(producer, batches))
    return {to: last.offset + batch.record_count() for (to, batch), last in zip(batches, written, strict=True)}


async def _send(
    producer: AIOKafkaProducer, batches: Sequence[tuple[tuple[str, int], BatchBuilder]]
) -> list[asyncio.Future[RecordMetadata]]:
    """Hand batches to the producer; what tells when each is written."""
    sent: list[asyncio.Future[RecordMetadata]] = []
    try:
        for (topic, partition), batch in batches:
            sent.append(await producer.send_batch(batch, topic, partition=partition))
    except BaseException:
        for unheard in sent:
            unheard.cancel()  # else each would log that nobody asked how it ended
        raise
    return sent


def _batches(producer: AIOKafkaProducer, records: list[OutRecord]) -> Iterator[BatchBuilder]:
    """The records in as few batches as the producer's largest allows; a record larger than that has one of its own."""
    batch = producer.create_batch()
    for record in records:
        if not _append(batch, record):
            yield batch
            batch = producer.create_batch()
            if not _append(batch, record):
                raise ValueError(f"a record of {len(record.value or b'')} bytes for {record.topic} fits into no batch")
    yield batch


def _append(batch: BatchBuilder, record: OutRecord) -> bool:
    appended = batch.append(timestamp=None, key=record.key, value=record.value, headers=list(record.headers))
    return appended is not None
