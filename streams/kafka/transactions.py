"""A worker's transactions: one producer for all its tasks. A worker that has lost a task cannot commit.

Every transaction commits the positions of its tasks along with its records, as a member of a generation of the consumer
group (TxnOffsetCommit 3, KIP-447; aiokafka 0.14 only has version 0, which names no member). The group coordinator
rejects requests of non-members and of past generations. Partitions are assigned by generation, so a worker that was
paused beyond its session commits nothing when it resumes, whatever it assumes to own.

The uncommitted records of such a worker do not block others for long: the next owner of one of its tasks finds the open
transaction in the changelog, and opens the writer's transactional id, which ends it (task.py).

After any error the outcome is unknown, and after some of them aiokafka forgets that a transaction is open: so the
producer is closed and opened again, which settles what it left open. A transactional request without an answer is such
an error. aiokafka would repeat it, but the first one may still arrive, and end the *next* transaction of the producer.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InvalidProducerEpoch,
    KafkaError,
    NodeNotReadyError,
    NoError,
    NotCoordinatorError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RequestTimedOutError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.producer.sender import Sender, TxnOffsetCommitHandler
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.transaction import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from aiokafka.structs import OffsetAndMetadata, RecordMetadata

from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.records import OutRecord
from dustream.streams.kafka.topics import RECORD_BYTES_MAX

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_S = 30
WRITE_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 40.0
BATCH_BYTES = 900 << 10
WAVE_BYTES_MAX = 48 << 20  # a larger record is a wave of its own
START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 5.0
ID_FILE = "worker.id"
NO_EPOCH = -1  # of a partition's leader
NO_TAGS: dict[int, bytes] = {}

Place = tuple[str, int]
"""Topic and partition."""


class Membership(NamedTuple):
    """A worker's identity in the consumer group, valid for one generation."""

    group: str
    generation: int
    member: str


class MembershipOver(ProducerFenced):  # type: ignore[misc]
    """The group has moved on to another generation or other members: the transaction is rejected."""


class InDoubt(OutOfOrderSequenceNumber):  # type: ignore[misc]
    """A transactional request got no answer: it may still be executed, and the producer cannot be used any more."""


class _NoAnswer(Exception):
    """The same inside aiokafka, which would retry after any error of its own."""


class OffsetCommitResponse(Response):  # type: ignore[misc]
    API_KEY = 28
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("partitions", CompactArray(("partition", Int32), ("error_code", Int16), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class OffsetCommitStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 28
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetCommitResponse
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("group_id", CompactString("utf-8")),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("generation_id", Int32),
        ("member_id", CompactString("utf-8")),
        ("group_instance_id", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class OffsetCommitRequest(Request[OffsetCommitStruct]):  # type: ignore[misc]
    """TxnOffsetCommit 3."""

    API_KEY = 28

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def build(self, request_struct_class: type[OffsetCommitStruct]) -> OffsetCommitStruct:
        return request_struct_class(*self._fields)


class OffsetCommit(TxnOffsetCommitHandler):  # type: ignore[misc]
    """Commits positions as a group member."""

    def __init__(self, sender: Any, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: Membership) -> None:
        super().__init__(sender, offsets, who.group)
        self._who = who

    def create_request(self) -> OffsetCommitRequest:
        by_topic: dict[str, list[tuple[Any, ...]]] = {}
        for place, offset in sorted(self._offsets.items()):
            row = (place.partition, offset.offset, NO_EPOCH, offset.metadata, NO_TAGS)
            by_topic.setdefault(place.topic, []).append(row)
        manager, who = self._sender._txn_manager, self._who
        topics = [(topic, rows, NO_TAGS) for topic, rows in by_topic.items()]
        producer = (manager.producer_id, manager.producer_epoch)
        return OffsetCommitRequest(
            manager.transactional_id, who.group, *producer, who.generation, who.member, None, topics, NO_TAGS
        )

    def handle_response(self, response: Any) -> float | None:
        """Seconds until a retry; None if everything is committed."""
        errors = {
            TopicPartition(topic, partition): for_code(code)
            for topic, rows, _ in response.topics
            for partition, code, _ in rows
        }
        wrong = next((error for error in errors.values() if error is not NoError), None)
        if wrong is None:
            for place in errors:
                self._sender._txn_manager.offset_committed(place, self._offsets[place].offset, self._who.group)
            return None
        if wrong in (CoordinatorNotAvailableError, NotCoordinatorError, RequestTimedOutError):
            self._sender._coordinator_dead(CoordinationType.GROUP)
        elif wrong in (IllegalGenerationError, UnknownMemberIdError):
            raise MembershipOver(f"generation {self._who.generation} is over")
        elif wrong is InvalidProducerEpoch:
            raise ProducerFenced()
        elif wrong is not CoordinatorLoadInProgressError:
            raise wrong()
        return float(self._default_backoff)


TRANSACTIONAL = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest, OffsetCommitRequest)


class MemberSender(Sender):  # type: ignore[misc]
    """aiokafka's sender, with offsets committed as a group member."""

    who: Membership

    async def _do_txn_offset_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_id: str) -> None:
        node = await self._find_coordinator(CoordinationType.GROUP, group_id)
        await _answered(OffsetCommit(self, offsets, self.who).do(node))

    async def _do_add_partitions_to_txn(self, tps: Any) -> Any:
        return await _answered(super()._do_add_partitions_to_txn(tps))

    async def _do_add_offsets_to_txn(self, group_id: str) -> Any:
        return await _answered(super()._do_add_offsets_to_txn(group_id))

    async def _do_txn_commit(self, commit_result: Any) -> None:
        await _answered(super()._do_txn_commit(commit_result))


async def _answered(request: Awaitable[Any]) -> Any:
    try:
        return await request
    except _NoAnswer as error:
        raise InDoubt(f"{error}: the producer is reopened") from None


class MemberProducer(AIOKafkaProducer):  # type: ignore[misc]
    """aiokafka's producer with `MemberSender`."""

    def __init__(
        self, cluster: KafkaCluster, transactional_id: str, request_timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        super().__init__(
            request_timeout_ms=round(request_timeout_s * 1000),
            **cluster.aiokafka(),
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_S * 1000,
            max_request_size=RECORD_BYTES_MAX,
            max_batch_size=BATCH_BYTES,
            linger_ms=0,
        )
        self._send_request = self.client.send
        self.client.send = self._send_answered
        known: Any = self._sender
        self._sender: Any = MemberSender(
            self.client,
            acks=known._acks,
            txn_manager=self._txn_manager,
            message_accumulator=self._message_accumulator,
            retry_backoff_ms=known._retry_backoff * 1000,
            request_timeout_ms=known._request_timeout_ms,
        )

    async def _send_answered(self, node: int, request: Any, **options: Any) -> Any:
        """Send a request. A request of a transaction may be retried only if it was certainly not sent."""
        try:
            return await self._send_request(node, request, **options)
        except NodeNotReadyError:
            raise
        except KafkaError as error:
            if isinstance(request, TRANSACTIONAL):
                raise _NoAnswer(f"{type(request).__name__} got no answer ({error!r})") from None
            raise

    async def stop(self) -> None:
        await super().stop()
        waiter = self._txn_manager._transaction_waiter
        if waiter is not None and waiter.done() and not waiter.cancelled():
            waiter.exception()  # mark it as retrieved: asyncio would log it otherwise

    async def commit_positions(self, positions: Mapping[Place, tuple[int, str]], who: Membership) -> None:
        self._sender.who = who
        offsets = {TopicPartition(*place): OffsetAndMetadata(*position) for place, position in positions.items()}
        await self.send_offsets_to_transaction(offsets, who.group)


class Transactions:
    """See the head of this file. Only one transaction at a time."""

    def __init__(
        self,
        cluster: KafkaCluster,
        application: Application,
        data: Path,
        faults: Callable[[str], None] = lambda moment: None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._request_timeout_s = request_timeout_s
        self._cluster = cluster
        self._application = application
        self._faults = faults
        self._file = data / ID_FILE
        self._producer: MemberProducer | None = None
        self._opening = asyncio.Lock()
        if not self._file.exists():
            self._take_another_id()

    @property
    def transactional_id(self) -> str:
        """Belongs to the data folder: a restarted worker ends the transaction that its predecessor left open."""
        return self._application.transactional_id(self._file.read_text())

    def _take_another_id(self) -> None:
        self._file.write_text(uuid.uuid4().hex)

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    async def open(self) -> None:
        """Open the producer as the only one with this id, which ends a transaction left open. Does nothing if open."""
        async with self._opening:
            if self._producer is None:
                self._producer = await self._start(self.transactional_id)

    async def _start(self, transactional_id: str) -> MemberProducer:
        producer = MemberProducer(self._cluster, transactional_id, self._request_timeout_s)
        try:
            await asyncio.wait_for(producer.start(), START_TIMEOUT_S)
        except BaseException:
            await _stop(producer)
            raise
        return producer

    async def shut_out(self, transactional_id: str) -> None:
        """End the open transaction of another worker, which must open its producer again to continue."""
        await _stop(await self._start(transactional_id))

    async def close(self, error: BaseException | None = None) -> None:
        """Close the producer. A worker fenced by another one takes a new id: two workers with one id, because a data
        folder was copied, would fence each other for ever."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stop(producer)
        if isinstance(error, ProducerFenced) and not isinstance(error, MembershipOver):
            self._take_another_id()

    async def write(
        self,
        records: Mapping[Place, Sequence[OutRecord]],
        positions: Mapping[Place, tuple[int, str]],
        who: Membership,
    ) -> Mapping[Place, int]:
        """Write everything in one transaction; returns the end of each log. After any error: close, and open again."""
        if self._producer is None:
            raise RuntimeError("the producer is not open")
        return await asyncio.wait_for(self._write(self._producer, records, positions, who), WRITE_TIMEOUT_S)

    async def _write(
        self,
        producer: MemberProducer,
        records: Mapping[Place, Sequence[OutRecord]],
        positions: Mapping[Place, tuple[int, str]],
        who: Membership,
    ) -> Mapping[Place, int]:
        self._faults("before-transaction")
        await producer.begin_transaction()
        ends = await _write(producer, records)
        # After all records: a task's next owner looks for records of transactions that may still commit.
        await producer.commit_positions(positions, who)
        self._faults("inside-transaction")
        await producer.commit_transaction()
        return ends


async def _stop(producer: AIOKafkaProducer) -> None:
    try:
        await asyncio.wait_for(producer.stop(), CLOSE_TIMEOUT_S)
    except (TimeoutError, KafkaError, OSError) as error:
        log.info("a producer failed to close: %r", error)


async def _write(producer: AIOKafkaProducer, records: Mapping[Place, Sequence[OutRecord]]) -> dict[Place, int]:
    """Write the records of each partition in order; returns the offset after the last of each."""
    batches = ((to, batch) for to, some in records.items() for batch in _batches(producer, some))
    ends: dict[Place, int] = {}
    for wave in waves(batches):
        written = await asyncio.gather(*await _send(producer, wave))
        ends |= {to: last.offset + batch.record_count() for (to, batch), last in zip(wave, written, strict=True)}
    return ends


def waves(batches: Iterable[tuple[Place, BatchBuilder]]) -> Iterator[list[tuple[Place, BatchBuilder]]]:
    """Batches that may be in flight together: a broker closes the connection on a request of more than 100 MB."""
    wave: list[tuple[Place, BatchBuilder]] = []
    size = 0
    for to, batch in batches:
        if wave and size + batch.size() > WAVE_BYTES_MAX:
            yield wave
            wave, size = [], 0
        wave.append((to, batch))
        size += batch.size()
    if wave:
        yield wave


async def _send(
    producer: AIOKafkaProducer, batches: Sequence[tuple[Place, BatchBuilder]]
) -> list[asyncio.Future[RecordMetadata]]:
    """Pass batches to the producer; returns a future for each."""
    sent: list[asyncio.Future[RecordMetadata]] = []
    try:
        for (topic, partition), batch in batches:
            sent.append(await producer.send_batch(batch, topic, partition=partition))
    except BaseException:
        for future in sent:
            future.cancel()  # asyncio would log each as never retrieved otherwise
        raise
    return sent


def _batches(producer: AIOKafkaProducer, records: Sequence[OutRecord]) -> Iterator[BatchBuilder]:
    """The records in as few batches as the producer's maximum allows; a larger record is a batch of its own."""
    batch = producer.create_batch()
    for record in records:
        if not _append(batch, record):
            yield batch
            batch = producer.create_batch()
            if not _append(batch, record):
                size = len(record.value or b"")
                raise ValueError(f"a record of {size} bytes for {record.topic} does not fit in a batch")
    yield batch


def _append(batch: BatchBuilder, record: OutRecord) -> bool:
    appended = batch.append(timestamp=None, key=record.key, value=record.value, headers=list(record.headers))
    return appended is not None
