"""Follows a public topic: reads the records written since the last call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from confluent_kafka import KafkaError, TopicPartition

from dustream.streams.kafka.changelog import READ_RECORDS, READ_WAIT_S, SILENCE_S_MAX, reader
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.topics import partitions_of


class FollowedTopic:
    """Reads the values of a topic's records, oldest first in each partition."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._topic = topic
        partitions = range(partitions_of(cluster, topic))
        places = [TopicPartition(topic, partition, 0) for partition in partitions]
        self._unread = set(partitions)
        self._open = ExitStack()
        self._consumer = self._open.enter_context(reader(cluster, places, "earliest"))

    def values(self) -> Iterator[bytes]:
        """On the first call everything up to the end of the topic, then what has arrived since."""
        answered_at_s = time.monotonic()
        while True:
            messages = self._consumer.consume(READ_RECORDS, READ_WAIT_S if self._unread else 0.0)
            for message in messages:
                error, value = message.error(), message.value()
                if error is None and value is not None:
                    yield value
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
