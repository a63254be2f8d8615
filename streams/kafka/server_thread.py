"""An HTTP server in a thread of its own, with its own event loop: a worker's loop may be busy for seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from dustream.core.errors import BadSetting

STOP_TIMEOUT_S = 5.0


class ServerThread:
    """Serves until it is stopped. `begin` starts to listen, and raises BadSetting if it cannot."""

    def __init__(self, name: str, begin: Callable[[], Coroutine[Any, Any, web.AppRunner]]) -> None:
        self._begin = begin
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._error: BadSetting | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start listening; BadSetting if that fails."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            runner = self._loop.run_until_complete(self._begin())
        except BadSetting as error:
            self._error = error
            self._started.set()
            return
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()
