"""64-bit words in memory or, if there are many, in an unnamed temporary file, which the OS caches and which vanishes
with the process."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dustream.streams.folders import make_folder
from dustream.streams.resident import release_some

MEMORY_BYTES_MAX = 1 << 26  # up to this nothing is written to the file
BUFFER_BYTES = 1 << 22  # written to the file at once


class FileSpool:
    """Appends to a temporary file in `folder` once the words exceed the memory limit."""

    def __init__(self, folder: Path, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        make_folder(folder)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._held_bytes_max = memory_bytes_max
        self._written_bytes = 0
        self._mapped: mmap.mmap | None = None

    def append(self, words: bytes) -> None:
        self._held.append(words)
        self._held_bytes += len(words)
        if self._held_bytes > self._held_bytes_max:
            self._write()
            self._held_bytes_max = min(self._held_bytes_max, BUFFER_BYTES)

    def piece(self, start: int, end: int) -> bytes:
        self._write()
        return os.pread(self._file.fileno(), end - start, start)

    def all(self) -> NDArray[np.uint64]:
        if not self._written_bytes:
            return np.frombuffer(bytearray().join(self._held), dtype=np.uint64)  # writable, like a mapped file
        self._write()
        if self._mapped is None or len(self._mapped) != self._written_bytes:
            self._mapped = mmap.mmap(self._file.fileno(), self._written_bytes)
        return np.frombuffer(self._mapped, dtype=np.uint64)

    def release(self) -> None:
        if self._mapped is not None:
            release_some(self._mapped)

    def close(self) -> None:
        """Give back memory and file, as soon as nobody has the words any more."""
        self._held, self._mapped = [], None
        self._file.close()

    def _write(self) -> None:
        left = memoryview(b"".join(self._held))
        self._written_bytes += len(left)
        while left:
            left = left[self._file.write(left) :]
        self._held, self._held_bytes = [], 0
