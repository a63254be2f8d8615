"""Giants that fall apart in many small steps, and a process that dies in one of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from unittest import mock

from model_pipeline import Pipeline, gone, page

from dustream.core.groups.processor import GroupsProcessor
from dustream.core.tier2.processor import Tier2Processor
from dustream.schemas.groups import ContinueGroup
from dustream.schemas.tier2 import ContinueTier2
from dustream.streams.store.base import Store
from dustream.streams.store.rocks import RocksStore

MEMBERS = 120
SMALL_STEPS: dict[str, Any] = {
    "tier2": {"work_max": 9},
    "groups": {"work_max": 9, "transfer_rows_max": 5},
    "engine": {"batch_messages_max": 4, "commit_messages": 20},
}
HUB = "http://hub.example/"


def clique() -> list[Any]:
    """Near duplicates, each matches each; one is popular."""
    return [
        page(f"http://clique.example/{n:03d}", 1 + n, [*range(100), 1_000 + n], 100.0 if n == 50 else None)
        for n in range(MEMBERS)
    ]


def star() -> list[Any]:
    """Pages that match a hub and nobody else."""
    own = (range(1_000 * n, 1_000 * n + 20) for n in range(1, MEMBERS))
    leaves = [page(f"http://leaf.example/{n:03d}", 2 + n, [*range(100), *each]) for n, each in enumerate(own)]
    return [*leaves, page(HUB, 1, range(100))]


STORIES: dict[str, tuple[list[Any], Any, type, type]] = {
    "the winner of a clique dies": (clique(), gone("http://clique.example/050", 999), Tier2Processor, ContinueTier2),
    "the hub of a star dies": (star(), gone(HUB, 999), GroupsProcessor, ContinueGroup),
}


def run(store: Store, story: str, die_at: int = 0) -> Pipeline:
    """Feed the story to what is in the store; die in the step that goes on with cut work for the n-th time."""
    events, death, processor, carries_on = STORIES[story]
    pipeline = Pipeline(store=store, **SMALL_STEPS)
    if not pipeline.statuses():
        pipeline.feed(*events)
    process, seen = processor.process, 0

    def dying(self: Any, state: Any, messages: Any) -> Any:
        nonlocal seen
        seen += sum(isinstance(message, carries_on) for message in messages)
        if seen >= die_at > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return process(self, state, messages)

    with mock.patch.object(processor, "process", dying):
        pipeline.feed(death)
    return pipeline


def run_and_die(folder: Path, story: str, die_at: int) -> None:
    run(RocksStore(folder), story, die_at)


def outcome(pipeline: Pipeline) -> dict[str, Any]:
    """What users see; the counters in versions tell how often a status was revised on the way."""
    said = pipeline.statuses().values()
    return {each.url: (each.role, each.group, each.winner, each.similarity) for each in said}
