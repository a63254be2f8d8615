"""Arrays reused from page to page: allocating memory for each page would cost as much as scanning it."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Generic, TypeVar

KEPT_BYTES_MAX = 4 << 20

Room = TypeVar("Room")


class Kept(local, Generic[Room]):
    """Buffers for one page at a time, per thread. The next page overwrites them."""

    def __init__(self, room_for: Callable[[int], Room]) -> None:
        self._room_for = room_for
        self._page_bytes = 0
        self._room = room_for(0)

    def __call__(self, page_bytes: int) -> Room:
        """Buffers for a page of this size; those for a very large page are not kept."""
        if page_bytes > KEPT_BYTES_MAX:
            return self._room_for(page_bytes)
        if page_bytes > self._page_bytes:
            self._page_bytes = min(2 * page_bytes, KEPT_BYTES_MAX)
            self._room = self._room_for(self._page_bytes)
        return self._room
