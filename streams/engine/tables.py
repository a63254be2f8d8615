"""A task's tables over the store: typed rows, with changes buffered until the engine commits them together."""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from dustream.core.topology import ProcessorSpec, TableSpec
from dustream.core.vertex import END
from dustream.streams.store.base import Change, Store

Row = TypeVar("Row")

CACHE_ROWS_MAX = 16_384  # decoded rows of one table, over all partitions
CACHE_ROWS_MIN = 256  # per partition

FILTER_MASK = (1 << 27) - 1  # bits: 16 MB, effective up to forty million keys
FILTER_SHIFT = 32

ROWS_PER_REPORT = 1_000  # rows read from the store between two progress reports

PORTION_ROWS = 64  # uncommitted rows that a scan reads at once: most scans stop early
SORTED_PER_INSERTED = 64  # keys sorted in the time that one is inserted

_ENCODER = msgspec.msgpack.Encoder()
_MISSING: Any = object()
_NO_CHANGE: Any = (None, None)


class RowCache(Generic[Row]):
    """Decoded rows in two generations: a row not used during one generation is dropped. Bounded, and cheap on a hit."""

    def __init__(self, rows_max: int) -> None:
        self._young: dict[str, Row | None] = {}
        self._old: dict[str, Row | None] = {}
        self._generation_max = max(1, rows_max // 2)

    def get(self, key: str) -> Any:
        row = self._young.get(key, _MISSING)
        if row is _MISSING:
            row = self._old.get(key, _MISSING)
            if row is not _MISSING:
                self.put(key, row)
        return row

    def put(self, key: str, row: Row | None) -> None:
        if len(self._young) >= self._generation_max:
            self._old, self._young = self._young, {}
        self._young[key] = row

    def put_all(self, rows: dict[str, Row | None]) -> None:
        """Add many rows; if they exceed a generation, only the last ones."""
        if len(rows) + len(self._young) <= self._generation_max:
            self._young |= rows
        else:
            self._old = self._young if len(rows) < self._generation_max else {}
            self._young = dict(islice(rows.items(), max(0, len(rows) - self._generation_max), None))


class StoredKeys:
    """A Bloom filter of the keys in a store that began empty. Most rows that processors look up do not exist, and many
    are deleted before they are committed: neither lookup nor deletion needs the store. It also has the names that keys
    begin with, so that a scan of what one group or page has needs no store if all of it is new.

    Its size is fixed; with very many keys false positives get frequent, which costs as much as having no filter."""

    def __init__(self) -> None:
        self._bits = mmap.mmap(-1, (FILTER_MASK + 1) // 8)  # zero pages that take no memory until they are written
        self._bytes = np.frombuffer(self._bits, dtype=np.uint8)  # the same memory, for vector operations

    def add_all(self, fingerprints: list[int]) -> None:
        each = np.array(fingerprints, dtype=np.int64)
        for places in (each & FILTER_MASK, each >> FILTER_SHIFT & FILTER_MASK):
            np.bitwise_or.at(self._bytes, places >> 3, (1 << (places & 7)).astype(np.uint8))

    def may_hold(self, fingerprint: int) -> bool:
        bits, one, other = self._bits, fingerprint & FILTER_MASK, fingerprint >> FILTER_SHIFT & FILTER_MASK
        return bool(bits[one >> 3] >> (one & 7) & 1 and bits[other >> 3] >> (other & 7) & 1)


class Reads:
    """Counts rows read from the store, for progress reports."""

    def __init__(self) -> None:
        self.on_rows: Callable[[int], None] | None = None
        self._rows = 0

    def add(self) -> None:
        self._rows += 1
        if self._rows >= ROWS_PER_REPORT:
            self.report()

    def report(self) -> None:
        rows, self._rows = self._rows, 0
        if self.on_rows is not None and rows:
            self.on_rows(rows)


class TaskTable(Generic[Row]):
    """One table of one task. Reads see the task's own writes; `undo` reverts those of the current batch."""

    def __init__(
        self,
        store: Store,
        prefix: bytes,
        spec: TableSpec,
        cache_rows_max: int = CACHE_ROWS_MAX,
        reads: Reads | None = None,
        stored: StoredKeys | None = None,
    ) -> None:
        self._store = store
        self._stored = stored
        self._salt = hash(prefix)
        self._is_stored = stored is None or stored.may_hold(self._salt)  # False: no row was ever committed
        self._reads = reads or Reads()
        self._prefix = prefix
        self._decoder = msgspec.msgpack.Decoder(spec.row)
        self._dirty: dict[str, Row | None] = {}
        self._sorted_keys: list[str] = []  # of the uncommitted rows
        self._unsorted_keys: list[str] = []  # written since the last scan
        self._undo: list[tuple[str, Any]] = []
        self._cache: RowCache[Row] = RowCache(cache_rows_max)

    def get(self, key: str) -> Row | None:
        row = self._dirty.get(key, _MISSING)
        if row is _MISSING:
            if not self._is_stored:
                return None
            row = self._cache.get(key)
            if row is _MISSING:
                if self._stored is not None and not self._stored.may_hold(hash(key) ^ self._salt):
                    return None
                data = self._store.get(self._prefix + key.encode())
                row = None if data is None else self._decoder.decode(data)
                self._cache.put(key, row)
                if self._reads.on_rows is not None:
                    self._reads.add()
        result: Row | None = row
        return result

    def put(self, key: str, row: Row | None) -> None:
        before = self._dirty.get(key, _MISSING)
        self._undo.append((key, before))
        if before is _MISSING:
            self._unsorted_keys.append(key)
        self._dirty[key] = row

    def delete(self, key: str) -> None:
        self.put(key, None)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Row]]:
        """The rows as of the start of the scan, whatever is written during it."""
        changes = self._changed_under(prefix, after)
        changed, row = next(changes, _NO_CHANGE)
        for key, data in self._stored_under(prefix, after):
            while changed is not None and changed < key:
                if row is not None:
                    yield changed, row
                changed, row = next(changes, _NO_CHANGE)
            if changed != key:
                yield key, self._decoder.decode(data)
                continue
            if row is not None:
                yield key, row
            changed, row = next(changes, _NO_CHANGE)
        while changed is not None:
            if row is not None:
                yield changed, row
            changed, row = next(changes, _NO_CHANGE)

    def _stored_under(self, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
        if not self._is_stored or not self._may_hold_under(prefix):
            return
        start = len(self._prefix)
        raw_after = self._prefix + after.encode() if after else b""
        for raw, data in self._store.scan(self._prefix + prefix.encode(), raw_after):
            if self._reads.on_rows is not None:
                self._reads.add()
            yield raw[start:].decode(), data

    def _may_hold_under(self, prefix: str) -> bool:
        """Whether the store may have rows under a prefix; groups are mostly scanned in the batch that creates them."""
        owner = _owner(prefix)
        return self._stored is None or not owner or self._stored.may_hold(hash(owner) ^ self._salt)

    def _changed_under(self, prefix: str, after: str) -> Iterator[tuple[str, Row | None]]:
        """Uncommitted changes under a prefix in key order, as of now. For keys written later, the undo log has the
        previous value."""
        self._sort_keys()
        before: dict[str, Any] = {}
        noted = len(self._undo)
        keys = self._sorted_keys
        start = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
        while portion := keys[start : start + PORTION_ROWS]:
            for key in portion:
                if not key.startswith(prefix):
                    return
                for written, row in self._undo[noted:] if noted < len(self._undo) else ():
                    before.setdefault(written, row)
                noted = len(self._undo)
                row = before[key] if key in before else self._dirty[key]
                if row is not _MISSING:
                    yield key, row
            self._sort_keys()
            start = bisect_right(keys, portion[-1])

    def _sort_keys(self) -> None:
        """Insert one by one if there are few: sorting reads all keys."""
        new = self._unsorted_keys
        if len(new) * SORTED_PER_INSERTED > len(self._sorted_keys):
            self._sorted_keys += new
            self._sorted_keys.sort()
        else:
            for key in new:
                insort(self._sorted_keys, key)
        new.clear()

    def accept(self) -> int:
        """The batch succeeded: keep its writes, and return their number."""
        writes = len(self._undo)
        self._undo.clear()
        return writes

    def undo(self) -> None:
        """The batch failed: revert its writes."""
        for key, before in reversed(self._undo):
            if before is _MISSING:
                del self._dirty[key]
            else:
                self._dirty[key] = before
        self._undo.clear()
        self._sorted_keys, self._unsorted_keys = [], list(self._dirty)

    def drain(self) -> Iterator[Change]:
        """The uncommitted changes, encoded lazily. They count as committed from here on."""
        rows, deleted, encode, prefix, salt = self._dirty, self._deleted(), _ENCODER.encode, self._prefix, self._salt
        if not rows:
            return iter(())
        if self._stored is not None:
            fingerprints = [hash(key) ^ salt for key, row in rows.items() if row is not None]
            if fingerprints:
                owners = {_owner(key) for key in rows}
                self._stored.add_all([salt, *fingerprints, *[hash(owner) ^ salt for owner in owners]])
                self._is_stored = True
        self._cache.put_all(rows)
        self._dirty, self._sorted_keys, self._unsorted_keys = {}, [], []
        puts = ((prefix + key.encode(), encode(row)) for key, row in rows.items() if row is not None)
        return chain(puts, [(prefix + key.encode(), None) for key in deleted])

    def _deleted(self) -> list[str]:
        """Rows to delete in the store, without those that were created since the last commit."""
        deleted = [key for key, row in self._dirty.items() if row is None]
        if self._stored is None:
            return deleted
        return [key for key in deleted if self._stored.may_hold(hash(key) ^ self._salt)]


def _owner(key: str) -> str:
    """The first name in a key of several, with its end: rows of one group, page or site are scanned together. Empty for
    a key of one name."""
    return key[: key.find(END) + 1]


class TaskTables:
    """All tables of one task."""

    def __init__(self, store: Store, spec: ProcessorSpec, partition: int, stored: StoredKeys | None = None) -> None:
        self._partition = partition
        self._reads = Reads()
        rows_max = max(CACHE_ROWS_MIN, CACHE_ROWS_MAX // spec.partitions)
        prefix = f"task/{spec.name}/{partition:05d}/"
        self._tables: dict[str, TaskTable[Any]] = {
            table.name: TaskTable(store, f"{prefix}{table.name}/".encode(), table, rows_max, self._reads, stored)
            for table in spec.tables
        }

    @property
    def partition(self) -> int:
        return self._partition

    def table(self, name: str) -> TaskTable[Any]:
        return self._tables[name]

    @contextmanager
    def watched(self, on_rows: Callable[[int], None]) -> Iterator[None]:
        """In this block, `on_rows` is called with the number of rows read from the store since the last call."""
        self._reads.on_rows = on_rows
        try:
            yield
            self._reads.report()
        finally:
            self._reads.on_rows = None

    def accept(self) -> int:
        return sum([table.accept() for table in self._tables.values()])

    def undo(self) -> None:
        for table in self._tables.values():
            table.undo()

    def drain(self) -> Iterator[Change]:
        return chain.from_iterable([table.drain() for table in self._tables.values()])
