"""A server follows its source whatever an attempt meets: one that went on without would answer with an old state."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from served import Served

from dustream.core.errors import DustreamError, Unavailable
from dustream.streams.serve.decide_here import AskedDecision, Decider
from dustream.streams.serve.lookups import Lookups
from dustream.streams.serve.opening import open_source


@pytest.mark.parametrize("error", [KeyError("of a bug"), Unavailable("moving"), DustreamError("no room")])
def test_following_goes_on_after_any_error(result: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    attempts: list[float] = []

    def fail_once(source: object) -> None:
        attempts.append(time.monotonic())
        if len(attempts) == 1:
            raise error

    server = Served(result)
    monkeypatch.setattr(type(server.source), "catch_up", fail_once)
    monkeypatch.setattr("dustream.streams.serve.app.CATCH_UP_INTERVAL_S", 0.01)
    monkeypatch.setattr(Lookups.catch_up, "__defaults__", (0.0,))
    with server:
        deadline = time.monotonic() + 30
        while len(attempts) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(attempts) >= 3


def test_a_decision_that_cannot_be_applied_says_why_and_the_next_one_may_be_tried(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(result)

    def moving(self: object) -> None:
        raise Unavailable("the task pages-1 is moving")

    monkeypatch.setattr(type(source), "decisions", moving)
    decider = Decider(Lookups(source))

    async def decide() -> None:
        for _ in range(2):
            decider.start(AskedDecision("not_duplicate", "https://a.example/"))
            await decider.close()

    asyncio.run(decide())
    source.close()
    assert decider.message == "not_duplicate https://a.example/: not applied: the task pages-1 is moving"
