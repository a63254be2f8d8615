"""The rows of a state beside the tasks' own: what it was made with, what came in, and from where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from dustream.core.settings import Settings
from dustream.streams.readers.fingerprint import Fingerprint
from dustream.streams.store.base import Store

STATE_FORMAT = 4  # rows of any processor are written otherwise than before
STATE_KEY = b"meta/state"
COUNTS_KEY = b"meta/counts"
MAP_KEY = b"meta/partition-map"
INPUT_PREFIX = b"meta/input/"


class StateHeader(Struct, frozen=True):
    """What a state was made with."""

    format: int
    fingerprint: str
    settings: Settings


class Counts(Struct):
    """What came in, over the whole life of a state."""

    records: int = 0
    pages_taken: int = 0
    rejected: int = 0
    rejected_by_reason: dict[str, int] = {}
    truncated: int = 0
    ignored: dict[str, int] = {}
    skipped: dict[str, int] = {}


class InputProgress(Struct, frozen=True):
    """How far an input was read. `position` is one past the last record dealt with. `number` is the input's own in this
    state, and `field_map` how its fields were named: with them a record can be found and read again."""

    fingerprint: Fingerprint | None
    position: int
    done: bool
    number: int | None = None
    field_map: dict[str, str] = {}


class Origin(NamedTuple):
    """Where an event stands: the number of its input, its position there, and its byte offset (-1: it has none)."""

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
    """Where the store keeps what was sent to a topic."""
    return f"view/{topic}/".encode()
