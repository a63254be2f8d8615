"""Faust's consumer, made to say what it skipped.

Faust reads uncommitted records unless its own exactly_once is on, and around a rebalance or a broker restart it fetches
records and throws them away. So its aiokafka consumer is replaced by one that reads committed records only, and every
record is marked with the offset *since* which there is no other record in the log. Whoever has dealt with everything
before that offset knows that nothing is missing between; transaction markers, aborted records and what compaction
removed leave gaps in the offsets that look like loss and are none.

aiokafka stops for ever at a batch of records that it cannot unpack. Here such a batch comes as one record without a
value, whose header says why: it becomes a dead letter, and what follows it is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import aiokafka
import faust.transport.drivers.aiokafka as faust_driver
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from dustream.streams.kafka.records import UNREADABLE_HEADER

SINCE_HEADER = "dustream-since"
FETCH_BYTES_MIN = 1
FETCH_WAIT_MS = 500
CRC_TRIES = 3  # a checksum that is wrong may have been wrong on the way only

_fetched_all = FetchResult.getall
_chains: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()
"""Of a partition's state in a consumer: where the next fetch goes on, and the end of the last record handed out."""


class CommittedConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    """Reads committed records only, and does not sleep long on a fetch while other partitions wait."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        settings |= {
            "isolation_level": "read_committed",
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "fetch_min_bytes": FETCH_BYTES_MIN,
        }
        super().__init__(*topics, **settings)
        self.contact_at_s = time.monotonic()
        """When the broker has last answered anything: fetches, heartbeats, metadata."""
        self._send_request = self._client.send
        self._client.send = self._send_and_tell

    async def _send_and_tell(self, *request: Any, **options: Any) -> Any:
        answer = await self._send_request(*request, **options)
        self.contact_at_s = time.monotonic()
        return answer


class Batches:
    """The batches of a fetch, each of which gives its records or says why it cannot."""

    def __init__(self, data: bytes) -> None:
        self._batches = MemoryRecords(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def next_batch(self) -> Batch:
        return Batch(self._batches.next_batch())


class Batch:
    """A batch of records; all but the records is as aiokafka has it."""

    _crc_failures: ClassVar[dict[int, int]] = {}

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._problem = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def validate_crc(self) -> bool:
        if self._batch.validate_crc():
            return True
        crc = self._batch.crc
        tries = self._crc_failures[crc] = self._crc_failures.get(crc, 0) + 1
        if tries < CRC_TRIES:
            return False
        del self._crc_failures[crc]
        self._problem = "its checksum is wrong"
        return True

    def __iter__(self) -> Iterator[Any]:
        first = self._batch.base_offset
        try:
            if self._problem:
                raise CorruptRecordException(self._problem)
            for record in self._batch:
                yield record
                first = record.offset + 1
        except Exception as error:  # whatever a decompressor or parser may raise
            if first < self._batch.next_offset:
                yield UnreadableBatch(self._batch, first, str(error) or repr(error))


class UnreadableBatch:
    """Stands for the records of a batch that cannot be unpacked."""

    key = value = checksum = None

    def __init__(self, batch: Any, first: int, reason: str) -> None:
        self.offset = batch.next_offset - 1
        self.timestamp = batch.max_timestamp
        self.timestamp_type = batch.timestamp_type
        self.headers = [(UNREADABLE_HEADER, f"{first} {reason}".encode())]


def install() -> None:
    """Replace what Faust uses. Doing it twice is no error."""
    faust_driver.aiokafka.AIOKafkaConsumer = CommittedConsumer  # type: ignore[attr-defined]
    FetchResult.getall = _marked_all
    fetcher.MemoryRecords = Batches


def _marked_all(result: Any, max_records: int | None = None) -> list[Any]:
    """Hand out fetched records as aiokafka does, marked. Fetches of a partition follow one another without a gap, also
    those that yield nothing; a seek shows by a fetch that starts elsewhere than the last one ended."""
    partition, assignment = result._topic_partition, result._assignment
    if not result.has_more() or not result.check_assignment(partition):
        return list(_fetched_all(result, max_records))
    state = assignment.state_value(partition)
    start = state.position
    end, since = _chains.get(state, (start, start))
    if end != start:
        since = start
    records: list[Any] = _fetched_all(result, max_records)
    for record in records:
        record.headers = (*record.headers, (SINCE_HEADER, b"%d" % since))
        since = record.offset + 1
    _chains[state] = (state.position, since)
    return records


def handed_out(consumer: Any, partition: Any) -> tuple[int, int] | None:
    """Up to where a consumer has read a partition, and the end of the last record it handed out of that: there is none
    between the two. Nothing is known before the first fetch."""
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    if assignment is None or partition not in assignment.tps:
        return None
    return _chains.get(assignment.state_value(partition))


def split_since(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> tuple[int, dict[str, bytes]]:
    """The mark of a record, and its own headers."""
    found = dict(headers or {})
    return int(found.pop(SINCE_HEADER)), found
