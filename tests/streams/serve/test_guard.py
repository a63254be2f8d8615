"""Who is answered, and how much."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import Served

from dustream.core.errors import BadSetting
from dustream.streams.serve.guard import Guard, read_token
from dustream.streams.serve.serving import SLOW_WAITING_MAX, Busy, SlowRequests

TOKEN = "0123456789abcdef0123"
A = "https://a.example/chain"


@pytest.fixture(scope="module")
def closed(once_result: Path) -> Any:
    with Served(once_result, token=TOKEN) as server:
        yield server


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer " + TOKEN, 200),
        ("bearer " + TOKEN, 200),
        ("Bearer " + TOKEN + "x", 401),
        ("Bearer " + TOKEN[:-1], 401),
        ("Bearer é", 401),
        ("Basic " + b64encode(b"anybody:" + TOKEN.encode()).decode(), 200),
        ("Basic " + b64encode(b"anybody:guess").decode(), 401),
        ("Basic !!!", 401),
        ("Digest " + TOKEN, 401),
    ],
)
@pytest.mark.parametrize("path", ["/v1/stats", "/v1/openapi.json", "/"])
def test_token_is_needed_everywhere(closed: Served, header: str | None, status: int, path: str) -> None:
    reply = closed.get(path, {} if header is None else {"Authorization": header.encode().decode("latin-1")})
    assert reply.status == status
    assert status == 200 or reply.headers["WWW-Authenticate"].startswith("Basic")


def test_commands_send_the_token(closed: Served, tmp_path: Path, ask: Callable[..., Any]) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert ask("status", A, "--url", closed.base, "--token-file", file).code == 0
    said = ask("status", A, "--url", closed.base)
    assert said.code == 1 and "send the token" in said.err


def test_other_addresses_need_a_token() -> None:
    with pytest.raises(BadSetting, match="--token-file"):
        Guard(host="0.0.0.0", token=None, rate=1)
    Guard(host="0.0.0.0", token=TOKEN, rate=1)
    Guard(host="::1", token=None, rate=1)


@pytest.mark.parametrize("text", ["", "short", "with spaces in it, and long", "ümlaut-0123456789abcdef"])
def test_weak_tokens_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(BadSetting, match="openssl rand"):
        read_token(tmp_path / "token")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "", "127.0.0.1.evil.example", "[::2]"])
def test_names_that_were_rebound_to_this_machine_are_refused(served: Served, host: str) -> None:
    assert served.get("/v1/stats", {"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8321", "LOCALHOST"])
def test_names_of_this_machine_are_answered(served: Served, host: str) -> None:
    assert served.get("/v1/stats", {"Host": host}).status == 200


def test_clients_have_an_allowance() -> None:
    now = 0.0
    guard = Guard(host="127.0.0.1", token=None, rate=10, clock=lambda: now)
    assert [guard.spend("one", 1) for _ in range(21)] == [None] * 21
    refused = guard.spend("one", 1)
    assert refused is not None and refused.status == 429 and refused.retry_after_s == 1
    assert guard.spend("other", 1) is None
    now = 0.2
    assert guard.spend("one", 1) is None


def test_each_url_of_a_batch_counts(once_result: Path) -> None:
    with Served(once_result, rate=100) as server:
        assert server.post("/v1/urls", {"urls": [A] * 1_000}).status == 200
        refused = server.post("/v1/urls", {"urls": [A]})
        assert refused.status == 429 and int(refused.headers["Retry-After"]) >= 5


def test_sizes_are_limited(either: Served) -> None:
    assert either.get("/v1/url", u="https://a.example/" + "x" * 8_193).status == 400
    assert either.post("/v1/urls", b'{"urls": ["' + b"x" * (17 << 20) + b'"]}').status == 413
    assert either.send("GET", "/v1/url?u=" + "x" * 200_000).status == 400


def test_slow_requests_are_limited() -> None:
    """Some run, some wait, and the next one is told to come again."""
    from threading import Event

    async def ask_too_many() -> list[object]:
        slow, gate = SlowRequests(), Event()
        asked = [asyncio.create_task(slow.run(gate.wait)) for _ in range(SLOW_WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await slow.run(gate.wait)
        gate.set()
        answers: list[object] = await asyncio.gather(*asked)
        assert await slow.run(lambda: "again") == "again"
        slow.close()
        return answers

    assert asyncio.run(ask_too_many()) == [True] * SLOW_WAITING_MAX


@pytest.mark.parametrize("path", ["/", "/v1/stats", "/v1/nothing", "/v1/url"])
def test_headers_are_strict_and_no_other_site_may_read(either: Served, path: str) -> None:
    headers = either.get(path, {"Origin": "https://evil.example"}).headers
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "same-origin"
    assert headers["Server"] == "dustream" and headers["Cache-Control"] == "no-store"


def test_errors_are_problems_in_json(either: Served) -> None:
    for path, status in (("/v1/nothing", 404), ("/v1/url", 400), ("/v1/url?u=x&u=y", 400), ("/v1/url?v=x", 400)):
        reply = either.get(path)
        assert reply.status == reply.json["status"] == status
        assert reply.headers["Content-Type"] == "application/problem+json"
