"""The local copy of the state: one RocksDB per worker, with the rows of its present and former tasks.

It is never ahead of the changelogs, so it may be lost, damaged or outdated: opening a task updates it, from scratch if
necessary.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dustream.core.errors import DustreamError, StateMismatch
from dustream.streams.folders import make_folder
from dustream.streams.store.base import Change
from dustream.streams.store.rocks import RocksStore

log = logging.getLogger(__name__)

DAMAGED_MARK = "DAMAGED"
NO_ROOM = re.compile("No space left on device|Disk quota exceeded|File too large|NoSpace", re.IGNORECASE)
ROOM_BYTES_MIN = 64 << 20  # two write buffers of RocksDB
WIPE_ROWS = 10_000

_ENCODER = msgspec.msgpack.Encoder()


class StateLost(StateMismatch):
    """The local copy cannot be read: restart the worker, which rebuilds it from the changelogs."""


class DiskFull(DustreamError):
    """There is no room for the local copy. It is unchanged, and can be used again when there is room."""


class CopyHeader(Struct, frozen=True, array_like=True):
    """How far and when a task's local copy was updated from its changelog."""

    changelog_id: str
    position: int
    written_at_s: int
    progress: bytes


_HEADER = msgspec.msgpack.Decoder(CopyHeader)


class LocalState:
    """A store whose errors are distinguished from those of handlers."""

    def __init__(self, data: Path) -> None:
        self._data = data
        make_folder(data)
        self._store = _open(data)
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._store.get(key)
        except Exception as error:
            raise self._lost(error) from error

    def put(self, key: bytes, value: bytes) -> None:
        self.write([(key, value)])

    def delete(self, key: bytes) -> None:
        self.write([(key, None)])

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._store.scan(prefix, after)
        except Exception as error:
            raise self._lost(error) from error

    def write(self, changes: Iterable[Change]) -> None:
        try:
            self._store.write(changes)
        except Exception as error:
            raise self._lost(error) from error

    def close(self) -> None:
        self._closed = True
        try:
            self._store.close()
        except Exception as error:
            if not is_no_room(error):
                raise

    def header(self, prefix: bytes) -> CopyHeader | None:
        data = self.get(b"copy/" + prefix)
        return None if data is None else _HEADER.decode(data)

    def headers(self) -> Iterator[tuple[bytes, CopyHeader]]:
        """Those of all tasks by prefix, as of one moment."""
        for key, data in self.scan(b"copy/"):
            yield key.removeprefix(b"copy/"), _HEADER.decode(data)

    def header_change(self, prefix: bytes, changelog_id: str, position: int, progress: bytes) -> Change:
        header = CopyHeader(changelog_id, position, int(time.time()), progress)
        return b"copy/" + prefix, _ENCODER.encode(header)

    def wipe(self, prefix: bytes) -> None:
        """Delete all rows of a task."""
        self.write([(b"copy/" + prefix, None)])
        after = b""
        while keys := [key for key, _ in islice(self.scan(prefix, after), WIPE_ROWS)]:
            self.write((key, None) for key in keys)
            after = keys[-1]

    def _lost(self, error: Any) -> DustreamError:
        if is_no_room(error):
            return no_room(self._data, error)
        if not self._closed:  # a reader that is still running finds the store closed, not damaged
            (self._data / DAMAGED_MARK).touch()
        return StateLost(
            f"the local state in {self._data} cannot be read ({error}): start the worker again to rebuild it"
        )


def is_no_room(error: object) -> bool:
    """Whether an error of the store or the OS means that nothing more can be written: disk, quota or limit."""
    return NO_ROOM.search(str(error)) is not None


def no_room(data: Path, error: object) -> DiskFull:
    return DiskFull(f"there is no room in {data} ({error}): make room, and the worker continues")


def has_room(data: Path) -> bool:
    """Whether the worker can write again, tested by writing."""
    probe = data / "room.probe"
    try:
        with probe.open("wb") as file:
            file.write(bytes(ROOM_BYTES_MIN))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def task_prefix(processor: str, partition: int) -> bytes:
    """The key prefix of a task's rows in the store (the tables add their names)."""
    return f"task/{processor}/{partition:05d}/".encode()


def _open(data: Path) -> RocksStore:
    folder = data / "state"
    if (data / DAMAGED_MARK).exists():
        _set_aside(folder)
        (data / DAMAGED_MARK).unlink()
    try:
        return RocksStore(folder)
    except StateMismatch as error:
        if is_no_room(error):
            raise no_room(data, error) from None
        if "in use" in str(error):
            raise StateMismatch(f"another worker uses {data}: give each its own --data") from None
        log.error("%s", error)
        _set_aside(folder)
        return RocksStore(folder)


def _set_aside(folder: Path) -> None:
    """Keep the last damaged copy for diagnosis; everything in it is in the changelogs too."""
    aside = folder.with_name("state.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        folder.rename(aside)
    log.error("the local state in %s is damaged: moved to %s, rebuilding from the changelogs", folder, aside)
