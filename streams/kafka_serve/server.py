"""The HTTP server of a worker's lookup service, in a thread of its own: the endpoints and pages of `dustream serve`,
and those that other workers ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from dustream.core.errors import BadSetting, Unavailable
from dustream.core.settings import Settings
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.server_thread import ServerThread
from dustream.streams.kafka_serve.peers import COUNTS, EVIDENCE, GROUPS, ROWS, TASKS, Peers
from dustream.streams.kafka_serve.rows import answer_rows, are_few, decode_asked
from dustream.streams.kafka_serve.standings import encode_standing, own_standing
from dustream.streams.kafka_serve.worker_source import WorkerSource
from dustream.streams.serve.app import FollowFailures, make_app, start_server
from dustream.streams.serve.guard import Guard
from dustream.streams.serve.lookups import Lookups
from dustream.streams.serve.serving import SlowRequests

LOOKUP_THREADS = 16  # they wait for other workers most of the time
FIRST_POLL_INTERVAL_S = 0.2


@dataclass(frozen=True)
class ServeOptions:
    """Where a worker serves lookups, and who may ask."""

    host: str
    port: int
    token: str | None
    rate: float
    address: str
    """Where other workers reach it."""


def address_of(host: str, port: int, given: str | None) -> str:
    """The address that other workers are told; BadSetting if it must be given."""
    if given is not None:
        if not given.startswith(("http://", "https://")):
            raise BadSetting(f"--serve-address {given} is no address: use http://HOST:PORT")
        return given.rstrip("/")
    if host in ("0.0.0.0", "::"):
        raise BadSetting(
            f"--serve-host {host} is every address of this machine: tell other workers which one to use "
            "(--serve-address http://HOST:PORT)"
        )
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class LookupServer:
    """What a worker serves."""

    def __init__(
        self, health: Health, settings: Settings, cluster: KafkaCluster, application: Application, options: ServeOptions
    ) -> None:
        self._health = health
        self._options = options
        self._guard = Guard(host=options.host, token=options.token, rate=options.rate)
        self._peers = Peers(options.token)
        self._source = WorkerSource(health, settings, self._peers, options.address, cluster, application)
        self._lookups = Lookups(self._source, self._source.digest)
        self._inside = SlowRequests()
        self._is_ready = False

    async def begin(self) -> web.AppRunner:
        """Start listening; BadSetting if that fails."""
        return await start_server(self._app(), self._options.host, self._options.port)

    def _app(self) -> web.Application:
        app = make_app(self._lookups, self._guard, threads=LOOKUP_THREADS)
        app.middlewares.append(self._gate())
        for path, answer in (
            (TASKS, self._tasks),
            (COUNTS, self._source.own_counts.answer),
            (GROUPS, self._source.best_groups),
            (EVIDENCE, self._source.evidence_here),
        ):
            app.router.add_post(path, self._internal(answer))
        app.router.add_post(ROWS, self._rows)
        app.cleanup_ctx.append(self._context)
        return app

    def _gate(self) -> Any:
        """Nothing is answered before all workers were asked once: rules and counts would seem to be missing."""

        @web.middleware
        async def gate(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if not self._is_ready and not request.path.startswith("/internal/"):
                raise Unavailable(f"this worker is not ready: {self._health.stage}")
            return await handler(request)

        return gate

    def _internal(self, answer: Callable[[bytes], bytes]) -> Callable[[web.Request], Awaitable[web.Response]]:
        """In threads of their own: those of other requests may all be waiting for another worker, which asks here."""

        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            return web.Response(body=await self._inside.run(lambda: answer(body)))

        return handle

    async def _rows(self, request: web.Request) -> web.Response:
        asked = decode_asked(await request.read())
        if are_few(asked):
            return web.Response(body=answer_rows(self._health.held, asked))
        return web.Response(body=await self._inside.run(lambda: answer_rows(self._health.held, asked)))

    def _tasks(self, body: bytes) -> bytes:
        held = self._health.held
        if held is None:
            raise Unavailable(f"this worker is not ready: {self._health.stage}")
        return encode_standing(own_standing(self._health, held, self._options.address))

    async def _context(self, app: web.Application) -> AsyncIterator[None]:
        await self._peers.open()
        first = asyncio.create_task(self._first())
        yield
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await self._peers.close()
        self._inside.close()
        self._source.close()

    async def _first(self) -> None:
        """Ask all workers as soon as they can answer."""
        failures = FollowFailures()
        while not self._is_ready:
            try:
                await asyncio.to_thread(self._lookups.catch_up, 0.0)
                await asyncio.to_thread(self._lookups.renew_digest)
                self._is_ready = True
            except Exception as error:
                failures.note(error)
                await asyncio.sleep(FIRST_POLL_INTERVAL_S)


def lookup_service(
    cluster: KafkaCluster, application: Application, settings: Settings, options: ServeOptions | None
) -> Callable[[Health], AbstractContextManager[None]] | None:
    """What a worker's life cycle starts and stops; None without options."""
    if options is None:
        return None

    @contextmanager
    def serving(health: Health) -> Iterator[None]:
        server = ServerThread("lookups", LookupServer(health, settings, cluster, application, options).begin)
        server.start()
        try:
            yield
        finally:
            server.stop()

    return serving
