"""`dustream run` killed with SIGKILL again and again ends with the results of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dustream.streams.generate import write

PAGES = 1500
RESULTS = ("status.jsonl", "groups.jsonl", "keep.txt", "rules.jsonl", "rejected.jsonl")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("web") / "web.jsonl"
    write(PAGES, 5, path)
    return path


def command(web: Path, out: Path, jobs: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "dustream.streams.cli.main",
        "run",
        str(web),
        "--out",
        str(out),
        "--jobs",
        str(jobs),
        "--json",
    ]


def records_in_state(out: Path) -> int:
    from dustream.core.errors import StateMismatch
    from dustream.streams.job import COUNTS_KEY
    from dustream.streams.store.rocks import RocksStore

    try:
        store = RocksStore(out / "state", read_only=True)
    except StateMismatch:
        return 0
    row = store.get(COUNTS_KEY)
    store.close()
    return json.loads(row)["records"] if row else 0


def kill_when_under_way(web: Path, out: Path, jobs: int, delay_s: float) -> bool:
    """Start a run, let it get somewhere new, then kill it a little later. False if it finished first."""
    before = records_in_state(out)
    run = subprocess.Popen(
        command(web, out, jobs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while run.poll() is None and records_in_state(out) <= before:
        time.sleep(0.05)
    time.sleep(delay_s)
    finished = run.poll() is not None
    if not finished:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return not finished


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_run_resumes_to_the_same_results(web: Path, tmp_path: Path, jobs: int) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    undisturbed = json.loads(subprocess.run(command(web, calm, 1), check=True, capture_output=True).stdout)
    kills = sum(kill_when_under_way(web, disturbed, jobs, delay_s) for delay_s in (0.0, 0.13, 0.37))
    assert kills >= 1, "the run was too quick to be killed: make the input larger"
    resumed = json.loads(subprocess.run(command(web, disturbed, jobs), check=True, capture_output=True).stdout)
    assert resumed["events_now"] < resumed["events"] == undisturbed["events"]
    assert resumed["state_hash"] == undisturbed["state_hash"]
    for name in RESULTS:
        assert (disturbed / name).read_bytes() == (calm / name).read_bytes(), name


def test_run_on_a_finished_state_reads_nothing_and_says_the_same(web: Path, tmp_path: Path) -> None:
    first = json.loads(subprocess.run(command(web, tmp_path, 1), check=True, capture_output=True).stdout)
    again = subprocess.run(command(web, tmp_path, 1), check=True, capture_output=True, text=True)
    assert json.loads(again.stdout)["state_hash"] == first["state_hash"]
    assert json.loads(again.stdout)["events_now"] == 0
    assert "already in the state" in again.stderr
