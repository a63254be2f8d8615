"""The store in memory: for tests and for runs whose state is not kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from dustream.streams.store.base import Change


class MemoryStore:
    """A sorted dictionary."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = value

    def delete(self, key: bytes) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        start = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after) if after else 0)
        found = []
        for at in range(start, len(self._keys)):  # by index: islice would read all keys before `start`
            key = self._keys[at]
            if not key.startswith(prefix):
                break
            found.append((key, self._rows[key]))
        return iter(found)

    def write(self, changes: Iterable[Change]) -> None:
        for key, value in list(changes):
            if value is None:
                self.delete(key)
            else:
                self.put(key, value)

    def close(self) -> None:
        """Nothing to release."""
