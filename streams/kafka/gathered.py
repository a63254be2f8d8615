"""Copies the whole state of an application from its changelogs into a folder such as `dustream run` leaves, for
questions that read many rows. Each task's rows are those of one of its commits; the other tasks keep running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dustream.core.pipeline import pipeline
from dustream.core.topology import Topology
from dustream.streams.engine.state_rows import STATE_FORMAT, STATE_KEY, StateHeader
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import read_all_to_end
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.local_state import task_prefix
from dustream.streams.kafka.maps import read_settings_of
from dustream.streams.kafka.outcome import collect
from dustream.streams.kafka.progress import PROGRESS_KEY
from dustream.streams.store.base import Store
from dustream.streams.store.rocks import RocksStore


def gather_state(
    cluster: KafkaCluster, application: Application, folder: Path, on_rows: Callable[[int], object]
) -> None:
    """Fill an empty folder."""
    settings = read_settings_of(cluster, application)
    store = RocksStore(folder)
    try:
        header = StateHeader(STATE_FORMAT, settings.fingerprint(), settings)
        store.write([(STATE_KEY, msgspec.json.encode(header))])
        _gather(cluster, application, pipeline(settings), store, on_rows)
        collect(cluster, application, store)
    finally:
        store.close()


def _gather(
    cluster: KafkaCluster, application: Application, topology: Topology, store: Store, on_rows: Callable[[int], object]
) -> None:
    prefixes = {
        (application.changelog(spec.name), partition): task_prefix(spec.name, partition)
        for spec in topology.processors
        for partition in range(spec.partitions)
    }
    for records in read_all_to_end(cluster, list(prefixes)):
        rows = [
            (prefixes[record.topic(), record.partition()] + record.key(), record.value())
            for record in records
            if record.key() != PROGRESS_KEY
        ]
        store.write(rows)
        on_rows(len(rows))
