"""A lookup service in a thread of this process."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from dustream.streams.serve.app import make_app, start_server
from dustream.streams.serve.guard import Guard
from dustream.streams.serve.lookups import Lookups
from dustream.streams.serve.opening import open_source

LOOPBACK = "127.0.0.1"


class Reply(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Asking:
    """Asks a lookup service on this machine."""

    port: int

    @property
    def base(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def get(self, path: str, headers: dict[str, str] | None = None, **asked: object) -> Reply:
        return self.send("GET", path + (f"?{urlencode(asked)}" if asked else ""), headers=headers)

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, {"Content-Type": "application/json"} | (headers or {}))

    def send(self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=60)
        try:
            connection.request(method, target, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())
        finally:
            connection.close()


class Served(Asking):
    """Serves a folder while the block runs."""

    def __init__(self, path: Path, *, token: str | None = None, rate: float = 1e9) -> None:
        self.path = path
        self.source = open_source(path)
        self.lookups = Lookups(self.source)
        self._guard = Guard(host=LOOPBACK, token=token, rate=rate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        self._runner: web.AppRunner = self._wait(start_server(make_app(self.lookups, self._guard), LOOPBACK, 0))
        self.port = self._runner.addresses[0][1]
        return self

    def __exit__(self, *error: object) -> None:
        self._wait(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.source.close()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)
