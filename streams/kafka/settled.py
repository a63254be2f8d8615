"""Whether an application is at rest: everything published is reflected in the statuses."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from dustream.core.topology import Topology
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import any_record
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.progress import WORK_LEFT
from dustream.streams.kafka.topics import plan_topics

REQUEST_TIMEOUT_S = 5.0


def unsettled(cluster: KafkaCluster, application: Application, topology: Topology) -> dict[str, int]:
    """By topic, how many offsets tasks are behind the ends of their logs; empty if the application is at rest.

    A position is committed in the transaction that writes the results of the records before it. So if no task has a
    record after its position, and positions are read before ends, nothing is on its way between tasks either. The
    committed metadata tells whether a task has postponed work, which counts as one record.
    """
    try:
        return _unsettled(cluster, application, topology)
    except KafkaException as error:
        raise Unreachable(f"the cluster at {cluster.bootstrap} does not answer: {error.args[0].str()}") from None


def _unsettled(cluster: KafkaCluster, application: Application, topology: Topology) -> dict[str, int]:
    admin = AdminClient(cluster.confluent())
    inputs = [
        TopicPartition(application.topic(spec.input), partition)
        for spec in topology.processors
        for partition in range(spec.partitions)
    ]
    positions = _positions(cluster, application, inputs)
    logs = _logs(application, topology)
    ends = _ends(admin, logs, IsolationLevel.READ_UNCOMMITTED)
    behind: dict[str, int] = {}
    waiting: dict[str, int] = {}
    left: list[TopicPartition] = []
    for place in inputs:
        position, work_left = positions.get((place.topic, place.partition), (0, False))
        if work_left:
            waiting[place.topic] = waiting.get(place.topic, 0) + 1
        distance = ends[place.topic, place.partition] - position
        if distance > 0:
            behind[place.topic] = behind.get(place.topic, 0) + distance
            left.append(TopicPartition(place.topic, place.partition, position))
    if undecided := _undecided(admin, logs, ends):
        return undecided
    # the offsets in between may be transaction markers only; one record is enough to decide
    return behind if any_record(cluster, left) else waiting


def _logs(application: Application, topology: Topology) -> list[TopicPartition]:
    plans = plan_topics(topology, application).plans
    return [TopicPartition(plan.name, partition) for plan in plans for partition in range(plan.partitions)]


def _undecided(admin: AdminClient, logs: list[TopicPartition], ends: dict[tuple[str, int], int]) -> dict[str, int]:
    """By topic, how many offsets belong to transactions that have not ended in it. The broker marks one log after
    another: a transaction's positions may be committed before its records are."""
    committed = _ends(admin, logs, IsolationLevel.READ_COMMITTED)
    found: dict[str, int] = {}
    for place, end in ends.items():
        if committed[place] < end:
            found[place[0]] = found.get(place[0], 0) + end - committed[place]
    return found


def _positions(
    cluster: KafkaCluster, application: Application, places: list[TopicPartition]
) -> dict[tuple[str, int], tuple[int, bool]]:
    """The group's committed offsets, and whether tasks have postponed work, read by a consumer that does not join:
    librdkafka 2.16's admin call for this crashes while a coordinator is being elected."""
    consumer = Consumer(cluster.confluent(group_id=application.group, enable_auto_commit=False))
    try:
        committed = consumer.committed(places, timeout=REQUEST_TIMEOUT_S)
    finally:
        consumer.close()
    return {(place.topic, place.partition): (max(0, place.offset), place.metadata == WORK_LEFT) for place in committed}


def _ends(admin: AdminClient, places: list[TopicPartition], isolation: IsolationLevel) -> dict[tuple[str, int], int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked: dict[Any, Any] = dict.fromkeys(places, latest)
    found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)
    return {(place.topic, place.partition): result.result().offset for place, result in found.items()}
