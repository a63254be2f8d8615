"""A state that a run may be writing: `catch_up` shows what was written since.

It is RocksDB's secondary instance, of which two things were found by test. A point lookup may return an old value
from a memtable that the writer has flushed, where an iterator finds the latest: so everything is read by iterators.
After a writer has ended or another one has begun, the last batches may be missing, and remain so however often it
catches up: so it is opened anew if it has fewer batches than EXTENT.json says, or than it had.
"""

from __future__ import annotations

from pathlib import Path

from dustream.core.errors import StateMismatch
from dustream.streams.folders import make_folder
from dustream.streams.store.extent import count_batches, read_extent, require_whole
from dustream.streams.store.rocks import RocksStore


class FollowedStore(RocksStore):
    """Keeps its log files in a folder of its own."""

    def __init__(self, path: Path, log_folder: Path) -> None:
        self._log_folder = log_folder
        make_folder(log_folder)
        self._times_opened = 1
        expected = read_extent(path)
        super().__init__(path, follow_in=log_folder / "1")
        try:
            self._batches = require_whole(path, expected, self)
        except StateMismatch:
            self.close()
            raise

    def get(self, key: bytes) -> bytes | None:
        return next((value for found, value in self._between(key, key + b"\0") if found == key), None)

    def catch_up(self) -> None:
        expected = max(read_extent(self._path).batches, self._batches)
        try:
            self._open_db.try_catch_up_with_primary()
        except Exception as error:
            raise self._failure(error) from error
        if count_batches(self) < expected:
            self._times_opened += 1
            # readers in other threads finish on the former one
            self._db = RocksStore(self._path, follow_in=self._log_folder / str(self._times_opened))._db
        self._batches = count_batches(self)
