"""Several files as one array in memory: the system reads their pages when they are needed, and drops them again.

Files are mapped one behind the other at one address range, which `mmap` of the standard library cannot do. Each file
must fill whole pages (FILE_BYTES_MULTIPLE).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dustream.streams.resident import release, release_some

FILE_BYTES_MULTIPLE: Final = 1 << 16  # of the page sizes of all systems in use
_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip


class MappedFiles:
    """The 64-bit words of some files. Writing to the array changes nothing on disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        sizes = [path.stat().st_size for path in paths]
        if any(size % FILE_BYTES_MULTIPLE for size in sizes):
            raise ValueError(f"each mapped file has a multiple of {FILE_BYTES_MULTIPLE} bytes")
        self._room = mmap.mmap(-1, max(sum(sizes), mmap.PAGESIZE), mmap.MAP_PRIVATE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        at = 0
        for path, size in zip(paths, sizes, strict=True):
            if size:
                self._map(path, address + at, size)
            at += size
        self.words: NDArray[np.uint64] = np.frombuffer(self._room, dtype=np.uint64)[: at // 8]

    def _map(self, path: Path, address: int, size: int) -> None:
        with path.open("rb") as file:
            protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
            found = _libc.mmap(address, size, protection, flags, file.fileno(), 0)
        if found in (None, _FAILED):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))

    def release_some(self) -> None:
        release_some(self._room)

    def release(self) -> None:
        release(self._room)
