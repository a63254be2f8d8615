"""The topology as data: topics, keys, processors and their tables, declared once and read by every engine.

crawl.pages ─► intake ─► pages ◄──► groups, sites    pages ─► duplicate.status, alarms
                          ▲ │
                          │ ▼
                         tier2 ◄──► tier2 (probes between partitions), containment
                          pages ─► cluster.updates ─► rules ─► url.rules
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dustream.core.errors import BadSetting
from dustream.core.processor import Processor

Key = Literal["url", "site", "group", "partition", "source", "map"]


@dataclass(frozen=True)
class Topic:
    """A log. `compacted`: only the newest message of a key counts. `public`: JSON for users, else internal msgpack."""

    name: str
    key: Key
    message: Any
    public: bool = False
    compacted: bool = False
    kept: bool = True
    """Whether an engine without a broker stores the topic although no processor reads it."""


@dataclass(frozen=True)
class TableSpec:
    """Rows of one type, owned by the tasks of one processor."""

    name: str
    row: Any


@dataclass(frozen=True)
class ProcessorSpec:
    """A processor, its input topic, and the tables and topics that it writes."""

    name: str
    input: str
    outputs: tuple[str, ...]
    tables: tuple[TableSpec, ...]
    partitions: int
    make: Callable[[], Processor]


@dataclass(frozen=True)
class Topology:
    """The complete description from which an engine is built."""

    topics: tuple[Topic, ...]
    processors: tuple[ProcessorSpec, ...]

    def __post_init__(self) -> None:
        names = {topic.name for topic in self.topics}
        used = {name for spec in self.processors for name in (spec.input, *spec.outputs)}
        if missing := sorted(used - names):
            raise BadSetting(f"the topology uses topics that it does not declare: {', '.join(missing)}")
        if any(spec.partitions < 1 for spec in self.processors):
            raise BadSetting("every processor needs at least one partition")

    def topic(self, name: str) -> Topic:
        return next(topic for topic in self.topics if topic.name == name)

    def processor(self, name: str) -> ProcessorSpec:
        return next(spec for spec in self.processors if spec.name == name)

    def reader(self, topic: str) -> ProcessorSpec | None:
        """The processor that has this topic as its input log."""
        return next((spec for spec in self.processors if spec.input == topic), None)

    def describe(self) -> str:
        """The topology as text."""
        lines = ["topics"]
        for topic in self.topics:
            kind = ("public JSON" if topic.public else "internal") + (", compacted" if topic.compacted else "")
            lines.append(f"  {topic.name:<18} by {topic.key:<10} {kind}")
        lines.append("processors")
        for spec in self.processors:
            lines.append(f"  {spec.name:<10} {spec.input} -> {', '.join(spec.outputs)}  [{spec.partitions} partitions]")
            lines += [f"    table {table.name:<16} {_row_name(table.row)}" for table in spec.tables]
        return "\n".join(lines)


def partition_of(key: str | int, partitions: int) -> int:
    """The partition of a key: a number is the partition itself, text is hashed by CRC-32."""
    if isinstance(key, str):
        return zlib.crc32(key.encode()) % partitions
    if not 0 <= key < partitions:
        raise BadSetting(f"partition {key} does not exist: there are {partitions} partitions, numbered from 0")
    return key


def _row_name(row: Any) -> str:
    return getattr(row, "__name__", str(row))
