"""What an application has found so far, in the form in which an embedded run leaves it: for exports and comparisons."""

from __future__ import annotations

from pathlib import Path

from dustream.core.pipeline import ALARMS, STATUS, URL_RULES
from dustream.streams.embedded.engine import view_prefix
from dustream.streams.embedded.results import Outcome, write_results
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import Cluster, Unreachable
from dustream.streams.kafka.records import DEAD_LETTERS
from dustream.streams.kafka.topics import partition_counts
from dustream.streams.store.base import Store


def collect(cluster: Cluster, application: Application, store: Store) -> None:
    """Read the newest status of every URL, the rules of every site, the newest alarms, and the dead letters."""
    counts = partition_counts(cluster)
    for name in (STATUS, URL_RULES, ALARMS, DEAD_LETTERS):
        topic, prefix, number = application.topic(name), view_prefix(name), 0
        if topic not in counts:
            raise Unreachable(f"the topic {topic} does not exist: is {application.name!r} the name of the application?")
        for partition in range(counts[topic]):
            for records in read_to_end(cluster, topic, partition, 0, reset="earliest"):
                keys = [
                    record.key() if name != DEAD_LETTERS else b"%016d" % (number + at)
                    for at, record in enumerate(records)
                ]
                number += len(records)
                store.write((prefix + key, record.value()) for key, record in zip(keys, records, strict=True))


def export(cluster: Cluster, application: Application, store: Store, out: Path) -> Outcome:
    """Write the files of an embedded run, from what the application has told the world."""
    collect(cluster, application, store)
    return write_results(store, out)
