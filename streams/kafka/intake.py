"""Intake on Kafka: records of the crawl topic become signed crawls for `pages`. Stateless, but its position is state.

A record is one event as JSON, from any Kafka client, or a pack of many as `dustream publish` writes them: a zstd frame
with a msgpack list of events. JSON never begins like a zstd frame, so no flag is needed.
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
from dustream.streams.engine.signing import Chunk, SigningPool
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
PACK_BYTES_MAX = 256 << 20  # unpacked; a frame that declares more is rejected before it is unpacked
PARTITION_HEADER = "dustream-partition"

_JSON = msgspec.json.Decoder(CrawlEvent)
_EVENTS = msgspec.msgpack.Decoder(list[CrawlEvent])
_ENCODER = msgspec.msgpack.Encoder()


def pack(events: Sequence[CrawlEvent], compressor: zstandard.ZstdCompressor) -> bytes:
    """The value of a record with many events."""
    return compressor.compress(_ENCODER.encode(events))


def unpack(value: bytes) -> list[CrawlEvent]:
    """The events of a record; raises ValueError or msgspec.MsgspecError if it cannot be read."""
    if not value.startswith(ZSTD_MAGIC):
        return [_JSON.decode(value)]
    size = zstandard.frame_content_size(value)
    if not 0 <= size <= PACK_BYTES_MAX:
        raise ValueError(f"a pack must declare its size, at most {PACK_BYTES_MAX} bytes")
    try:
        return _EVENTS.decode(zstandard.ZstdDecompressor().decompress(value))
    except zstandard.ZstdError as error:
        raise ValueError(f"the pack is damaged: {error}") from None


class Signed(NamedTuple):
    """A record after intake: its events and their results; or why it cannot be read."""

    events: list[CrawlEvent]
    intake: Intake | None
    problem: str = ""


class IntakeProcessor:
    """A processor whose messages are the records themselves. Records are independent of each other, so they can be
    signed ahead of their turn."""

    def __init__(self, topology: Topology, pages: str, source: TextSource, guard: CrashGuard, metrics: Metrics) -> None:
        self._topology = topology
        self._pages = pages
        self._source = source
        self._guard = guard
        self._metrics = metrics
        self._ahead: dict[int, Signed] = {}

    def open(self, state: TaskState) -> None:
        """Intake has no state."""

    def look_ahead(self, record: InRecord) -> None:
        """Sign a record ahead of its turn."""
        if record.offset not in self._ahead and self._is_ours(record):
            self._ahead[record.offset] = self._sign(record)

    def process(self, state: TaskState, messages: Sequence[InRecord]) -> list[Send]:
        sends: list[Send] = []
        for record in messages:
            if self._is_ours(record):
                sends += self._results(record, self._ahead.get(record.offset) or self._sign(record))
            else:
                sends.append(self._forwarded(record))
        self._ahead = {offset: signed for offset, signed in self._ahead.items() if offset > messages[-1].offset}
        return sends

    def _is_ours(self, record: InRecord) -> bool:
        """Whether a record has events, and is not a dead letter to be forwarded to a later stage."""
        return record.headers.get(ORIGINAL_TOPIC_HEADER, CRAWL_PAGES.encode()) == CRAWL_PAGES.encode()

    def _forwarded(self, record: InRecord) -> Send:
        """A dead letter that an operator sends again to a later stage; only tasks may write to its topic."""
        name = record.headers[ORIGINAL_TOPIC_HEADER].decode(errors="replace")
        try:
            if self._topology.reader(name) is None:
                raise ValueError(f"no processor reads {name!r}")
            message = msgspec.msgpack.decode(record.value or b"", type=self._topology.topic(name).message)
            return Send(name, int(record.headers[PARTITION_HEADER]), message)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            return _dead(record_letter(record, CRAWL_PAGES, f"the record cannot be read: {error}"))

    def _sign(self, record: InRecord) -> Signed:
        try:
            events = unpack(record.value or b"")
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return Signed([], None, f"the record cannot be read: {error}")
        return Signed(events, self._take_in(events, record))

    def _take_in(self, events: list[CrawlEvent], record: InRecord) -> Intake:
        if self._guard.suspects(record.partition, record.offset):
            with SigningPool(1, self._source) as pool:
                return next(pool.sign(iter([Chunk(events, None)]))).intake
        with self._guard.watching(record.partition, record.offset):
            return take_in(events, self._source)

    def _results(self, record: InRecord, signed: Signed) -> list[Send]:
        intake = signed.intake
        if intake is None:
            return [_dead(record_letter(record, CRAWL_PAGES, signed.problem))]
        self._metrics.add("pages_taken", len(intake.crawls))
        self._metrics.add("events_rejected", len(intake.rejected))
        for reason, count in intake.ignored.items():
            self._metrics.add("events_ignored", count, reason=reason)
        place = f"k{record.partition}:{record.offset}"  # with the number in the record: where `why` finds the text
        sends = [Send(self._pages, crawl.url, crawl) for crawl in intake.with_origins(lambda at: f"{place}:{at}")]
        sends += [Send(self._pages, decision.url, decision) for decision in intake.decisions]
        for rejected in intake.rejected:
            sends.append(_dead(_event_letter(signed.events[rejected.index], record, rejected.reason)))
        return sends


def _dead(letter: Letter) -> Send:
    return Send(DEAD_LETTERS, letter.letter.source, letter)


def _event_letter(event: CrawlEvent, record: InRecord, reason: str) -> Letter:
    letter = DeadLetter(
        source=f"{record.topic}-{record.partition}", position=record.offset, reason=reason, url=event.url
    )
    return Letter(letter, wire.encode(event), CRAWL_PAGES, record.key)


class CrashGuard:
    """Remembers across a crash which record was being parsed: a page that crashes the process would do so again after
    every restart. That record is then parsed in a separate process, which isolates the page."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._suspect = self._read()

    def _read(self) -> tuple[int, int] | None:
        fields = os.pread(self._file, 100, 0).split()
        return (int(fields[0]), int(fields[1])) if len(fields) == 2 else None

    def suspects(self, partition: int, offset: int) -> bool:
        """Whether this record was being parsed when the process ended."""
        return self._suspect == (partition, offset)

    def watching(self, partition: int, offset: int) -> _Watch:
        return _Watch(self._file, b"%d %d" % (partition, offset))

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
