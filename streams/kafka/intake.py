"""Intake on Kafka: records of the crawl topic become signed crawls for `pages`. Stateless, but its position is state.

A record holds one event as JSON, from any Kafka client, or many in a pack as `dustream publish` writes them: a zstd
frame with a msgpack list of events. JSON never begins like a zstd frame, so the two need no flag.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from dustream.core.intake import Intake, take_in
from dustream.core.processor import Send, TaskState
from dustream.core.text.extractors import TextSource
from dustream.core.topology import Topology
from dustream.schemas import wire
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.embedded.signing import Chunk, SigningPool
from dustream.streams.kafka.application import CRAWL_PAGES
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.records import (
    DEAD_LETTERS,
    ORIGINAL_TOPIC_HEADER,
    InRecord,
    Letter,
    record_letter,
)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PACK_BYTES_MAX = 256 << 20  # unpacked; a frame that claims more is refused before it is unpacked
PARTITION_HEADER = "dustream-partition"

_JSON = msgspec.json.Decoder(CrawlEvent)
_EVENTS = msgspec.msgpack.Decoder(list[CrawlEvent])
_ENCODER = msgspec.msgpack.Encoder()


def pack(events: Sequence[CrawlEvent], compressor: zstandard.ZstdCompressor) -> bytes:
    """The value of a record with many events."""
    return compressor.compress(_ENCODER.encode(events))


def unpack(value: bytes) -> list[CrawlEvent]:
    """The events of a record; ValueError or msgspec.MsgspecError says why it cannot be read."""
    if not value.startswith(ZSTD_MAGIC):
        return [_JSON.decode(value)]
    size = zstandard.frame_content_size(value)
    if not 0 <= size <= PACK_BYTES_MAX:
        raise ValueError(f"a pack must tell its size, at most {PACK_BYTES_MAX} bytes")
    try:
        return _EVENTS.decode(zstandard.ZstdDecompressor().decompress(value))
    except zstandard.ZstdError as error:
        raise ValueError(f"the pack is damaged: {error}") from None


class Taken(NamedTuple):
    """Events to take in together, and for each the record it came in and its number there."""

    events: list[CrawlEvent]
    sources: list[InRecord]
    numbers: list[int]

    def origin(self, index: int) -> str:
        """Where an event stands in the crawl topic: partition, offset, number in the record."""
        record = self.sources[index]
        return f"k{record.partition}:{record.offset}:{self.numbers[index]}"


class IntakeProcessor:
    """A processor whose messages are the records themselves."""

    def __init__(self, topology: Topology, pages: str, source: TextSource, guard: CrashGuard, metrics: Metrics) -> None:
        self._topology = topology
        self._pages = pages
        self._source = source
        self._guard = guard
        self._metrics = metrics

    def open(self, state: TaskState) -> None:
        """Nothing is kept."""

    def process(self, state: TaskState, messages: Sequence[InRecord]) -> list[Send]:
        sends: list[Send] = []
        taken = Taken([], [], [])
        for record in messages:
            try:
                if ORIGINAL_TOPIC_HEADER in record.headers:
                    sends += self._redriven(record, taken)
                else:
                    _take(record, taken)
            except (msgspec.MsgspecError, ValueError) as error:
                sends.append(_dead(record_letter(record, CRAWL_PAGES, f"the record cannot be read: {error}")))
        return sends + self._signed(taken, messages)

    def _redriven(self, record: InRecord, taken: Taken) -> list[Send]:
        """What an operator sends again: to us, or through us to a later stage, whose links only tasks may use."""
        name = record.headers[ORIGINAL_TOPIC_HEADER].decode(errors="replace")
        if name == CRAWL_PAGES:
            _take(record, taken)
            return []
        reader = self._topology.reader(name)
        if reader is None:
            raise ValueError(f"no processor reads {name!r}")
        message = msgspec.msgpack.decode(record.value or b"", type=self._topology.topic(name).message)
        return [Send(name, int(record.headers[PARTITION_HEADER]), message)]

    def _signed(self, taken: Taken, messages: Sequence[InRecord]) -> list[Send]:
        if not taken.events:
            return []
        intake = self._take_in(taken.events, messages)
        self._metrics.add("pages_taken", len(intake.crawls))
        self._metrics.add("events_rejected", len(intake.rejected))
        for reason, count in intake.ignored.items():
            self._metrics.add("events_ignored", count, reason=reason)
        sends = [Send(self._pages, crawl.url, crawl) for crawl in intake.with_origins(taken.origin)]
        sends += [Send(self._pages, decision.url, decision) for decision in intake.decisions]
        for rejected in intake.rejected:
            event, source = taken.events[rejected.index], taken.sources[rejected.index]
            sends.append(_dead(_event_letter(event, source, rejected.reason)))
        return sends

    def _take_in(self, events: list[CrawlEvent], messages: Sequence[InRecord]) -> Intake:
        first, last = messages[0], messages[-1]
        if self._guard.suspects(first.partition, first.offset, last.offset):
            with SigningPool(1, self._source) as pool:
                return next(pool.sign(iter([Chunk(events, None)]))).intake
        with self._guard.watching(first.partition, first.offset, last.offset):
            return take_in(events, self._source)


def _take(record: InRecord, taken: Taken) -> None:
    events = unpack(record.value or b"")
    taken.events.extend(events)
    taken.sources.extend([record] * len(events))
    taken.numbers.extend(range(len(events)))


def _dead(letter: Letter) -> Send:
    return Send(DEAD_LETTERS, letter.letter.source, letter)


def _event_letter(event: CrawlEvent, record: InRecord, reason: str) -> Letter:
    letter = DeadLetter(
        source=f"{record.topic}-{record.partition}", position=record.offset, reason=reason, url=event.url
    )
    return Letter(letter, wire.encode(event), CRAWL_PAGES, record.key)


class CrashGuard:
    """Remembers across a crash which records were being parsed: a page that brings the whole process down would do so
    again after every restart. Those records are then parsed in a process of their own, which finds the page."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._suspect = self._read()

    def _read(self) -> tuple[int, int, int] | None:
        fields = os.pread(self._file, 100, 0).split()
        return (int(fields[0]), int(fields[1]), int(fields[2])) if len(fields) == 3 else None

    def suspects(self, partition: int, first: int, last: int) -> bool:
        """Whether records of this range were being parsed when the process ended."""
        if self._suspect is None or self._suspect[0] != partition:
            return False
        return first <= self._suspect[2] and last >= self._suspect[1]

    def watching(self, partition: int, first: int, last: int) -> _Watch:
        return _Watch(self._file, b"%d %d %d" % (partition, first, last))

    def close(self) -> None:
        os.close(self._file)


class _Watch:
    def __init__(self, file: int, text: bytes) -> None:
        self._file = file
        self._text = text

    def __enter__(self) -> None:
        os.pwrite(self._file, self._text.ljust(100), 0)

    def __exit__(self, *error: object) -> None:
        os.pwrite(self._file, b" " * 100, 0)
