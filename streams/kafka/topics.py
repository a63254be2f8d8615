"""The topics of an application: those that the topology needs, those that exist, and how to create the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from msgspec import Struct

from dustream.core.errors import StateMismatch
from dustream.core.topology import Topic, Topology
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable, nobody_listens, unreachable

ADMIN_TIMEOUT_S: Final = 30.0
METADATA_POLL_S: Final = 0.1
RECORD_BYTES_MAX: Final = 32 << 20  # a page's signature may be this large; everything else is split smaller
LINK_RETENTION_DAYS: Final = 7  # how long workers may be down without losing messages between them
LOG_RETENTION_DAYS: Final = 30
TOMBSTONE_RETENTION_H: Final = 24  # a local copy of the state older than half of this is rebuilt
CHANGELOG_SEGMENT_BYTES: Final = 64 << 20  # only closed segments are compacted: small ones keep recovery short
_DAY_MS: Final = 86_400_000


class TopicPlan(Struct, frozen=True):
    """A topic as it should exist."""

    name: str
    partitions: int
    config: dict[str, str]
    purpose: str


class TopicFinding(Struct, frozen=True):
    """A planned topic and how the existing one differs; `problem` is empty if it does not."""

    plan: TopicPlan
    partitions: int | None
    problem: str = ""


@dataclass(frozen=True)
class TopicPlans:
    """All topics of an application."""

    plans: tuple[TopicPlan, ...]

    def describe(self) -> str:
        width = max(len(plan.name) for plan in self.plans)
        lines = []
        for plan in self.plans:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(plan.config.items()))
            lines.append(f"{plan.name:<{width}}  {plan.partitions:>4} partitions  {plan.purpose}\n  {settings}")
        return "\n".join(lines)


def plan_topics(topology: Topology, application: Application) -> TopicPlans:
    """A topic for each of the topology's, and a changelog for each processor."""
    partitions = public_partitions(topology)
    plans = []
    for topic in topology.topics:
        reader = topology.reader(topic.name)
        count = reader.partitions if reader else partitions
        purpose = "public, JSON" if topic.public else "between stages"
        plans.append(TopicPlan(application.topic(topic.name), count, _config(topic), f"{purpose}, by {topic.key}"))
    for spec in topology.processors:
        plans.append(
            TopicPlan(application.changelog(spec.name), spec.partitions, _changelog_config(), f"state of {spec.name}")
        )
    return TopicPlans(tuple(plans))


def public_partitions(topology: Topology) -> int:
    """The partitions of public topics: as many as the stages between them have; the crawl topic may differ."""
    linked = [spec.partitions for spec in topology.processors if not topology.topic(spec.input).public]
    return max(linked or [spec.partitions for spec in topology.processors])


def _config(topic: Topic) -> dict[str, str]:
    # Workers read with aiokafka, which unpacks gzip but not lz4, snappy or zstd: so the broker decompresses.
    config = {"max.message.bytes": str(RECORD_BYTES_MAX), "compression.type": "uncompressed"}
    if topic.compacted:
        return config | {"cleanup.policy": "compact"}
    if topic.name == CRAWL_PAGES:
        return config | {"retention.ms": "-1"}  # the historical log that replays read
    days = LOG_RETENTION_DAYS if topic.public else LINK_RETENTION_DAYS
    return config | {"retention.ms": str(days * _DAY_MS)}


def _changelog_config() -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(TOMBSTONE_RETENTION_H * 3_600_000),
        "segment.bytes": str(CHANGELOG_SEGMENT_BYTES),
        "max.message.bytes": str(RECORD_BYTES_MAX),
        "compression.type": "uncompressed",
    }


def partition_counts(cluster: KafkaCluster) -> dict[str, int]:
    """The topics of the cluster and how many partitions each has."""
    if nobody_listens(cluster):
        raise unreachable(cluster, "connection refused")
    try:
        metadata = AdminClient(cluster.confluent()).list_topics(timeout=ADMIN_TIMEOUT_S)
    except KafkaException as error:
        raise Unreachable(f"no Kafka broker answers at {cluster.bootstrap}: {error.args[0].str()}") from None
    return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}


def partitions_of(cluster: KafkaCluster, topic: str) -> int:
    """The partitions of a topic; Unreachable if it does not exist."""
    counts = partition_counts(cluster)
    if topic not in counts:
        raise Unreachable(f"the topic {topic} does not exist: run `dustream topics create` first")
    return counts[topic]


def create_topics(cluster: KafkaCluster, plans: TopicPlans, replication: int = -1) -> list[str]:
    """Create missing topics and check the others; returns the names created. Replication -1: the cluster's default."""
    there = partition_counts(cluster)
    missing = [plan for plan in plans.plans if plan.name not in there]
    if missing:
        new = [NewTopic(plan.name, plan.partitions, replication, config=plan.config) for plan in missing]
        admin = AdminClient(cluster.confluent())  # must live as long as its futures
        for name, done in admin.create_topics(new, operation_timeout=ADMIN_TIMEOUT_S).items():
            _await_creation(name, done)
        _await_metadata(cluster, lambda there: all(plan.name in there for plan in missing))
    require_topics(cluster, plans)
    return [plan.name for plan in missing]


def _await_metadata(cluster: KafkaCluster, condition: Callable[[dict[str, int]], bool]) -> None:
    """Wait for all brokers: one confirms a change before the others know it."""
    deadline_s = time.monotonic() + ADMIN_TIMEOUT_S
    while not condition(partition_counts(cluster)):
        if time.monotonic() > deadline_s:
            raise Unreachable("the brokers do not agree about the topics: look at them, and try again")
        time.sleep(METADATA_POLL_S)


def _await_creation(name: str, done: Any) -> None:
    try:
        done.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise StateMismatch(f"the topic {name} could not be created: {error.args[0].str()}") from None


def check_topics(cluster: KafkaCluster, plans: TopicPlans) -> list[TopicFinding]:
    """Compare every plan with the existing topic."""
    there = partition_counts(cluster)
    return [_find(plan, there.get(plan.name)) for plan in plans.plans]


def _find(plan: TopicPlan, partitions: int | None) -> TopicFinding:
    if partitions is None:
        return TopicFinding(plan, None, f"{plan.name} does not exist")
    if partitions != plan.partitions:
        return TopicFinding(
            plan,
            partitions,
            f"{plan.name} has {partitions} partitions, {_instead(plan, partitions)}",
        )
    return TopicFinding(plan, partitions)


def _instead(plan: TopicPlan, partitions: int) -> str:
    return (
        f"the settings ask for {plan.partitions}: run with --partitions {partitions}, or use a fresh application "
        "(--name) and replay into it"
    )


def require_topics(cluster: KafkaCluster, plans: TopicPlans) -> None:
    """Raise StateMismatch unless all topics are as planned."""
    findings = check_topics(cluster, plans)
    if problems := describe_problems(findings):
        raise StateMismatch(f"the topics do not fit:\n{problems}")


def describe_problems(findings: list[TopicFinding]) -> str:
    """A line for every kind of problem, with advice; empty if there is none."""
    missing = [finding.plan.name for finding in findings if finding.partitions is None]
    kinds: dict[str, list[str]] = {}
    for finding in findings:
        if finding.problem and finding.partitions is not None:
            advice = f"{finding.partitions} partitions, {_instead(finding.plan, finding.partitions)}"
            kinds.setdefault(advice, []).append(finding.plan.name)
    lines = [f"  {', '.join(names)}: {advice}" for advice, names in kinds.items()]
    if missing:
        lines.append(f"  missing, run `dustream topics create`: {', '.join(missing)}")
    return "\n".join(lines)


def delete_topics(cluster: KafkaCluster, names: Iterable[str]) -> None:
    """Delete topics."""
    gone = set(names)
    admin = AdminClient(cluster.confluent())
    for done in admin.delete_topics(list(gone), operation_timeout=ADMIN_TIMEOUT_S).values():
        done.result()
    _await_metadata(cluster, lambda there: not gone & there.keys())
