"""Dead letters: records that could not be used, and sending them again once the cause is removed.

A letter for a later stage is sent again through the crawl topic: intake forwards it, so that it is counted and numbered
like every message, and arrives exactly once.

Which letters were sent again is stored on the application's compacted maps topic, by partition and offset: the letters
themselves are a public log, where readers expect only letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from dustream.core.errors import BadSetting
from dustream.core.topology import partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.intake import PARTITION_HEADER
from dustream.streams.kafka.maps import MAPS
from dustream.streams.kafka.records import (
    DEAD_LETTERS,
    ORIGINAL_HEADER,
    ORIGINAL_KEY_HEADER,
    ORIGINAL_SIZE_HEADER,
    ORIGINAL_TOPIC_HEADER,
)
from dustream.streams.kafka.sending import Sender
from dustream.streams.kafka.topics import partition_counts

REDRIVEN = "redriven/"  # prefix of a letter's key on the maps topic; partition and offset follow


class FoundLetter(Struct, frozen=True):
    """A dead letter with its position. `original` is None if the bytes are only in their file. If `original_size` is
    larger than it, `original` is only their beginning."""

    partition: int
    offset: int
    letter: DeadLetter
    topic: str | None
    key: bytes | None
    original: bytes | None
    original_size: int
    redriven: bool = False

    @property
    def place(self) -> str:
        """The notation for users: partition:offset."""
        return f"{self.partition}:{self.offset}"


def read_letters(cluster: KafkaCluster, application: Application) -> Iterator[FoundLetter]:
    """All dead letters of an application, by partition and offset."""
    name = application.topic(DEAD_LETTERS)
    decoder = msgspec.json.Decoder(DeadLetter)
    counts = partition_counts(cluster)
    if name not in counts:
        raise Unreachable(f"the topic {name} does not exist: run `dustream topics create` first")
    redriven = _read_redriven(cluster, application, counts)
    for partition in range(counts[name]):
        for records in read_to_end(cluster, name, partition, 0, reset="earliest"):
            for record in records:
                headers = dict(record.headers() or ())
                topic = headers.get(ORIGINAL_TOPIC_HEADER)
                yield FoundLetter(
                    partition,
                    record.offset(),
                    decoder.decode(record.value()),
                    None if topic is None else topic.decode(),
                    headers.get(ORIGINAL_KEY_HEADER),
                    original := headers.get(ORIGINAL_HEADER),
                    int(headers.get(ORIGINAL_SIZE_HEADER, len(original or b""))),
                    (partition, record.offset()) in redriven,
                )


def choose(letters: Iterable[FoundLetter], places: list[str], reason: str | None) -> list[FoundLetter]:
    """The letters at these positions (all, if none is named) whose reason contains a text."""
    known = list(letters)
    if missing := sorted(set(places) - {letter.place for letter in known}):
        raise BadSetting(f"no dead letter at {', '.join(missing)}: see `dustream dead list`")
    return [
        letter
        for letter in known
        if (not places or letter.place in places) and (reason is None or reason in letter.letter.reason)
    ]


def redrive(cluster: KafkaCluster, application: Application, letters: Iterable[FoundLetter]) -> int:
    """Send letters again, and return how many could be sent. They stay in the log of dead letters, but are marked as
    sent once they have arrived."""
    sender = Sender(cluster, "see `dustream dead list` for what arrived, and try again")
    topic = application.topic(CRAWL_PAGES)
    sent: list[FoundLetter] = []
    for letter in letters:
        if letter.original is None or letter.topic is None:
            continue
        source_partition = letter.letter.source.rpartition("-")[2]
        headers = [
            (ORIGINAL_TOPIC_HEADER, letter.topic.encode()),
            (PARTITION_HEADER, source_partition.encode()),
        ]
        sender.send(topic, letter.original, letter.key, headers=headers)
        sent.append(letter)
    sender.flush()
    maps = application.topic(MAPS.name)
    partition = partition_of(REDRIVEN, partition_counts(cluster)[maps])
    for letter in sent:
        sender.send(maps, b"{}", f"{REDRIVEN}{letter.place}".encode(), partition)
    sender.flush()
    return len(sent)


def _read_redriven(cluster: KafkaCluster, application: Application, counts: dict[str, int]) -> set[tuple[int, int]]:
    """Partition and offset of the letters sent again."""
    maps = application.topic(MAPS.name)
    found: set[tuple[int, int]] = set()
    if maps not in counts:
        return found
    for records in read_to_end(cluster, maps, partition_of(REDRIVEN, counts[maps]), 0, reset="earliest"):
        keys = (record.key().decode() for record in records)
        places = (key.removeprefix(REDRIVEN).split(":") for key in keys if key.startswith(REDRIVEN))
        found |= {(int(partition), int(offset)) for partition, offset in places}
    return found
