"""Bounds the memory that mapped files take: their pages stay in memory until somebody needs the room, which looks like
a process that grows with its input."""

from __future__ import annotations

import mmap
from typing import Final

RESIDENT_BYTES_MAX: Final = 256 << 20


def release_some(mapped: mmap.mmap) -> None:
    """Let go of the pages of a mapping if mapped files of this process take more than RESIDENT_BYTES_MAX."""
    if len(mapped) > RESIDENT_BYTES_MAX and mapped_bytes() > RESIDENT_BYTES_MAX:
        release(mapped)


def release(mapped: mmap.mmap) -> None:
    """Let go of the pages in memory; they are read again when they are needed."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def mapped_bytes() -> int:
    """Of mapped files in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[2]) * mmap.PAGESIZE
    except OSError:
        return 0
