"""Records as tasks read and write them.

A record between stages has what a transaction sends to one partition (msgpack): a batch from each sending task, with
the number of its link. A record has a fixed cost of a fraction of a millisecond at the receiver. Public topics have
one JSON message per record, with its key as text. A dead letter has the original bytes in its headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from dustream.core.processor import Send
from dustream.core.topology import Topology, partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.topics import RECORD_BYTES_MAX, public_partitions

DEAD_LETTERS = "dead.letters"
RECORD_BYTES = 128 << 10  # where records are split, unless one message alone is larger
ORIGINAL_HEADER = "dustream-original"
ORIGINAL_TOPIC_HEADER = "dustream-original-topic"
ORIGINAL_KEY_HEADER = "dustream-original-key"
ORIGINAL_SIZE_HEADER = "dustream-original-size"  # the full size of a truncated original
UNREADABLE_HEADER = "dustream-unreadable"  # of a batch that cannot be unpacked: its first offset, and the reason
EXCERPT_BYTES_MAX = 400
ORIGINAL_BYTES_MAX = RECORD_BYTES_MAX - (64 << 10)

_MSGPACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()


class InRecord(NamedTuple):
    """A record of an input log. The log has no other record between the offsets `since` and `offset`."""

    topic: str
    partition: int
    since: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


def unusable(record: InRecord) -> str:
    """Why a record cannot be read; empty if it has a value."""
    if (batch := record.headers.get(UNREADABLE_HEADER)) is not None:
        first, _, why = batch.decode("utf-8", "replace").partition(" ")
        return f"the records from {first} to {record.offset} are one batch that cannot be unpacked: {why}"
    if record.value is None:
        key = "no key" if record.key is None else f"the key {record.key[:EXCERPT_BYTES_MAX]!r}"
        return (
            f"a tombstone (a record without a value) with {key}: to say that a page is gone, publish it with status 404"
        )
    return ""


class OutRecord(NamedTuple):
    """A record to write."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class LinkBatch(Struct, frozen=True, array_like=True):
    """Messages of one link: the sender, the number of the batch on the link, and the encoded messages."""

    sender: str
    number: int
    messages: msgspec.Raw


_LINK_BATCHES = msgspec.msgpack.Decoder(list[LinkBatch])


def read_link_batches(value: bytes) -> list[LinkBatch]:
    """The batches of a record between stages; msgspec.MsgspecError if it was not written by a task."""
    return _LINK_BATCHES.decode(value)


class Letter(Struct, frozen=True):
    """A dead letter, the original bytes, and the topic (of the topology) they were meant for."""

    letter: DeadLetter
    original: bytes
    topic: str
    key: bytes | None = None


def record_letter(record: InRecord, topic: str, reason: str) -> Letter:
    """The dead letter of a record that cannot be read."""
    value = record.value or b""
    batch = record.headers.get(UNREADABLE_HEADER)
    key = None if record.value is not None or record.key is None else record.key.decode("utf-8", "backslashreplace")
    letter = DeadLetter(
        source=f"{record.topic}-{record.partition}",
        position=record.offset if batch is None else int(batch.split(b" ")[0]),
        reason=reason,
        url=key,
        excerpt=value[:EXCERPT_BYTES_MAX].decode("utf-8", "backslashreplace") or None,
    )
    return Letter(letter, value, topic, record.key)


def message_letter(record: InRecord, topic: str, message: Any, reason: str) -> Letter:
    """The dead letter of one message of a record that made its handler fail."""
    letter = DeadLetter(
        source=f"{record.topic}-{record.partition}",
        position=record.offset,
        reason=reason,
        url=getattr(message, "url", None),
        excerpt=repr(message)[:EXCERPT_BYTES_MAX],
    )
    return Letter(letter, _MSGPACK.encode(message), topic)


class Outbox:
    """Sorts a task's messages: batches to other tasks, numbered by link, and records for public topics."""

    def __init__(self, topology: Topology, application: Application, sender: str, sent: Mapping[str, int]) -> None:
        self._partitions_of = {spec.input: spec.partitions for spec in topology.processors}
        self._application = application
        self._sender = sender
        self._partitions = public_partitions(topology)
        self.sent = dict(sent)
        self._linked: dict[tuple[str, int], list[Any]] = {}
        self.public: list[OutRecord] = []

    def add(self, sends: Iterable[Send]) -> None:
        for send in sends:
            partitions = self._partitions_of.get(send.topic)
            if partitions is not None:
                partition = partition_of(send.key, partitions)
                self._linked.setdefault((send.topic, partition), []).append(send.message)
            else:
                self.public.append(self._public_record(send))

    def _public_record(self, send: Send) -> OutRecord:
        topic = self._application.topic(send.topic)
        partition = partition_of(send.key, self._partitions)
        key = str(send.key).encode()
        if isinstance(send.message, Letter):
            return OutRecord(topic, partition, key, _JSON.encode(send.message.letter), _letter_headers(send.message))
        return OutRecord(topic, partition, key, _JSON.encode(send.message))

    def link_batches(self) -> Iterator[tuple[tuple[str, int], LinkBatch]]:
        """All messages added for other tasks, by topic of the topology and partition; call it once."""
        for (topic, partition), messages in self._linked.items():
            link = f"{topic}-{partition}"
            for value in _cut(messages):
                number = self.sent.get(link, 0)
                self.sent[link] = number + 1
                yield (topic, partition), LinkBatch(self._sender, number, msgspec.Raw(value))


def pack_link_batches(batches: Iterable[LinkBatch]) -> Iterator[bytes]:
    """The values of records with these batches, in order, none larger than RECORD_BYTES unless one batch is."""
    together: list[LinkBatch] = []
    size = 0
    for batch in batches:
        if together and size + len(batch.messages) > RECORD_BYTES:
            yield _MSGPACK.encode(together)
            together, size = [], 0
        together.append(batch)
        size += len(batch.messages)
    if together:
        yield _MSGPACK.encode(together)


def _letter_headers(letter: Letter) -> tuple[tuple[str, bytes], ...]:
    """The headers with the original. One that is too large for a record is left out; the log still has it."""
    if len(letter.original) + len(letter.key or b"") > ORIGINAL_BYTES_MAX:
        return ()
    if not letter.original:
        return () if letter.key is None else ((ORIGINAL_KEY_HEADER, letter.key),)
    headers = [(ORIGINAL_HEADER, letter.original), (ORIGINAL_TOPIC_HEADER, letter.topic.encode())]
    if letter.key is not None:
        headers.append((ORIGINAL_KEY_HEADER, letter.key))
    return tuple(headers)


def _cut(messages: list[Any]) -> Iterator[bytes]:
    """Encoded lists of messages, none larger than RECORD_BYTES unless it has one message only."""
    value = _MSGPACK.encode(messages)
    if len(value) <= RECORD_BYTES or len(messages) == 1:
        yield value
        return
    half = len(messages) // 2
    yield from _cut(messages[:half])
    yield from _cut(messages[half:])
