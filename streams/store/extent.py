"""A state that knows how much it holds: a file beside RocksDB's own says how many batches are in it.

RocksDB takes a MANIFEST that was cut short for that of an earlier state, perhaps an empty one. A batch therefore
carries its number, and the file says the number of the last one that is safely on the disk. A store that has fewer has
lost some, and is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from dustream.core.errors import DiskFailure, StateMismatch
from dustream.streams.disk import describe
from dustream.streams.store.base import Change
from dustream.streams.store.rocks import RocksStore

EXTENT_FILE = "EXTENT.json"
BATCHES_KEY = b"meta/batches"
SYNC_INTERVAL_S = 2.0  # syncing each of many small batches would take longer than writing them


class Extent(Struct, frozen=True):
    """What a state holds at least."""

    batches: int


def read_extent(path: Path) -> Extent:
    """What the state in a folder says of itself; one that says nothing holds nothing. To be read before the store is
    opened: a run may be writing it."""
    try:
        return msgspec.json.decode((path / EXTENT_FILE).read_bytes(), type=Extent)
    except (FileNotFoundError, NotADirectoryError):
        return Extent(0)
    except msgspec.MsgspecError:
        raise StateMismatch(f"{path / EXTENT_FILE} is damaged: {_REMEDY}") from None


def require_whole(path: Path, said: Extent, store: RocksStore) -> int:
    """The batches in a store; StateMismatch if there were more."""
    found = int(store.get(BATCHES_KEY) or b"0")
    if found < said.batches:
        raise StateMismatch(
            f"the state in {path} has lost something: it held {said.batches:,} batches, and {found:,} are found. "
            f"Its files are damaged or cut short: {_REMEDY}"
        )
    return found


_REMEDY = "restore the folder from a copy, or use a fresh --state and run the inputs again"


def open_to_read(path: Path) -> RocksStore:
    """The state in a folder, whole, to be read only."""
    said = read_extent(path)
    store = RocksStore(path, read_only=True)
    try:
        require_whole(path, said, store)
    except StateMismatch:
        store.close()
        raise
    return store


class MeasuredStore:
    """A RocksDB store that numbers its batches and writes down how many are safe."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        said = read_extent(path)
        self._store = RocksStore(path)
        try:
            self._batches = require_whole(path, said, self._store)
        except StateMismatch:
            self._store.close()
            raise
        self._safe = said.batches
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
        """First the batches, then their number: what the file says is never more than what a power failure leaves."""
        self._synced_at = self._clock()
        if self._safe == self._batches:
            return
        self._store.sync()
        _write_safely(self._path / EXTENT_FILE, msgspec.json.encode(Extent(self._batches)))
        self._safe = self._batches


def _write_safely(path: Path, data: bytes) -> None:
    """The whole file or the one before, also after a power failure."""
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise DiskFailure(describe(error, path.parent)) from error
