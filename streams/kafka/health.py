"""Endpoints of a worker, on loopback: /live, /ready, /metrics."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from dustream.core.errors import BadSetting
from dustream.streams.kafka.metrics import Metrics

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Health:
    """What the endpoints tell."""

    metrics: Metrics
    is_ready: Callable[[], bool]

    async def live(self, request: web.Request) -> web.Response:
        """The event loop turns."""
        return web.Response(text="alive\n")

    async def ready(self, request: web.Request) -> web.Response:
        """All tasks of this worker are open."""
        ready = self.is_ready()
        return web.Response(text="ready\n" if ready else "recovering\n", status=200 if ready else 503)

    async def show(self, request: web.Request) -> web.Response:
        return web.Response(text=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def require_port(port: int) -> None:
    """BadSetting unless the port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise _not_free(port, error) from None


def _not_free(port: int, error: OSError) -> BadSetting:
    return BadSetting(f"port {port} is not free ({error.strerror}): choose another --health-port")


async def serve(health: Health, port: int) -> web.AppRunner:
    """Listen; clean up the result to stop."""
    app = web.Application()
    app.add_routes([web.get("/live", health.live), web.get("/ready", health.ready), web.get("/metrics", health.show)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        await runner.cleanup()
        raise _not_free(port, error) from None
    return runner
