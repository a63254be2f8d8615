"""The store on disk: RocksDB. A batch is one record of its log, so it is atomic even if the process is killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from rocksdict import AccessType, BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, ReadOptions, WriteBatch

from dustream.core.errors import DiskFailure, StateMismatch
from dustream.streams.disk import describe
from dustream.streams.folders import make_folder
from dustream.streams.store.base import Change

MEMORY_BYTES = 96 << 20  # for the write buffer, a third, and the block cache
BLOOM_BITS_PER_KEY = 10  # most lookups are for URLs never seen: one unnecessary disk read in a hundred


class RocksStore:
    """RocksDB in a folder. One process may write; others may read it meanwhile, or follow it (followed.py)."""

    def __init__(
        self, path: Path, *, read_only: bool = False, follow_in: Path | None = None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._path = path
        self._db: Rdict | None = None
        if (read_only or follow_in) and not (path / "CURRENT").exists():
            raise StateMismatch(
                f"there is no state in {path}: name the --state (or --out) folder of a run; --once keeps no state"
            )
        make_folder(path)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        if follow_in is not None:
            access = AccessType.secondary(str(follow_in))
        try:
            self._db = Rdict(str(path), options=_options(memory_bytes), access_type=access)
        except Exception as error:
            raise StateMismatch(_explain(path, str(error))) from error

    @property
    def _open_db(self) -> Rdict:
        if self._db is None:
            raise StateMismatch(f"the state in {self._path} is closed")
        return self._db

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._open_db.get(key)
        except Exception as error:
            raise self._failure(error) from error
        return value

    def put(self, key: bytes, value: bytes) -> None:
        self.write([(key, value)])

    def delete(self, key: bytes) -> None:
        self.write([(key, None)])

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        # the least key greater than `after` is `after` with a zero byte
        start = max(prefix, after + b"\0") if after else prefix
        return self._between(start, _end_of(prefix))

    def _between(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        bound = ReadOptions()
        if end is not None:
            # without it, the iterator would step over all deleted rows that follow, also of other tables
            bound.set_iterate_upper_bound(end)
        try:
            pairs = self._open_db.items(from_key=start, read_opt=bound)
            yield from cast("Iterator[tuple[bytes, bytes]]", pairs)
        except Exception as error:
            raise self._failure(error) from error

    def write(self, changes: Iterable[Change]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            self._open_db.write(batch)
        except Exception as error:
            raise self._failure(error) from error

    def sync(self) -> None:
        """Make all writes so far survive a power failure."""
        try:
            self._open_db.flush_wal(True)
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> Exception:
        """The error as that of the disk, or of the caller if the store is closed."""
        return error if isinstance(error, StateMismatch) else DiskFailure(describe(error, self._path))

    def close(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            try:
                db.close()
            except Exception as error:
                raise self._failure(error) from error


def _end_of(prefix: bytes) -> bytes | None:
    """The smallest key greater than all with the prefix, if there is one."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _options(memory_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(memory_bytes // 3)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    table = BlockBasedOptions()
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_block_cache(Cache(memory_bytes - memory_bytes // 3))
    options.set_block_based_table_factory(table)
    return options


def _explain(path: Path, error: str) -> str:
    if "lock" in error.lower():
        return f"the state in {path} is in use by another run: wait for it, or choose another --state"
    return f"the state in {path} cannot be opened ({error}): restore it, or run again with a fresh --state"
