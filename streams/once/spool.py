"""Shingles in a file without a name: the system keeps in memory what fits, and it is gone with the process."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dustream.streams.folders import make_folder

BUFFER_BYTES = 1 << 22


class FileSpool:
    """Appends to a file of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=BUFFER_BYTES)  # noqa: SIM115 - closed by close()
        self._size = 0

    def append(self, shingles: bytes) -> None:
        self._file.write(shingles)
        self._size += len(shingles)

    def piece(self, start: int, end: int) -> bytes:
        self._file.flush()
        return os.pread(self._file.fileno(), end - start, start)

    def all(self) -> NDArray[np.uint64]:
        if not self._size:
            return np.zeros(0, dtype=np.uint64)
        self._file.flush()
        return np.frombuffer(mmap.mmap(self._file.fileno(), self._size), dtype=np.uint64)

    def close(self) -> None:
        self._file.close()
