"""Detects lost batches: a file beside RocksDB's own stores how many batches the state must have.

RocksDB accepts a truncated MANIFEST as that of an earlier state, perhaps an empty one. So each batch is numbered, and
the file has the number of the last one that is synced to disk. A store with fewer batches has lost some, and is not
opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from dustream.core.errors import DiskFailure, StateMismatch, Unavailable
from dustream.streams.disk import describe
from dustream.streams.store.base import Change
from dustream.streams.store.rocks import MEMORY_BYTES, RocksStore

EXTENT_FILE = "EXTENT.json"
BATCHES_KEY = b"meta/batches"
OPENINGS_MAX = 100
SYNC_INTERVAL_S = 2.0  # syncing every small batch would take longer than writing it


class Extent(Struct, frozen=True):
    """The least number of batches that a state has."""

    batches: int


def read_extent(path: Path) -> Extent:
    """The extent of the state in a folder; 0 batches if it has none. Read it before opening the store: a run may be
    writing it."""
    try:
        return msgspec.json.decode((path / EXTENT_FILE).read_bytes(), type=Extent)
    except (FileNotFoundError, NotADirectoryError):
        return Extent(0)
    except msgspec.MsgspecError:
        raise StateMismatch(f"{path / EXTENT_FILE} is damaged: {_REMEDY}") from None


def require_whole(path: Path, expected: Extent, store: RocksStore) -> int:
    """The number of batches in a store; StateMismatch if some are missing."""
    found = count_batches(store)
    if found < expected.batches:
        raise StateMismatch(
            f"the state in {path} has lost something: it had {expected.batches:,} batches, and {found:,} are found. "
            f"Its files are damaged or cut short: {_REMEDY}"
        )
    return found


def count_batches(store: RocksStore) -> int:
    return int(store.get(BATCHES_KEY) or b"0")


_REMEDY = "restore the folder from a copy, or use a fresh --state and run the inputs again"


def open_to_read(path: Path, memory_bytes: int = MEMORY_BYTES) -> RocksStore:
    """The state in a folder, checked for lost batches, opened read-only.

    A run may be writing it. RocksDB reads the list of tables first and the log after it: what a run moves from the log
    to a table meanwhile is in neither, and an old table may be gone. The list shows that: then the state is opened
    again.
    """
    expected = read_extent(path)
    for _ in range(OPENINGS_MAX):
        before = _table_list(path)
        try:
            store = RocksStore(path, read_only=True, memory_bytes=memory_bytes)
        except StateMismatch:
            if _table_list(path) == before:
                raise
            continue
        if _table_list(path) == before:
            break
        store.close()
    else:
        raise Unavailable(f"the state in {path} is written faster than it can be opened: try again")
    try:
        require_whole(path, expected, store)
    except StateMismatch:
        store.close()
        raise
    return store


def _table_list(path: Path) -> tuple[str, int] | None:
    """The file with the list of RocksDB's tables, and how long it is: a list is only added to."""
    try:
        name = (path / "CURRENT").read_text().strip()
        return name, (path / name).stat().st_size
    except FileNotFoundError:
        return None


class MeasuredStore:
    """A RocksDB store that numbers its batches and records how many are synced."""

    def __init__(
        self, path: Path, *, memory_bytes: int = MEMORY_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._clock = clock
        expected = read_extent(path)
        self._store = RocksStore(path, memory_bytes=memory_bytes)
        try:
            self._batches = require_whole(path, expected, self._store)
        except StateMismatch:
            self._store.close()
            raise
        self._safe = expected.batches
        self._synced_at = clock()
        self._open = True

    def get(self, key: bytes) -> bytes | None:
        return self._store.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.write([(key, value)])

    def delete(self, key: bytes) -> None:
        self.write([(key, None)])

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self._store.scan(prefix, after)

    def write(self, changes: Iterable[Change]) -> None:
        self._store.write(chain(changes, [(BATCHES_KEY, b"%d" % (self._batches + 1))]))
        self._batches += 1
        if self._clock() - self._synced_at >= SYNC_INTERVAL_S:
            self._sync()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            self._sync()
        finally:
            self._store.close()

    def _sync(self) -> None:
        """First the batches, then their number: the file never has more than a power failure leaves."""
        self._synced_at = self._clock()
        if self._safe == self._batches:
            return
        self._store.sync()
        _write_safely(self._path / EXTENT_FILE, msgspec.json.encode(Extent(self._batches)))
        self._safe = self._batches


def _write_safely(path: Path, data: bytes) -> None:
    """Replace the file atomically, also in case of a power failure."""
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise DiskFailure(describe(error, path.parent)) from error
