"""The data that an application was created with, on its compacted maps topic: the partition map, the same for every
worker, and the settings; beside them, which dead letters were sent again (dead.py).

The map is fixed when the application is created, because it determines where pages are stored. Another map needs
another application, filled by a replay.
"""

from __future__ import annotations

import msgspec

from dustream.core.errors import StateMismatch
from dustream.core.settings import Settings, differing, parse_settings
from dustream.core.tier2.partition_map import PartitionMap, map_to_bytes
from dustream.core.topology import Topic, Topology, partition_of
from dustream.streams.engine.states import fitting_map
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.sending import Sender
from dustream.streams.kafka.topics import (
    TopicPlans,
    create_topics,
    partition_counts,
    plan_topics,
)

MAPS = Topic("maps", "map", None, public=True, compacted=True)
MAP_KEY = "partition-map"
SETTINGS_KEY = "settings"


def create_application(
    cluster: KafkaCluster,
    application: Application,
    topology: Topology,
    settings: Settings,
    wanted: bytes | None = None,
    replication: int = -1,
) -> list[str]:
    """Create the missing topics and publish the map; returns the names created. The map comes first: when all topics
    exist, so does the map. `wanted`: a map as `dustream partitions --out` writes it, else the default one. Raises
    StateMismatch if the application was created with other settings, or another map."""
    cells = map_to_bytes(fitting_map(wanted, settings))  # an unusable map is rejected before anything is created
    plans = plan_topics(topology, application)
    maps = TopicPlans(tuple(plan for plan in plans.plans if plan.name == application.topic(MAPS.name)))
    created = create_topics(cluster, maps, replication)
    require_settings(cluster, application, settings)
    known = _stored(cluster, application, MAP_KEY)
    if known is None:
        _publish(cluster, application, SETTINGS_KEY, msgspec.json.encode(settings))
        _publish(cluster, application, MAP_KEY, cells)
    elif wanted is not None and wanted != known:
        raise StateMismatch(
            f"the application {application.name} has another partition map: choose another --name, and replay into it"
        )
    return created + create_topics(cluster, plans, replication)


def read_map(cluster: KafkaCluster, application: Application, settings: Settings) -> PartitionMap:
    """The map of an application; it must fit the settings."""
    stored = _stored(cluster, application, MAP_KEY)
    if stored is None:
        raise StateMismatch(f"the application {application.name} has no partition map: run `dustream topics create`")
    return fitting_map(stored, settings)


def require_settings(cluster: KafkaCluster, application: Application, settings: Settings) -> None:
    """Raise StateMismatch, with the differences, unless the application was created with these settings."""
    stored = _stored(cluster, application, SETTINGS_KEY)
    different = differing(msgspec.json.decode(stored), settings) if stored is not None else []
    if different:
        raise StateMismatch(
            f"the application {application.name} was made with other settings ({', '.join(different)}): use the same, "
            "or another --name, and replay into it"
        )


def read_settings_of(cluster: KafkaCluster, application: Application) -> Settings:
    """The settings that an application was created with."""
    stored = _stored(cluster, application, SETTINGS_KEY)
    if stored is None:
        raise StateMismatch(f"there is no application {application.name} at {cluster.bootstrap}: is --name right?")
    return parse_settings(msgspec.json.decode(stored))


def _stored(cluster: KafkaCluster, application: Application, key: str) -> bytes | None:
    topic = application.topic(MAPS.name)
    partitions = partition_counts(cluster).get(topic)
    if partitions is None:
        return None
    found = None
    for records in read_to_end(cluster, topic, partition_of(key, partitions), 0, reset="earliest"):
        for record in records:
            if record.key() == key.encode():
                found = record.value()
    return found


def _publish(cluster: KafkaCluster, application: Application, key: str, value: bytes) -> None:
    topic = application.topic(MAPS.name)
    sender = Sender(cluster, "run `dustream topics create` again")
    sender.send(topic, value, key.encode(), partition_of(key, partition_counts(cluster)[topic]))
    sender.flush()
