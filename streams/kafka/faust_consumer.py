"""Faust's consumer, changed to report skipped records.

Faust reads uncommitted records unless its own exactly_once is on, and around a rebalance or a broker restart it fetches
records and discards them. So its aiokafka consumer is replaced by one that reads committed records only, and every
record is marked with the offset *since* which there is no other record in the log. A task that has processed everything
before that offset knows that nothing is missing in between. Transaction markers, aborted records and compacted records
leave gaps in the offsets that would otherwise look like loss.

aiokafka stops for ever at a batch of records that it cannot unpack. Here such a batch becomes one record without a
value, with the reason in a header: it becomes a dead letter, and the records after it are read.
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
CRC_TRIES = 3  # a wrong checksum may be a transmission error

_fetched_all = FetchResult.getall
_chains: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()
"""By a partition's state in a consumer: where the next fetch continues, and the end of the last record returned."""


class CommittedConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    """Reads committed records only, and does not wait long for a fetch while other partitions have data."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        settings |= {
            "isolation_level": "read_committed",
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "fetch_min_bytes": FETCH_BYTES_MIN,
        }
        super().__init__(*topics, **settings)
        self.contact_at_s = time.monotonic()
        """When the broker last answered any request: fetches, heartbeats, metadata."""
        self._send_request = self._client.send
        self._client.send = self._send_and_note

    async def _send_and_note(self, *request: Any, **options: Any) -> Any:
        answer = await self._send_request(*request, **options)
        self.contact_at_s = time.monotonic()
        return answer


class Batches:
    """The batches of a fetch; a batch that cannot be unpacked yields an error record."""

    def __init__(self, data: bytes) -> None:
        self._batches = MemoryRecords(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def next_batch(self) -> Batch:
        return Batch(self._batches.next_batch())


class Batch:
    """A batch of records; everything but the records is delegated to aiokafka's."""

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
        except Exception as error:  # any error of a decompressor or parser
            if first < self._batch.next_offset:
                yield UnreadableBatch(self._batch, first, str(error) or repr(error))


class UnreadableBatch:
    """Represents the records of a batch that cannot be unpacked."""

    key = value = checksum = None

    def __init__(self, batch: Any, first: int, reason: str) -> None:
        self.offset = batch.next_offset - 1
        self.timestamp = batch.max_timestamp
        self.timestamp_type = batch.timestamp_type
        self.headers = [(UNREADABLE_HEADER, f"{first} {reason}".encode())]


def install() -> None:
    """Replace the classes that Faust uses. Calling it twice is not an error."""
    faust_driver.aiokafka.AIOKafkaConsumer = CommittedConsumer  # type: ignore[attr-defined]
    FetchResult.getall = _marked_all
    fetcher.MemoryRecords = Batches


def _marked_all(result: Any, max_records: int | None = None) -> list[Any]:
    """Return fetched records as aiokafka does, with marks. Fetches of a partition are contiguous, including empty ones;
    a seek is detected by a fetch that starts elsewhere than the last one ended."""
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
    """Up to where a consumer has read a partition, and the end of the last record it returned: there is no record
    between the two. None before the first fetch."""
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    if assignment is None or partition not in assignment.tps:
        return None
    return _chains.get(assignment.state_value(partition))


def split_since(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> tuple[int, dict[str, bytes]]:
    """The `since` mark of a record, and its own headers."""
    found = dict(headers or {})
    return int(found.pop(SINCE_HEADER)), found
