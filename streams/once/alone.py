"""A processor by itself, on all its messages at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from dustream.core.pipeline import pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.topology import ProcessorSpec
from dustream.streams.engine.tables import TaskTables
from dustream.streams.store.memory import MemoryStore

BATCH_MESSAGES_MAX = 1_024


def spec_of(settings: Settings, name: str) -> ProcessorSpec:
    return next(spec for spec in pipeline(settings).processors if spec.name == name)


def run_to_rest(settings: Settings, name: str, messages: Iterable[Any]) -> Iterator[Send]:
    """All messages that a processor of the pipeline sends until it is at rest; those to itself are processed, too."""
    spec = spec_of(settings, name)
    processor = spec.make()
    tables, queue = TaskTables(MemoryStore(), spec, 0), deque(messages)
    processor.open(tables)
    while queue:
        sends = processor.process(tables, [queue.popleft() for _ in range(min(len(queue), BATCH_MESSAGES_MAX))])
        tables.accept()
        queue += [send.message for send in sends if send.topic == spec.input]
        yield from sends
