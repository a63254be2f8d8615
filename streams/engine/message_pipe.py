"""Large messages through a pipe, from one process to another.

`Connection.recv_bytes` reads 64 KiB at a time, each into memory for all that is left of the message, and copies them
together: four times as much work.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

PIPE_BYTES: Final = 256 << 10
_SIZE_BYTES: Final = 8


def widen(connection: Connection) -> None:
    """Let the pipe hold more if the system allows it, so that the two processes wait for each other less often."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(connection.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def send_message(connection: Connection, message: bytes | bytearray) -> None:
    for part in (len(message).to_bytes(_SIZE_BYTES), message):
        left = memoryview(part)
        while left:
            left = left[os.write(connection.fileno(), left) :]


class MessageReceiver:
    """The messages of one connection. EOFError if it ends, also within one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def next(self) -> memoryview:
        """The next message; valid until the one after it is asked for."""
        size = int.from_bytes(self._read(_SIZE_BYTES))
        return self._read(size)

    def _read(self, size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        wanted = memoryview(self._buffer)[:size]
        left = wanted
        while left:
            count = os.readv(self._connection.fileno(), [left])
            if not count:
                raise EOFError
            left = left[count:]
        return wanted
