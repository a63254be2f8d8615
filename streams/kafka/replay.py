"""Replay: reads a historical log into a new application, with its own topics and state, possibly with other settings.

The outcome depends only on the times and order of the events, so two replays of one log are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct

from dustream.core.errors import BadEvent, BadSetting, StateMismatch
from dustream.core.events import parse_time_ms
from dustream.core.settings import Settings
from dustream.core.topology import Topology
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.maps import create_application
from dustream.streams.kafka.sending import NOW, Sender
from dustream.streams.kafka.topics import ADMIN_TIMEOUT_S, delete_topics, partition_counts, plan_topics

TIMESTAMP_SET = 1


class Stretch(Struct, frozen=True):
    """A part of one partition of a log: offsets from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


def parse_offsets(texts: list[str]) -> dict[int, tuple[int, int | None]]:
    """Offsets as users write them: PARTITION:FROM-TO, either side open."""
    found: dict[int, tuple[int, int | None]] = {}
    for text in texts:
        partition, colon, rest = text.partition(":")
        start, dash, end = rest.partition("-")
        if not (colon and dash and partition.isdecimal() and (start + "0").isdecimal() and (end + "0").isdecimal()):
            raise BadSetting(f"--offsets {text} cannot be read: write PARTITION:FROM-TO, as in 0:100-2000 or 0:100-")
        found[int(partition)] = (int(start or 0), int(end) if end else None)
    return found


def parse_moment(option: str, text: str | None) -> int | None:
    """An option's time in milliseconds."""
    if text is None:
        return None
    try:
        return parse_time_ms(text)
    except BadEvent:
        raise BadSetting(f"{option} {text} is not a time: write 2026-01-31, or 2026-01-31T12:00:00Z") from None


def plan_stretches(
    cluster: KafkaCluster, topic: str, since: int | None, until: int | None, offsets: dict[int, tuple[int, int | None]]
) -> list[Stretch]:
    """The part of a topic to replay. Times are those at which its records were written, in milliseconds."""
    counts = partition_counts(cluster)
    if topic not in counts:
        raise BadSetting(f"there is no topic {topic} to replay: choose with --name or --input-topic")
    if unknown := sorted(set(offsets) - set(range(counts[topic]))):
        raise BadSetting(f"{topic} has no partition {unknown[0]}: they are numbered 0 to {counts[topic] - 1}")
    consumer = Consumer(cluster.confluent(group_id="dustream-replay", enable_auto_commit=False))
    try:
        return [
            _stretch(consumer, TopicPartition(topic, partition), since, until, offsets.get(partition))
            for partition in range(counts[topic])
            if not offsets or partition in offsets
        ]
    except KafkaException as error:
        raise Unreachable(f"{topic} does not answer: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _stretch(
    consumer: Consumer,
    place: TopicPartition,
    since: int | None,
    until: int | None,
    offsets: tuple[int, int | None] | None,
) -> Stretch:
    low, high = consumer.get_watermark_offsets(place, timeout=ADMIN_TIMEOUT_S)
    start = low if since is None else _offset_at(consumer, place, since, high)
    end = high if until is None else _offset_at(consumer, place, until, high)
    if offsets is not None:
        start = max(start, offsets[0])
        end = end if offsets[1] is None else min(end, offsets[1])
    return Stretch(place.partition, start, max(start, end))


def _offset_at(consumer: Consumer, place: TopicPartition, time_ms: int, high: int) -> int:
    asked = TopicPartition(place.topic, place.partition, time_ms)
    [found] = consumer.offsets_for_times([asked], timeout=ADMIN_TIMEOUT_S)
    return high if found.offset < 0 else int(found.offset)


def prepare(
    cluster: KafkaCluster,
    application: Application,
    topology: Topology,
    settings: Settings,
    partition_map: bytes | None = None,
    *,
    fresh: bool,
) -> None:
    """Create the application's topics. `fresh`: delete those of an earlier replay first."""
    there = set(partition_counts(cluster))
    known = [plan.name for plan in plan_topics(topology, application).plans if plan.name in there]
    if known and not fresh:
        raise StateMismatch(
            f"the application {application.name} exists already: choose another name for --into, or give --fresh to "
            f"throw away its {len(known)} topics"
        )
    if known:
        delete_topics(cluster, known)
    create_application(cluster, application, topology, settings, partition_map)


def copy_log(
    cluster: KafkaCluster,
    source: str,
    stretches: list[Stretch],
    application: Application,
    on_records: Callable[[int], None] = lambda offsets: None,
) -> int:
    """Copy records unchanged, each to the same partition; returns their number. Calls `on_records` for every list."""
    sender = Sender(cluster, "replay again with --fresh", linger_ms=20)
    target, copied = application.topic(CRAWL_PAGES), 0
    for stretch in stretches:
        for records in _records_of(cluster, source, stretch):
            for record in records:
                _send(sender, target, record)
            copied += len(records)
            on_records(len(records))
    sender.flush()
    return copied


def _records_of(cluster: KafkaCluster, source: str, stretch: Stretch) -> Iterator[list[Any]]:
    if stretch.start >= stretch.end:
        return
    for records in read_to_end(cluster, source, stretch.partition, stretch.start, reset="earliest"):
        yield [record for record in records if record.offset() < stretch.end]
        if records[-1].offset() >= stretch.end - 1:
            return


def _send(sender: Sender, target: str, record: Any) -> None:
    kind, time_ms = record.timestamp()
    when = time_ms if kind == TIMESTAMP_SET else NOW
    sender.send(target, record.value(), record.key(), record.partition(), record.headers() or (), when)
