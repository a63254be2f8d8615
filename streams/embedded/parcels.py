"""Messages on their way between processes: those for one task together, in the order in which they were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from dustream.core.processor import Send
from dustream.core.topology import Topology, partition_of

_ENCODER = msgspec.msgpack.Encoder()


class Parcel(Struct, frozen=True, array_like=True):
    """Messages of a topic for one partition, or with one key if no processor reads the topic."""

    topic: str
    key: int | str
    messages: msgspec.Raw


class Parcels:
    """Collects messages until they are taken; opens parcels from elsewhere."""

    def __init__(self, topology: Topology) -> None:
        self._partitions = {spec.input: spec.partitions for spec in topology.processors}
        self._decoders = {topic.name: _decoder(topic.message) for topic in topology.topics}
        self._waiting: dict[tuple[str, int | str], list[Any]] = {}
        self.count = 0

    def add(self, send: Send) -> None:
        topic, key, message = send
        place = (topic, partition_of(key, self._partitions[topic]) if topic in self._partitions else key)
        if place in self._waiting:
            self._waiting[place].append(message)
        else:
            self._waiting[place] = [message]
        self.count += 1

    def take(self) -> list[Parcel]:
        waiting, self._waiting, self.count = self._waiting, {}, 0
        return [Parcel(topic, key, msgspec.Raw(_ENCODER.encode(some))) for (topic, key), some in waiting.items()]

    def opened(self, parcels: list[Parcel]) -> Iterator[tuple[str, int | str, list[Any]]]:
        """Topic, partition or key, and messages."""
        for parcel in parcels:
            yield parcel.topic, parcel.key, self._decoders[parcel.topic].decode(parcel.messages)


def _decoder(message: Any) -> msgspec.msgpack.Decoder[list[Any]]:
    return msgspec.msgpack.Decoder(list[message])
