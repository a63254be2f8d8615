"""The counts of a worker say whether they include all that follows from the input."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dustream.core.errors import Unavailable
from dustream.core.settings import Settings
from dustream.streams.kafka_serve import counts
from dustream.streams.kafka_serve.counts import OwnCounts
from dustream.streams.serve.source import Seen


class OneEmptyTask:
    """What is counted: a task of pages without rows, the position of whose copy does not change."""

    settings = Settings(partitions=1)

    def held(self) -> Any:
        progress = {("pages", 0): SimpleNamespace(copied=5)}
        return SimpleNamespace(progress=lambda: (progress, True), holds=lambda processor, partition: False)

    def table(self, processor: str, partition: int, name: str) -> Any:
        def scan() -> Iterator[Any]:
            return iter(())

        return SimpleNamespace(scan=scan)


def test_counts_made_before_rest_are_made_again_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if neither the position in the input nor the rows of this worker have changed."""
    monkeypatch.setattr(counts, "DIGEST_INTERVAL_S", 0.0)
    monkeypatch.setattr(counts, "DIGEST_SHARE_MAX", 1e9)
    standing: Any = SimpleNamespace(seen=Seen([3], False, [0]))
    own = OwnCounts(OneEmptyTask(), standing)  # type: ignore[arg-type]
    before = own.current()
    assert not before.settled and own.answer(before.version.encode()) == b""
    standing.seen = Seen([3], True, [3])
    assert own.answer(before.version.encode()) != b""
    assert own.current().settled and own.current().position == [3]


def test_counts_kept_for_a_while_do_not_claim_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "DIGEST_INTERVAL_S", 1e9)
    standing: Any = SimpleNamespace(seen=Seen([3], False, [0]))
    own = OwnCounts(OneEmptyTask(), standing)  # type: ignore[arg-type]
    own.current()
    standing.seen = Seen([3], True, [3])
    assert not own.current().settled


def test_nothing_is_counted_before_the_others_were_asked() -> None:
    standing: Any = SimpleNamespace(seen=Seen([], False, []))
    with pytest.raises(Unavailable):
        OwnCounts(OneEmptyTask(), standing).current()  # type: ignore[arg-type]
