"""The progress of a task: its position in the input log, and the numbers of its links.

A *link* is from one sending task to one receiving partition. Its batches (records.py) are numbered 0, 1, 2 …; the
receiver stores the number it expects next. A lower one is a repeat; a higher one means that the log has lost records.
The row is written in the same transaction as the outputs and state rows, so it is always consistent with them.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

PROGRESS_KEY = b"\0progress"
"""The row's key in the changelog; table rows begin with the name of their table."""

WORK_LEFT = "work left"
"""In the metadata of a committed position: the task has postponed work to do at rest."""
END_OF_NOTE = "\0"  # confluent-kafka reads the metadata up to the first zero byte

_ENCODER = msgspec.msgpack.Encoder()


class TaskProgress(Struct, frozen=True, array_like=True):
    """`position`: offset of the next input record. `received`, `sent`: next number by sender, by topic-partition.
    `writer`: the transactional id of the worker that wrote the row."""

    fingerprint: str
    position: int = 0
    received: dict[str, int] = {}
    sent: dict[str, int] = {}
    writer: str = ""

    def encode(self) -> bytes:
        return _ENCODER.encode(self)


_DECODER = msgspec.msgpack.Decoder(TaskProgress)


def decode_progress(data: bytes) -> TaskProgress:
    return _DECODER.decode(data)
