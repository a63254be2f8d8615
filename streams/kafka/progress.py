"""How far a task has come: its position in the input log, and the numbers of its links.

A *link* leads from one sending task to one receiving partition. Its records are numbered 0, 1, 2 …; the receiver keeps
the number it expects next. A lower one is a repeat, a higher one means that the log has lost records.
The row is written in the same transaction as the outputs and state rows of the batch, so it is always true of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

PROGRESS_KEY = b"\0progress"
"""The row's key in the changelog; table rows begin with the name of their table."""

LINK_HEADER = "dustream-link"

_ENCODER = msgspec.msgpack.Encoder()


class Progress(Struct, frozen=True, array_like=True):
    """`position`: offset of the next input record. `received`, `sent`: next number by sender, by topic-partition."""

    fingerprint: str
    position: int = 0
    received: dict[str, int] = {}
    sent: dict[str, int] = {}

    def encode(self) -> bytes:
        return _ENCODER.encode(self)


_DECODER = msgspec.msgpack.Decoder(Progress)


def decode_progress(data: bytes) -> Progress:
    return _DECODER.decode(data)


class Link(Struct, frozen=True):
    """Who sent a record, and which of its records to this partition it is."""

    sender: str
    number: int

    def header(self) -> tuple[str, bytes]:
        return LINK_HEADER, f"{self.sender}:{self.number}".encode()


def read_link(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> Link | None:
    """The link of a record; None if it was not sent by a task."""
    value = dict(headers or {}).get(LINK_HEADER)
    if value is None:
        return None
    sender, _, number = value.decode(errors="replace").rpartition(":")
    return Link(sender, int(number)) if sender and number.isdecimal() else None
