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
PARTS_MAX = 1_024  # in one system call


class FileSpool:
    """Appends to a temporary file in `folder` once the words exceed the memory limit."""

    def __init__(self, folder: Path, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        make_folder(folder)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close()
        self._held: list[bytes | bytearray] = []
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
            if not (len(self._held) == 1 and isinstance(self._held[0], bytearray)):
                self._held = [bytearray().join(self._held)]  # writable, like a mapped file; not joined again
            return np.frombuffer(self._held[0], dtype=np.uint64)
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
        """Without joining the parts: so many fresh bytes of memory take longer than writing them."""
        parts, self._held, self._held_bytes = self._held, [], 0
        for start in range(0, len(parts), PARTS_MAX):
            some = parts[start : start + PARTS_MAX]
            wanted = sum(map(len, some))
            written = os.writev(self._file.fileno(), some)
            if written < wanted:
                self._write_all(memoryview(b"".join(some))[written:])
            self._written_bytes += wanted

    def _write_all(self, left: memoryview) -> None:
        while left:
            left = left[self._file.write(left) :]
