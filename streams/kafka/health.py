"""HTTP endpoints of a worker: /live, /ready, /metrics. They run in a separate thread, and answer also while code is
compiled, while no broker answers, and while the disk is full."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from dustream.core.errors import BadSetting
from dustream.streams.kafka.metrics import Metrics

if TYPE_CHECKING:
    from dustream.streams.kafka.held import HeldTasks

LOOPBACK = "127.0.0.1"
BEAT_S_MAX = 60.0  # a worker without a heartbeat for longer is stuck


class Health:
    """The state that the endpoints report. Written by the worker's threads, read by the server's."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.stage = "starting"
        """The worker's activity while it is not ready, as text."""
        self.is_ready: Callable[[], bool] = lambda: False
        self.refresh: Callable[[], None] = lambda: None
        """Updates gauges that change over time."""
        self.held: HeldTasks | None = None
        """The tasks of the running worker; None while there is none."""
        self._beat_at_s: float | None = None
        self._contact_at_s = time.monotonic()

    def beat(self) -> None:
        """Called regularly by the worker's event loop."""
        self._beat_at_s = time.monotonic()

    def rest(self, stage: str) -> None:
        """Called when there is no event loop."""
        self._beat_at_s, self.stage = None, stage
        self.is_ready, self.refresh, self.held = lambda: False, lambda: None, None

    def contact(self, at_s: float) -> None:
        """Record that the broker answered at this time."""
        self._contact_at_s = max(self._contact_at_s, at_s)

    @property
    def contact_s(self) -> float:
        return time.monotonic() - self._contact_at_s

    async def live(self, request: web.Request) -> web.Response:
        """Succeeds if the event loop is running, or there is none yet."""
        beat_at_s = self._beat_at_s
        stuck = beat_at_s is not None and time.monotonic() - beat_at_s > BEAT_S_MAX
        return web.Response(text="stuck\n" if stuck else "alive\n", status=503 if stuck else 200)

    async def ready(self, request: web.Request) -> web.Response:
        """Succeeds if all tasks of this worker are open and the broker answers."""
        self.refresh()
        ready = self.is_ready()
        return web.Response(text="ready\n" if ready else f"{self.stage}\n", status=200 if ready else 503)

    async def show(self, request: web.Request) -> web.Response:
        self.refresh()
        self.metrics.set("contact_seconds", round(self.contact_s, 1))
        self.metrics.set("ready", float(self.is_ready()))
        return web.Response(text=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


async def serve(health: Health, host: str, port: int) -> web.AppRunner:
    """Start listening; call `cleanup` of the result to stop."""
    app = web.Application()
    app.add_routes([web.get("/live", health.live), web.get("/ready", health.ready), web.get("/metrics", health.show)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, socket.gaierror) as error:
        await runner.cleanup()
        raise BadSetting(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): "
            "choose another --health-port or --health-host"
        ) from None
    return runner
