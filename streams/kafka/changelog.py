"""Reads logs to their end, outside of any consumer group: mainly changelogs, into local copies of the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.local_state import LocalState, task_prefix
from dustream.streams.kafka.progress import PROGRESS_KEY, decode_progress
from dustream.streams.kafka.topics import ADMIN_TIMEOUT_S, TOMBSTONE_RETENTION_H
from dustream.streams.store.base import Change

READ_RECORDS = 5_000
READ_WAIT_S = 0.05
SILENCE_S_MAX = 60.0
COPY_AGE_S_MAX = TOMBSTONE_RETENTION_H * 3_600 // 2


@contextmanager
def reader(
    cluster: KafkaCluster, places: list[TopicPartition], reset: str, isolation: str = "read_committed"
) -> Iterator[Consumer]:
    """A consumer without a group, assigned to the partitions at their offsets."""
    settings: dict[str, Any] = {
        "group.id": "dustream-reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": reset,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer(cluster.confluent() | settings)
    try:
        consumer.assign(places)
        yield consumer
    finally:
        consumer.close()


def read_to_end(
    cluster: KafkaCluster,
    topic: str,
    partition: int,
    offset: int,
    *,
    reset: str = "error",
    isolation: str = "read_committed",
) -> Iterator[list[Any]]:
    """The records from an offset to the end, in lists; Unreachable if the broker does not answer."""
    with reader(cluster, [TopicPartition(topic, partition, offset)], reset, isolation) as consumer:
        answered_at_s = time.monotonic()
        while True:
            records, ended = _sort(consumer.consume(READ_RECORDS, READ_WAIT_S))
            if records:
                yield records
            if ended:
                return
            if records:
                answered_at_s = time.monotonic()
            elif time.monotonic() - answered_at_s > SILENCE_S_MAX:
                raise Unreachable(f"{topic}-{partition} does not answer: is the broker up?")


def _sort(messages: list[Any]) -> tuple[list[Any], bool]:
    records, ended = [], False
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended = True
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise KafkaException(error)
    return records, ended


def read_all_to_end(cluster: KafkaCluster, logs: list[tuple[str, int]]) -> Iterator[list[Any]]:
    """The committed records of many partitions, in mixed lists; those of each partition are in order, up to its end at
    the time it was reached. One consumer reads all: each takes a while to connect, however little there is to read."""
    places = [TopicPartition(topic, partition, 0) for topic, partition in logs]
    left = set(logs)
    with reader(cluster, places, "earliest") as consumer:
        answered_at_s = time.monotonic()
        while left:
            messages = consumer.consume(READ_RECORDS, READ_WAIT_S)
            if messages:
                answered_at_s = time.monotonic()
            elif time.monotonic() - answered_at_s > SILENCE_S_MAX:
                raise Unreachable(f"{', '.join(sorted({topic for topic, _ in left}))}: no answer. Is the broker up?")
            before = set(left)
            if records := _of_open_logs(messages, left):
                yield records
            if ended := before - left:
                consumer.pause([TopicPartition(topic, partition) for topic, partition in ended])


def _of_open_logs(messages: list[Any], left: set[tuple[str, int]]) -> list[Any]:
    """The records of logs in `left`; removes those that end."""
    records = []
    for message in messages:
        log, error = (message.topic(), message.partition()), message.error()
        if error is None and log in left:
            records.append(message)
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            left.discard(log)
    return records


def any_record(cluster: KafkaCluster, places: list[TopicPartition]) -> bool:
    """Whether there is a committed record at or after any of the offsets."""
    silent = {(place.topic, place.partition) for place in places}
    with reader(cluster, places, "earliest") as consumer:
        answered_at_s = time.monotonic()
        while silent:
            for message in consumer.consume(READ_RECORDS, READ_WAIT_S):
                error, answered_at_s = message.error(), time.monotonic()
                if error is None:
                    return True
                if error.code() == KafkaError._PARTITION_EOF:
                    silent.discard((str(message.topic()), int(message.partition() or 0)))
            if time.monotonic() - answered_at_s > SILENCE_S_MAX:
                raise Unreachable(f"{', '.join(topic for topic, _ in sorted(silent))}: no answer. Is the broker up?")
    return False


def log_end(admin: AdminClient, topic: str, partition: int, committed: bool = False) -> int:
    """The offset after the last record of a log; `committed`: that of the last stable offset."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    place = TopicPartition(topic, partition)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found = admin.list_offsets({place: latest}, isolation_level=level, request_timeout=ADMIN_TIMEOUT_S)
    try:
        return int(found[place].result().offset)
    except KafkaException as error:
        raise Unreachable(f"{topic}-{partition} does not answer: {error.args[0].str()}") from None


def open_writers(cluster: KafkaCluster, changelog: str, partition: int, since: int) -> list[str]:
    """The transactional ids that wrote to a changelog since an offset, committed or not."""
    uncommitted = read_to_end(cluster, changelog, partition, since, reset="earliest", isolation="read_uncommitted")
    rows = [record for records in uncommitted for record in records if record.key() == PROGRESS_KEY]
    writers = {decode_progress(record.value()).writer for record in rows}
    return sorted(writers - {""})


def topic_id(admin: AdminClient, topic: str) -> str:
    """The topic's id: a topic deleted and created again has another."""
    found = admin.describe_topics(TopicCollection([topic]), request_timeout=ADMIN_TIMEOUT_S)
    try:
        return str(found[topic].result().topic_id)
    except KafkaException as error:
        raise Unreachable(f"the topic {topic} cannot be described: {error.args[0].str()}") from None


def catch_up(
    cluster: KafkaCluster,
    changelog: str,
    changelog_id: str,
    processor: str,
    partition: int,
    state: LocalState,
    on_rows: Callable[[int], None],
) -> None:
    """Update a task's local copy from its changelog; from scratch if the copy is of another topic, or too old.

    Compaction drops tombstones after a day: a copy that missed them would keep rows that were deleted.
    """
    prefix = task_prefix(processor, partition)
    header = state.header(prefix)
    if header is None or header.changelog_id != changelog_id or time.time() - header.written_at_s > COPY_AGE_S_MAX:
        state.wipe(prefix)
        header = None
    position, progress = (header.position, header.progress) if header else (0, b"")
    try:
        for records in read_to_end(cluster, changelog, partition, position, reset="error" if header else "earliest"):
            changes: list[Change] = []
            for record in records:
                if record.key() == PROGRESS_KEY:
                    progress = record.value()
                else:
                    changes.append((prefix + record.key(), record.value()))
            position = records[-1].offset() + 1
            state.write([*changes, state.header_change(prefix, changelog_id, position, progress)])
            on_rows(len(records))
    except KafkaException:  # the copy is beyond the end of the log: it is not a copy of this log
        state.wipe(prefix)
        raise
