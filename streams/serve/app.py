"""The HTTP server: routes the table of endpoints and the pages, guards them, and follows the source."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

import msgspec
from aiohttp import web

from dustream.core.errors import BadEvent, BadSetting, DiskFailure, DustreamError, StateMismatch, Unavailable
from dustream.schemas.lookup import ErrorAnswer, UrlsRequest
from dustream.streams.serve.decide_here import Decider
from dustream.streams.serve.endpoints import ENDPOINTS, Endpoint
from dustream.streams.serve.guard import Guard, Refusal
from dustream.streams.serve.lookups import CATCH_UP_INTERVAL_S, Lookups, NotFound
from dustream.streams.serve.openapi import openapi
from dustream.streams.serve.pages import page_routes
from dustream.streams.serve.render import compile_templates
from dustream.streams.serve.serving import HEADERS, SLOW_THREADS, Busy, Serving, SlowRequests

log = logging.getLogger(__name__)

BODY_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 128 << 10  # of a request: two URLs, percent-encoded

JSON_HEADERS = HEADERS | {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Content-Type": "application/json",
}
PROBLEM_HEADERS = JSON_HEADERS | {"Content-Type": "application/problem+json"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_ENCODER = msgspec.json.Encoder()


def make_app(lookups: Lookups, guard: Guard, *, threads: int = 0) -> web.Application:
    """The application with all endpoints and pages. With `threads`, all lookups run in so many: a source that asks
    other servers must not keep the event loop waiting."""
    serving = Serving(lookups, guard, SlowRequests(threads or SLOW_THREADS), in_threads=threads > 0)
    decider = Decider(lookups)
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_protected(guard)])
    compile_templates()
    description = _ENCODER.encode(openapi())

    async def describe(request: web.Request) -> web.Response:
        return web.Response(body=description, headers=JSON_HEADERS)

    app.router.add_get("/v1/openapi.json", describe)
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("{id}", "{id:.+}")
        app.router.add_route(endpoint.method, path, _handler(serving, endpoint))
    app.add_routes(page_routes(serving, decider))
    app.cleanup_ctx.append(_following(serving, decider))
    return app


def _handler(serving: Serving, endpoint: Endpoint) -> Handler:
    """Reads the parameters, checks the position, answers."""
    decode_body = msgspec.json.Decoder(endpoint.asked).decode if endpoint.method == "POST" else None
    is_async = iscoroutinefunction(endpoint.answer)

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            if decode_body is not None:
                asked = decode_body(await request.read())
            else:
                asked = msgspec.convert(_given(request), endpoint.asked, strict=False)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadSetting(str(error)) from None
        if isinstance(asked, UrlsRequest):
            refused = serving.guard.spend(client_of(request), len(asked.urls))
            if refused is not None:
                return problem(refused)
        seen = serving.lookups.seen()
        if not seen.has_settled(asked.min_position):
            seen = await serving.slow.run(lambda: serving.lookups.seen(asked.min_position))
        if not seen.has_settled(asked.min_position):
            reached = seen.settled_position
            detail = f"{reached} records are included with all that follows, fewer than {asked.min_position}: ask again"
            return problem(Refusal(412, "Precondition Failed", detail, 1))
        if is_async:
            answer = await endpoint.answer(serving.lookups, seen, asked)
        elif endpoint.slow or serving.in_threads:
            answer = await serving.slow.run(lambda: endpoint.answer(serving.lookups, seen, asked))
        else:
            answer = endpoint.answer(serving.lookups, seen, asked)
        return web.Response(body=_ENCODER.encode(answer), headers=JSON_HEADERS)

    return handle


def _given(request: web.Request) -> dict[str, str]:
    """The parameters of the path and the query."""
    given = dict(request.query)
    if len(given) != len(request.query):
        raise BadSetting("a parameter is given twice")
    if given.keys() & request.match_info.keys():
        raise BadSetting("a parameter is given in the path and in the query")
    return given | dict(request.match_info)


def client_of(request: web.Request) -> str:
    return request.remote or ""


def problem(refusal: Refusal) -> web.Response:
    """A refusal as RFC 9457 has it."""
    headers = dict(PROBLEM_HEADERS)
    if refusal.retry_after_s:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="dustream", charset="UTF-8"'
    answer = ErrorAnswer(title=refusal.title, status=refusal.status, detail=refusal.detail)
    return web.Response(status=refusal.status, body=_ENCODER.encode(answer), headers=headers)


def _protected(guard: Guard) -> Any:
    @web.middleware
    async def protect(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = guard.refusal(request.headers, client_of(request))
        if refused is not None:
            return problem(refused)
        try:
            return await handler(request)
        except web.HTTPRedirection as redirection:
            redirection.headers.update(JSON_HEADERS)
            raise
        except Exception as error:
            return problem(_refusal(request, error))

    return protect


def _refusal(request: web.Request, error: Exception) -> Refusal:
    if isinstance(error, BadEvent | BadSetting):
        return Refusal(400, "Bad Request", str(error))
    if isinstance(error, NotFound):
        return Refusal(404, "Not Found", str(error))
    if isinstance(error, Busy):
        return Refusal(503, "Service Unavailable", "too many slow requests are under way: ask again", 1)
    if isinstance(error, Unavailable):
        return Refusal(503, "Service Unavailable", f"{error}: ask again", 1)
    if isinstance(error, StateMismatch | DiskFailure):
        log.error("%s: %s", request.path, error)
        return Refusal(503, "Service Unavailable", str(error), 5)
    if isinstance(error, web.HTTPException):
        return Refusal(error.status, error.reason, f"{error.reason}: see /v1/openapi.json for what there is")
    log.error("%s failed", request.path, exc_info=error)
    return Refusal(500, "Internal Server Error", "this is a bug: see the log of the server")


class FollowFailures:
    """Logs why the source cannot be followed. No error ends following: a server that went on without it would answer
    with an old state for ever."""

    def __init__(self) -> None:
        self._last = ""

    def note(self, error: Exception) -> None:
        """Each kind once in a row: the next attempt follows in a moment."""
        words = f"{type(error).__name__}: {error}"
        if words == self._last:
            return
        self._last = words
        if isinstance(error, Unavailable):
            log.debug("not followed now: %s", error)
        else:
            cause = None if isinstance(error, DustreamError) else error
            log.error("the state cannot be followed, and is tried again: %s", words, exc_info=cause)


def _following(serving: Serving, decider: Decider) -> Callable[[web.Application], AsyncIterator[None]]:
    """While the server runs, follow the source, and renew the digest when it is due."""

    async def follow() -> None:
        failures = FollowFailures()
        while True:
            await asyncio.sleep(CATCH_UP_INTERVAL_S)
            try:
                await asyncio.to_thread(serving.lookups.catch_up)
                if serving.lookups.is_digest_due:
                    await asyncio.to_thread(serving.lookups.renew_digest)
            except Exception as error:
                failures.note(error)

    async def context(app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(follow())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await decider.close()
        serving.slow.close()

    return context


async def start_server(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Start listening; call `cleanup` of the result to stop."""
    runner = web.AppRunner(app, access_log=None, max_line_size=LINE_BYTES_MAX, max_field_size=LINE_BYTES_MAX)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise BadSetting(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): choose another --port or --host"
        ) from None
    return runner
