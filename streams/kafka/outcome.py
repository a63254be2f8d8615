"""The results of an application so far, in the form of an embedded run: for exports and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dustream.core.pipeline import ALARMS, STATUS, URL_RULES
from dustream.streams.engine.results import Outcome, write_results
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import read_all_to_end
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.records import DEAD_LETTERS
from dustream.streams.kafka.topics import partition_counts
from dustream.streams.store.base import Store


def collect(cluster: KafkaCluster, application: Application, store: Store) -> None:
    """Read the newest status of every URL, the rules of every site, the newest alarms, and the dead letters."""
    counts = partition_counts(cluster)
    names = {application.topic(name): name for name in (STATUS, URL_RULES, ALARMS, DEAD_LETTERS)}
    for topic in names:
        if topic not in counts:
            raise Unreachable(f"the topic {topic} does not exist: is {application.name!r} the name of the application?")
    logs = [(topic, partition) for topic in names for partition in range(counts[topic])]
    for records in read_all_to_end(cluster, logs):
        store.write((_view_key(names[record.topic()], record), record.value()) for record in records)


def _view_key(name: str, record: Any) -> bytes:
    """Dead letters with the same key do not replace each other: their key is their position."""
    key = record.key() if name != DEAD_LETTERS else b"%05d/%016d" % (record.partition(), record.offset())
    return view_prefix(name) + bytes(key)


def export(cluster: KafkaCluster, application: Application, store: Store, out: Path) -> Outcome:
    """Write the result files of an embedded run, from the application's public topics."""
    collect(cluster, application, store)
    return write_results(store, out)
