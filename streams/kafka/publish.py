"""Publishes crawl events from files to the crawl topic, many to a record, and resumes after an interruption.

Publishing an event twice changes nothing: its page is seen again at the same version with the same content. So progress
is stored after the broker has confirmed the records, and an interruption repeats at most the unconfirmed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import zstandard
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from dustream.core.errors import UnreadableInput
from dustream.core.topology import partition_of
from dustream.schemas import wire
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.chunks import ChunkSpan, InputPlan, RejectedInput, plan_inputs, read_chunks
from dustream.streams.engine.rejections import Rejections
from dustream.streams.engine.signing import Chunk
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.changelog import topic_id
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.intake import pack
from dustream.streams.kafka.records import DEAD_LETTERS, ORIGINAL_HEADER, ORIGINAL_SIZE_HEADER
from dustream.streams.kafka.sending import Sender
from dustream.streams.kafka.topics import RECORD_BYTES_MAX, partition_counts
from dustream.streams.readers import expand_paths
from dustream.streams.store.rocks import RocksStore

PACK_EVENTS_MAX = 32
PACK_BYTES = 1 << 20  # before compression; web pages shrink to a fifth
CHUNKS_PER_SYNC = 32
COMPRESSION_LEVEL = 1
EVENT_BYTES_MAX = RECORD_BYTES_MAX - 2 * PACK_BYTES  # as sent; leaves room for the rest of its pack
NO_REGULAR_FILE = "not a regular file, skipped (name it to read it)"
ESCAPE_FACTOR = 6  # bytes that a character may take as JSON


class Published(Struct, frozen=True):
    """The result of a run of `dustream publish`."""

    events: int
    records: int
    rejected: int
    bytes_sent: int
    unread: list[str] = []
    """Files that could not be read at all."""


class PublishListener:
    """Follows a run of `publish_files`. This one ignores everything."""

    def plans(self, plans: list[InputPlan]) -> None:
        """The files, and where each is resumed."""

    def progress(self, place: ChunkSpan, events: int) -> None:
        """The broker has confirmed everything up to here."""

    def refused(self, path: str, error: UnreadableInput) -> None:
        """A file could not be read."""

    def notice(self, path: str, text: str) -> None:
        """Something about a file that the user should know."""


class Publisher:
    """Packs events by partition and sends them. `single`: one event per record, as JSON, like any other client."""

    def __init__(self, cluster: KafkaCluster, application: Application, *, single: bool = False) -> None:
        self._topic = application.topic(CRAWL_PAGES)
        self._dead_letters = application.topic(DEAD_LETTERS)
        counts = partition_counts(cluster)
        if self._topic not in counts or self._dead_letters not in counts:
            raise Unreachable(f"the topic {self._topic} does not exist: run `dustream topics create` first")
        admin = AdminClient(cluster.confluent())
        self.topic_id = topic_id(admin, self._topic)
        self._partitions = counts[self._topic]
        self._letter_partitions = counts[self._dead_letters]
        self._single = single
        self._sender = Sender(cluster, "publish again", linger_ms=20, compression_type="none")
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._packs: dict[int, list[CrawlEvent]] = {}
        self._sizes: dict[int, int] = {}
        self.events = self.records = self.rejected = self.bytes_sent = 0

    def publish(self, event: CrawlEvent) -> None:
        """Send an event; it is confirmed after the next `flush`."""
        self.events += 1
        partition = partition_of(event.url, self._partitions)
        if self._single:
            self._produce(self._topic, partition, event.url.encode(), wire.encode(event))
            return
        self._packs.setdefault(partition, []).append(event)
        self._sizes[partition] = self._sizes.get(partition, 0) + _event_bytes(event)
        if len(self._packs[partition]) >= PACK_EVENTS_MAX or self._sizes[partition] >= PACK_BYTES:
            self._send_pack(partition)

    def too_large(self, event: CrawlEvent) -> str:
        """Why an event does not fit in a record; empty if it does."""
        if _event_bytes(event) * ESCAPE_FACTOR <= EVENT_BYTES_MAX:
            return ""
        size = len(wire.encode(event) if self._single else pack([event], self._compressor))
        return f"an event of {size} bytes: the limit is {EVENT_BYTES_MAX}" if size > EVENT_BYTES_MAX else ""

    def reject(self, rejected: RejectedInput, *, send: bool = True) -> None:
        """Send a record that could not be read to the dead letters, as it was in its file. Without `send` it is only
        counted."""
        self.rejected += 1
        if send:
            self.send_letter(rejected)

    def send_letter(self, rejected: RejectedInput) -> None:
        """Send a dead letter."""
        letter, original = rejected.letter, rejected.original
        partition = partition_of(letter.source, self._letter_partitions)
        headers = [(ORIGINAL_HEADER, original)] if original else []
        if len(original) < rejected.original_size:
            headers.append((ORIGINAL_SIZE_HEADER, b"%d" % rejected.original_size))
        self._produce(self._dead_letters, partition, letter.source.encode(), wire.encode(letter), headers)

    def flush(self) -> None:
        """Return when the broker has confirmed everything."""
        for partition in list(self._packs):
            self._send_pack(partition)
        self._sender.flush()

    def _send_pack(self, partition: int) -> None:
        events = self._packs.pop(partition)
        self._sizes.pop(partition)
        self._produce(self._topic, partition, None, pack(events, self._compressor))

    def _produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._sender.send(topic, value, key, partition, headers)
        self.records += 1
        self.bytes_sent += len(value)


def publish_files(
    cluster: KafkaCluster,
    application: Application,
    inputs: list[str],
    state: Path,
    *,
    field_map: dict[str, str] | None = None,
    single: bool = False,
    listener: PublishListener | None = None,
) -> Published:
    """Publish files, resuming where an earlier run into the same topic with the same `state` was interrupted."""
    listener = listener or PublishListener()
    paths = expand_paths(inputs, lambda path: listener.notice(path, NO_REGULAR_FILE))
    publisher = Publisher(cluster, application, single=single)
    store = RocksStore(state / publisher.topic_id)  # a topic created again, or of another cluster, starts from nothing
    try:
        plans = plan_inputs(paths, store)
        listener.plans(plans)
        rejections = Rejections(store)
        chunks = read_chunks(plans, field_map or {}, listener.refused, listener.notice)
        for places in _confirmed(publisher, rejections, chunks):
            store.write(chain.from_iterable((place.change(), rejections.change(place.path)) for place in places))
            listener.progress(places[-1], publisher.events)
        unread = [plan.path for plan in plans if not plan.done and rejections.nothing_used(plan.path)]
    finally:
        store.close()
    return Published(publisher.events, publisher.records, publisher.rejected, publisher.bytes_sent, unread)


def _confirmed(
    publisher: Publisher, rejections: Rejections, chunks: Iterator[Chunk[ChunkSpan]]
) -> Iterator[list[ChunkSpan]]:
    """The spans of chunks whose records the broker has confirmed. The first rejected records of an input are sent one
    by one; the others are counted by reason at its end."""
    places: list[ChunkSpan] = []
    for chunk in chunks:
        path = chunk.place.path
        if chunk.events or chunk.place.skipped:
            rejections.use(path)
        for event, (position, offset) in zip(chunk.events, chunk.place.positions, strict=True):
            if reason := publisher.too_large(event):  # a retry would fail again
                publisher.reject(_without_bytes(event, chunk.place.path, position, offset, reason))
            else:
                publisher.publish(event)
        for rejected in chunk.place.rejections:
            publisher.reject(rejected, send=rejections.keep(path, rejected.letter.reason))
        if chunk.place.progress.done:
            for letter in rejections.summaries_of(path):
                publisher.send_letter(RejectedInput(letter))
        places.append(chunk.place)
        if len(places) >= CHUNKS_PER_SYNC:
            publisher.flush()
            yield places
            places = []
    if places:
        publisher.flush()
        yield places


def _without_bytes(event: CrawlEvent, path: str, position: int, offset: int, reason: str) -> RejectedInput:
    where = offset if offset >= 0 else None
    return RejectedInput(DeadLetter(source=path, position=position, offset=where, url=event.url, reason=reason))


def _event_bytes(event: CrawlEvent) -> int:
    return len(event.html or "") + len(event.body or b"") + len(event.text or "")
