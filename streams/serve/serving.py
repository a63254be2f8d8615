"""What the handlers of endpoints and pages share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from dustream.streams.serve.guard import Guard
from dustream.streams.serve.lookups import Lookups

SLOW_THREADS = 4
SLOW_WAITING_MAX = 64

HEADERS = {
    "Server": "dustream",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Result = TypeVar("Result")


class Busy(Exception):
    """Too many slow requests wait."""


class SlowRequests:
    """Runs functions that read many rows in threads, a limited number at a time."""

    def __init__(self, threads: int = SLOW_THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="serve")
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._waiting >= SLOW_WAITING_MAX:
            raise Busy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Serving:
    """What handlers share."""

    lookups: Lookups
    guard: Guard
    slow: SlowRequests
    in_threads: bool = False
    """Whether all lookups run in threads."""
