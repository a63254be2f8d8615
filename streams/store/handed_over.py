"""A state that another process writes, as seen by the process whose changes it writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dustream.streams.store.base import Change, Store

_MISSING: Any = object()
_END: Any = (None, None)


class HandedOver:
    """The state as it was opened, below the changes that were handed over to its writer since.

    They are kept in memory until `catch_up` opens the state again, which must then have all of them."""

    def __init__(self, open_state: Callable[[], Store]) -> None:
        self._open_state = open_state
        self._below = open_state()
        self._changed: dict[bytes, bytes | None] = {}
        self._keys: list[bytes] = []
        self._is_sorted = True
        self.bytes_held = 0

    def get(self, key: bytes) -> bytes | None:
        value = self._changed.get(key, _MISSING)
        return self._below.get(key) if value is _MISSING else value

    def put(self, key: bytes, value: bytes) -> None:
        self.write([(key, value)])

    def delete(self, key: bytes) -> None:
        self.write([(key, None)])

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        changes = iter(self._changed_under(prefix, after))
        changed, value = next(changes, _END)
        for key, below in self._below.scan(prefix, after):
            while changed is not None and changed < key:
                if value is not None:
                    yield changed, value
                changed, value = next(changes, _END)
            if changed != key:
                yield key, below
                continue
            if value is not None:
                yield key, value
            changed, value = next(changes, _END)
        while changed is not None:
            if value is not None:
                yield changed, value
            changed, value = next(changes, _END)

    def _changed_under(self, prefix: bytes, after: bytes) -> list[Change]:
        if not self._is_sorted:
            self._keys.sort()
            self._is_sorted = True
        keys, found = self._keys, []
        for at in range(max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0), len(keys)):
            if not keys[at].startswith(prefix):
                break
            found.append((keys[at], self._changed[keys[at]]))
        return found

    def write(self, changes: Iterable[Change]) -> None:
        for key, value in list(changes):
            if key not in self._changed:
                self._keys.append(key)
                self._is_sorted = False
            self._changed[key] = value
            self.bytes_held += len(key) + len(value or b"")

    def catch_up(self) -> None:
        """To be called when all changes are in the state, and nobody writes it."""
        self._below.close()
        self._below = self._open_state()
        self._changed.clear()
        self._keys.clear()
        self.bytes_held = 0

    def close(self) -> None:
        self._below.close()
