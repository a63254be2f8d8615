"""A state that is opened again says how far it is: a large one takes a while."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dustream.core.settings import Settings
from dustream.streams.cli.run import TerminalWatcher
from dustream.streams.embedded.tasks import Opening
from dustream.streams.engine import tables
from dustream.streams.generate import write
from dustream.streams.job import RunRequest, Watcher, run_job

PARTITIONS = 2


class Noting(Watcher):
    def __init__(self) -> None:
        self.openings: list[Opening] = []

    def opening(self, opening: Opening) -> None:
        self.openings.append(opening)


def request(folder: Path) -> RunRequest:
    web = folder / "web.jsonl"
    if not web.exists():
        write(300, 5, web)
    return RunRequest([str(web)], folder / "out", folder / "state", Settings(partitions=PARTITIONS), jobs=1)


def test_opening_a_state_tells_the_rows_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_REPORT", 50)
    fresh, again = Noting(), Noting()
    pages = run_job(request(tmp_path), fresh).pages
    assert {opening.rows for opening in fresh.openings} == {0}
    run_job(request(tmp_path), again)
    tasks = again.openings[0].tasks
    assert sorted({opening.number for opening in again.openings}) == list(range(1, tasks + 1))
    assert {f"tier2-{partition}" for partition in range(PARTITIONS)} < {opening.task for opening in again.openings}
    rows = [opening.rows for opening in again.openings]
    assert max(after - before for before, after in pairwise(rows)) <= 50
    assert rows[-1] > pages, "every page has a vertex and a content"


def test_the_terminal_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = TerminalWatcher(show_bar=True)
    watcher.inputs([])
    watcher.opening(Opening("tier2-3", 12, 24, 1_234_000))
    watcher.close()
    assert "opening tier2-3 (12 of 24), 1,234,000 rows read" in capsys.readouterr().err
