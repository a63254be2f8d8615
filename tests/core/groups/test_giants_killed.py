"""Killed with SIGKILL in the middle of work that is cut, a run goes on where it was and ends the same."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path

import pytest
from model_giants import SMALL_STEPS, STORIES, outcome, run, run_and_die
from model_pipeline import Pipeline

from dustream.streams.store.memory import MemoryStore
from dustream.streams.store.rocks import RocksStore


@pytest.mark.parametrize(("story", "die_at"), list(zip(STORIES, (7, 2), strict=True)))
def test_killed_in_the_middle_of_cut_work(tmp_path: Path, story: str, die_at: int) -> None:
    calm = run(MemoryStore(), story)
    child = multiprocessing.get_context("spawn").Process(target=run_and_die, args=(tmp_path / "db", story, die_at))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    store = RocksStore(tmp_path / "db")
    assert outcome(Pipeline(store=store, **SMALL_STEPS)) != outcome(calm), "killed too late to leave anything to do"
    resumed = run(store, story)
    assert outcome(resumed) == outcome(calm)
    store.close()
