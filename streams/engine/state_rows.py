"""The rows of a state beside the tasks' tables: its settings, its counts and its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from dustream.core.settings import Settings
from dustream.streams.readers.fingerprint import Fingerprint
from dustream.streams.store.base import Store

STATE_FORMAT = 7  # changes when the rows of any processor change
STATE_KEY = b"meta/state"
COUNTS_KEY = b"meta/counts"
MAP_KEY = b"meta/partition-map"
INPUT_PREFIX = b"meta/input/"


class StateHeader(Struct, frozen=True):
    """The format and settings of a state."""

    format: int
    fingerprint: str
    settings: Settings


class Counts(Struct):
    """Counts of the input over the whole life of a state."""

    records: int = 0
    pages_taken: int = 0
    rejected: int = 0
    rejected_by_reason: dict[str, int] = {}
    truncated: int = 0
    ignored: dict[str, int] = {}
    skipped: dict[str, int] = {}


class InputProgress(Struct, frozen=True):
    """The progress of an input. `position` is one past the last record processed. `number` identifies the input in this
    state, and `field_map` has the names of its fields: with them a record can be found and read again."""

    fingerprint: Fingerprint | None
    position: int
    done: bool
    number: int | None = None
    field_map: dict[str, str] = {}


class Origin(NamedTuple):
    """The position of an event: the number of its input, its position there, and its byte offset (-1: none)."""

    input: int
    position: int
    offset: int

    def __str__(self) -> str:
        return f"{self.input}:{self.position}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Origin:
        return cls(*map(int, text.split(":")))


def input_key(path: str) -> bytes:
    return INPUT_PREFIX + path.encode(errors="surrogateescape")


def read_inputs(store: Store) -> Iterator[tuple[str, InputProgress]]:
    """All inputs of a state by path."""
    decoder = msgspec.json.Decoder(InputProgress)
    for key, row in store.scan(INPUT_PREFIX):
        yield key[len(INPUT_PREFIX) :].decode(errors="surrogateescape"), decoder.decode(row)


def view_prefix(topic: str) -> bytes:
    """The key prefix of the messages sent to a topic."""
    return f"view/{topic}/".encode()
