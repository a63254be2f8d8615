"""Follows the rules topic: reads the rule sets written since the last call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from confluent_kafka import KafkaError, TopicPartition

from dustream.core.pipeline import URL_RULES
from dustream.schemas import wire
from dustream.schemas.rules import RuleSet
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import READ_RECORDS, READ_WAIT_S, SILENCE_S_MAX, reader
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.topics import partitions_of


class RuleTopic:
    """Reads the rule sets of an application, oldest first; a later one of a site replaces an earlier one."""

    def __init__(self, cluster: KafkaCluster, application: Application) -> None:
        self._topic = application.topic(URL_RULES)
        partitions = range(partitions_of(cluster, self._topic))
        places = [TopicPartition(self._topic, partition, 0) for partition in partitions]
        self._unread = set(partitions)
        self._open = ExitStack()
        self._consumer = self._open.enter_context(reader(cluster, places, "earliest"))

    def read(self) -> Iterator[RuleSet]:
        """On the first call everything up to the end of the topic, then what has arrived since."""
        answered_at_s = time.monotonic()
        while True:
            messages = self._consumer.consume(READ_RECORDS, READ_WAIT_S if self._unread else 0.0)
            for message in messages:
                error, value = message.error(), message.value()
                if error is None and value is not None:
                    yield wire.decode(RuleSet, value)
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    self._unread.discard(message.partition())
            if messages:
                answered_at_s = time.monotonic()
            elif not self._unread:
                return
            elif time.monotonic() - answered_at_s > SILENCE_S_MAX:
                raise Unreachable(f"{self._topic} does not answer: is the broker up?")

    def close(self) -> None:
        self._open.close()
