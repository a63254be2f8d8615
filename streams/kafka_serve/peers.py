"""Requests to other workers, from threads. All run on the event loop of the server, which reuses its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import TypeVar

import aiohttp
import msgspec

from dustream.core.errors import Unavailable
from dustream.streams.kafka_serve.rows import FOUND, RowsAsked, RowsFound, encode_asked, held_there

TIMEOUT_S = 30.0  # counting all statuses of a worker takes seconds
POLL_TIMEOUT_S = 2.0
CONNECTIONS_PER_WORKER_MAX = 32
ROWS_ASKED_MAX = 64  # of single lookups in one request

ROWS, TASKS, COUNTS = "/internal/rows", "/internal/tasks", "/internal/counts"
GROUPS, EVIDENCE = "/internal/groups", "/internal/evidence"

_TIMEOUTS = {
    path: aiohttp.ClientTimeout(total=POLL_TIMEOUT_S if path == TASKS else TIMEOUT_S, sock_connect=POLL_TIMEOUT_S)
    for path in (ROWS, TASKS, COUNTS, GROUPS, EVIDENCE)
}


Answer = TypeVar("Answer")


def decoded(decoder: msgspec.msgpack.Decoder[Answer], data: bytes) -> Answer:
    """The answer of another worker; Unavailable if this one cannot read it."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Unavailable(f"another worker runs another version of dustream ({error})") from None


def _settle(future: asyncio.Future[RowsFound], answer: RowsFound) -> None:
    """Unless its request was given up meanwhile."""
    if future.done():
        return
    try:
        future.set_result(held_there(answer))
    except Unavailable as error:
        future.set_exception(error)


class Peers:
    """The other workers of the group. All have the same token."""

    def __init__(self, token: str | None) -> None:
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, list[tuple[RowsAsked, asyncio.Future[RowsFound]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """On the event loop that is to run the requests."""
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_PER_WORKER_MAX),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def ask(self, path: str, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
        """Ask several workers at once, by address. Unavailable if one does not answer, or does not have what is asked
        for. Not for the event loop itself: it would wait for itself."""
        if not bodies:
            return {}
        if self._loop is None:
            raise Unavailable("the lookup service is starting")
        work = asyncio.run_coroutine_threadsafe(self._ask_all(path, bodies), self._loop)
        try:
            return work.result(2 * TIMEOUT_S)
        except (TimeoutError, CancelledError):
            raise Unavailable("the lookup service is overloaded, or stops") from None

    def ask_some(self, path: str, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
        """The same, without those that do not answer."""
        if not bodies or self._loop is None:
            return {}
        work = asyncio.run_coroutine_threadsafe(self._ask_each(path, bodies), self._loop)
        try:
            answers = work.result(2 * TIMEOUT_S)
        except (TimeoutError, CancelledError):
            return {}
        return {address: data for address, data in answers.items() if isinstance(data, bytes)}

    async def rows_soon(self, address: str, asked: RowsAsked) -> RowsFound:
        """Rows of another worker, for the event loop itself. While a request to it is under way, others wait and are
        then sent as one: under load a request costs more than the rows."""
        waiting = self._waiting.get(address)
        future: asyncio.Future[RowsFound] = asyncio.get_running_loop().create_future()
        if waiting is not None:
            waiting.append((asked, future))
        else:
            self._waiting[address] = [(asked, future)]
            task = asyncio.create_task(self._ask_waiting(address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _ask_waiting(self, address: str) -> None:
        """No error may end it: the requests that wait would wait for ever."""
        while some := self._waiting[address][:ROWS_ASKED_MAX]:
            del self._waiting[address][: len(some)]
            try:
                answers = decoded(FOUND, await self._ask(address, ROWS, encode_asked([asked for asked, _ in some])))
            except Exception as error:
                answers = [RowsFound([], missing=str(error) or type(error).__name__)] * len(some)
            cut_off = [RowsFound([], missing="the answer of another worker is cut off")] * (len(some) - len(answers))
            for (_, future), answer in zip(some, [*answers, *cut_off], strict=True):
                _settle(future, answer)
        del self._waiting[address]

    async def _ask_each(self, path: str, bodies: Mapping[str, bytes]) -> dict[str, bytes | BaseException]:
        asked = (self._ask(address, path, body) for address, body in bodies.items())
        return dict(zip(bodies, await asyncio.gather(*asked, return_exceptions=True), strict=True))

    async def _ask_all(self, path: str, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
        answers = await asyncio.gather(*(self._ask(address, path, body) for address, body in bodies.items()))
        return dict(zip(bodies, answers, strict=True))

    async def _ask(self, address: str, path: str, body: bytes) -> bytes:
        assert self._session is not None
        try:
            async with self._session.post(address + path, data=body, timeout=_TIMEOUTS[path]) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:  # the last: closed meanwhile
            raise Unavailable(f"the worker at {address} does not answer ({error or type(error).__name__})") from None
        if response.status != 200:
            raise Unavailable(
                f"the worker at {address} answers {response.status}: {data[:200].decode(errors='replace')}"
            )
        return data
