"""The topology as it runs on Kafka: the pipeline, with intake before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dustream.core.pipeline import GROUPS, PAGES, SITES, STATUS, pipeline
from dustream.core.processor import Processor
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import PartitionMap
from dustream.core.topology import ProcessorSpec, Topology
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.counted import PagesCounted, groups_counted, sites_counted
from dustream.streams.kafka.intake import CrashGuard, IntakeProcessor
from dustream.streams.kafka.maps import MAPS
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.records import DEAD_LETTERS
from dustream.streams.kafka.topics import partition_counts

INTAKE = "intake"


def _no_intake() -> Processor:
    raise RuntimeError("this topology is for planning only")


def planned_topology(
    settings: Settings, cluster: KafkaCluster, application: Application, partition_map: PartitionMap | None = None
) -> Topology:
    """The topology for planning. The crawl topic may belong to another system: it keeps its number of partitions."""
    pipe = pipeline(settings, partition_map)
    partitions = partition_counts(cluster).get(application.topic(CRAWL_PAGES), settings.partitions)
    intake = ProcessorSpec(INTAKE, CRAWL_PAGES, (PAGES, DEAD_LETTERS), (), partitions, _no_intake)
    return Topology((*pipe.topics, MAPS), (intake, *pipe.processors))


def with_input_partitions(topology: Topology, partitions: int) -> Topology:
    """The topology for a crawl topic with another number of partitions."""
    specs = (replace(spec, partitions=partitions) if spec.name == INTAKE else spec for spec in topology.processors)
    return Topology(topology.topics, tuple(specs))


def running_topology(planned: Topology, settings: Settings, data: Path, metrics: Metrics) -> Topology:
    """The topology with a working intake, and with metrics of statuses, groups and alarms."""
    guard = CrashGuard(data / "intake.guard")

    def make_intake() -> Processor:
        return IntakeProcessor(planned, PAGES, settings.text_source, guard, metrics)

    def running(spec: ProcessorSpec) -> ProcessorSpec:
        if spec.name == INTAKE:
            return replace(spec, make=make_intake)
        if STATUS in spec.outputs:
            return replace(spec, make=lambda: PagesCounted(spec.make(), metrics, settings.partitions))
        if spec.name == GROUPS:
            return replace(spec, make=lambda: groups_counted(spec.make(), metrics))
        return replace(spec, make=lambda: sites_counted(spec.make(), metrics)) if spec.name == SITES else spec

    return Topology(planned.topics, tuple(running(spec) for spec in planned.processors))
