"""The lookup service of a worker begins to answer as soon as all workers can be asked, whatever the first attempts
meet."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as WaitedTooLong

import aiohttp
import msgspec
import pytest

from dustream.core.errors import Unavailable
from dustream.core.settings import Settings
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.broker import free_port
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka_serve import peers
from dustream.streams.kafka_serve.peers import TASKS, Peers, decoded
from dustream.streams.kafka_serve.rows import RowsAsked, RowsFound, decode_asked
from dustream.streams.kafka_serve.server import LookupServer, ServeOptions
from dustream.streams.kafka_serve.worker_source import WorkerSource
from dustream.streams.serve.lookups import Lookups

FAILURES = [Unavailable("starting"), KeyError("pages-1"), RuntimeError("changed size"), ValueError("zip")]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_worker_gets_ready_after_any_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    left = [error]

    def fail_once(self: object, *interval: float) -> None:
        if left:
            raise left.pop()

    monkeypatch.setattr(WorkerSource, "catch_up", fail_once)
    monkeypatch.setattr(Lookups, "renew_digest", lambda self: None)
    port = free_port()
    options = ServeOptions("127.0.0.1", port, None, 1e9, f"http://127.0.0.1:{port}")
    service = LookupServer(Health(Metrics()), Settings(), KafkaCluster("127.0.0.1:1"), Application("none"), options)

    async def until_ready() -> list[int]:
        runner = await service.begin()
        statuses: list[int] = []
        async with aiohttp.ClientSession() as session, asyncio.timeout(30):
            while 200 not in statuses:
                async with session.get(f"{options.address}/threshold") as answer:
                    statuses.append(answer.status)
                await asyncio.sleep(0.02)
        await runner.cleanup()
        return statuses

    assert {*asyncio.run(until_ready())} <= {503, 200}
    assert not left


def test_single_lookups_that_wait_for_a_worker_are_sent_as_one_and_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an answer is, none waits for ever."""
    sent: list[list[str]] = []
    answers: list[bytes | Exception] = []

    async def ask(self: Peers, address: str, path: str, body: bytes) -> bytes:
        asked = decode_asked(body)
        sent.append([each.keys[0] for each in asked if each.keys])
        await asyncio.sleep(0)
        if answers:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        here = RowsFound([("k", b"row")])
        found = [RowsFound([], missing="moving") if each.keys == ["b"] else here for each in asked]
        return msgspec.msgpack.encode(found)

    monkeypatch.setattr(Peers, "_ask", ask)

    async def look_up(*keys: str) -> list[RowsFound | BaseException]:
        asking = Peers(None)
        work = (asking.rows_soon("http://127.0.0.1:1", RowsAsked("pages", 0, "pages", [key])) for key in keys)
        return await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), 10)

    first, second, third = asyncio.run(look_up("a", "b", "c"))
    assert sent == [["a", "b", "c"]]
    assert isinstance(second, Unavailable) and isinstance(first, RowsFound) and first == third
    for bad in (Unavailable("gone"), KeyError("a bug"), b"\xc0", msgspec.msgpack.encode([])):
        answers.append(bad)
        assert [type(each) for each in asyncio.run(look_up("a", "c"))] == [Unavailable, Unavailable]
        assert [type(each) for each in asyncio.run(look_up("a", "c"))] == [RowsFound, RowsFound]


def test_a_worker_that_is_too_slow_or_of_another_version_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="another version"):
        decoded(msgspec.msgpack.Decoder(list[int]), b"\xc0")

    class Late:
        def result(self, timeout: float) -> None:
            raise WaitedTooLong

    async def asked() -> None:
        asking = Peers(None)
        await asking.open()
        monkeypatch.setattr(peers.asyncio, "run_coroutine_threadsafe", lambda work, loop: work.close() or Late())
        with pytest.raises(Unavailable, match="overloaded"):
            asking.ask(TASKS, {"http://127.0.0.1:1": b""})
        assert asking.ask_some(TASKS, {"http://127.0.0.1:1": b""}) == {}
        await asking.close()

    asyncio.run(asked())
