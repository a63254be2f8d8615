"""A small client: publishes crawl events and reads their statuses.

with Client("127.0.0.1:9092") as client:
    client.publish({"url": "https://example.org/", "fetched_at": "2026-01-01T00:00:00Z", "html": "<p>…"})
for status in Client("127.0.0.1:9092").statuses():
    print(status.url, status.role, status.winner)

Keep the URLs for which `dustream.is_kept(status.role)` is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from dustream.core.events import event_of
from dustream.core.pipeline import STATUS
from dustream.core.topology import partition_of
from dustream.core.urls.identity import page_identity
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.kafka.application import DEFAULT_NAME, Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import read_cluster
from dustream.streams.kafka.publish import Publisher
from dustream.streams.kafka.rule_topic import RuleTopic
from dustream.streams.kafka.topics import partitions_of

FOLLOW_RECORDS = 500
FOLLOW_WAIT_S = 0.2


class Client:
    """A client of one application. Security settings come from the environment."""

    def __init__(self, bootstrap: str | None = None, name: str = DEFAULT_NAME, input_topic: str | None = None) -> None:
        self._cluster = read_cluster(bootstrap)
        self._application = Application(name, input_topic)
        self._publisher: Publisher | None = None
        self._decoder = msgspec.json.Decoder(DuplicateStatus)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.flush()

    def publish(self, event: CrawlEvent | dict[str, Any]) -> None:
        """Publish one event asynchronously; `flush`, or leaving the `with` block, waits until it has arrived."""
        event = event_of(event)
        if self._publisher is None:
            self._publisher = Publisher(self._cluster, self._application, single=True)
        self._publisher.publish(event)

    def flush(self) -> None:
        if self._publisher is not None:
            self._publisher.flush()

    def statuses(self, *, from_beginning: bool = True, follow: bool = False) -> Iterator[DuplicateStatus]:
        """Statuses in log order; a later one of a URL replaces an earlier one. Without `follow`, up to the current
        end."""
        topic = self._application.topic(STATUS)
        partitions = partitions_of(self._cluster, topic)
        if not follow:
            for partition in range(partitions):
                for records in read_to_end(self._cluster, topic, partition, 0, reset="earliest"):
                    for record in records:
                        yield self._decoder.decode(record.value())
            return
        yield from self._follow(topic, partitions, from_beginning)

    def status(self, url: str) -> DuplicateStatus | None:
        """The newest status of one URL: reads the whole partition that contains it."""
        identity = page_identity(url)
        return self.find([identity]).get(identity)

    def find(self, urls: Iterable[str]) -> dict[str, DuplicateStatus]:
        """The newest statuses of those URLs (as normalised by `page_identity`) that are known."""
        topic = self._application.topic(STATUS)
        partitions = partitions_of(self._cluster, topic)
        wanted = {url.encode(): partition_of(url, partitions) for url in urls}
        found: dict[bytes, bytes] = {}
        for partition in sorted(set(wanted.values())):
            for records in read_to_end(self._cluster, topic, partition, 0, reset="earliest"):
                found |= {record.key(): record.value() for record in records if record.key() in wanted}
        return {url.decode(): self._decoder.decode(value) for url, value in found.items()}

    def newest(self) -> dict[str, DuplicateStatus]:
        """The newest status of every URL."""
        return {status.url: status for status in self.statuses()}

    def rules(self) -> dict[str, RuleSet]:
        """The newest rules of every site that has any. `RuleBook.follow` applies them, and later ones."""
        with closing(RuleTopic(self._cluster, self._application)) as topic:
            found = {rules.site: rules for rules in topic.read()}
        return {site: rules for site, rules in sorted(found.items()) if rules.rules}

    def _follow(self, topic: str, partitions: int, from_beginning: bool) -> Iterator[DuplicateStatus]:
        settings = {"group.id": "dustream-watch", "enable.auto.commit": False, "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest"}  # fmt: skip
        consumer = Consumer(self._cluster.confluent() | settings)
        try:
            where = 0 if from_beginning else -1  # -1: the end, in Kafka's terms
            consumer.assign([TopicPartition(topic, partition, where) for partition in range(partitions)])
            while True:
                for record in consumer.consume(FOLLOW_RECORDS, FOLLOW_WAIT_S):
                    error = record.error()
                    if error is None:
                        yield self._decoder.decode(record.value() or b"")
                    elif error.fatal():
                        raise KafkaException(error)
        finally:
            consumer.close()
