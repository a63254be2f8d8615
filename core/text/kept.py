"""Arrays that are kept from page to page: to ask the system for memory for each page costs as much as to scan it."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Generic, TypeVar

KEPT_BYTES_MAX = 1 << 20

Room = TypeVar("Room")


class Kept(local, Generic[Room]):
    """Room for one page at a time, each thread its own. What is in it is lost when the next page comes."""

    def __init__(self, room_for: Callable[[int], Room]) -> None:
        self._room_for = room_for
        self._page_bytes = 0
        self._room = room_for(0)

    def __call__(self, page_bytes: int) -> Room:
        """Room for a page of this size; that for a very large one is not kept."""
        if page_bytes > KEPT_BYTES_MAX:
            return self._room_for(page_bytes)
        if page_bytes > self._page_bytes:
            self._page_bytes = min(2 * page_bytes, KEPT_BYTES_MAX)
            self._room = self._room_for(self._page_bytes)
        return self._room
