"""What happens to a state when its files are cut short, the disk is full or fails, or a run is stopped."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from dustream.core.errors import DiskFailure, StateMismatch
from dustream.core.pipeline import PAGES as PAGES_TOPIC
from dustream.core.pipeline import pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.signature import sign
from dustream.schemas.pages import Crawl
from dustream.streams.cli.main import main
from dustream.streams.disk import describe
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import StoredResults
from dustream.streams.engine.states import open_state
from dustream.streams.generate import write
from dustream.streams.store.base import Change
from dustream.streams.store.extent import EXTENT_FILE, MeasuredStore
from dustream.streams.store.memory import MemoryStore
from dustream.streams.store.rocks import RocksStore

COMMAND = [sys.executable, "-m", "dustream.streams.cli.main"]


def run(source: Path, out: Path, *options: str, **settings: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "run", str(source), "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, **settings)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.jsonl"
    write(30, 1, path)
    return path


# ---- cut short


def test_a_manifest_cut_short_is_noticed_wherever_it_is_cut(tmp_path: Path) -> None:
    """Never is less than all taken for all."""
    path = tmp_path / "state"
    for number in range(3):  # each opening begins another log file, and the manifest lists tables and logs
        store = MeasuredStore(path)
        store.write([(b"%d/%d" % (number, row), b"x" * 100) for row in range(200)])
        store.close()
    manifest = next(path.glob("MANIFEST-*"))
    whole = manifest.read_bytes()
    noticed = 0
    for size in range(0, len(whole), 7):
        copy = tmp_path / f"cut-{size}"
        copy.mkdir()
        for file in path.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        (copy / manifest.name).write_bytes(whole[:size])
        try:
            store = MeasuredStore(copy)
        except StateMismatch:
            noticed += 1
            continue
        assert sum(1 for _ in store.scan(b"")) == 601
        store.close()
    assert noticed > 10


def test_a_run_and_a_question_refuse_a_state_that_has_lost_something(small: Path, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "out" / "state"
    assert run(small, out).returncode == 0
    for file in state.glob("*"):
        if file.name != EXTENT_FILE:
            file.unlink()
    RocksStore(state).close()  # as RocksDB makes of a manifest that was cut short
    more = tmp_path / "more.jsonl"
    write(10, 2, more)
    done = run(more, out)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "has lost something" in done.stderr and "fresh --state" in done.stderr
    asked = subprocess.run(
        [*COMMAND, "status", "http://a.example/", "--state", str(out)], capture_output=True, text=True
    )
    assert asked.returncode == 1 and "has lost something" in asked.stderr and "Traceback" not in asked.stderr


def test_batches_that_were_not_synced_may_go(tmp_path: Path) -> None:
    """After a power failure the state is an earlier one, which is whole."""
    now = 0.0
    store = MeasuredStore(tmp_path, clock=lambda: now)
    store.write([(b"a", b"1")])
    assert not (tmp_path / EXTENT_FILE).exists(), "nothing is promised that is not on the disk"
    now = 9.0
    store.write([(b"b", b"1")])
    assert json.loads((tmp_path / EXTENT_FILE).read_bytes()) == {"batches": 2}
    store.write([(b"c", b"1")])
    assert json.loads((tmp_path / EXTENT_FILE).read_bytes()) == {"batches": 2}


# ---- full, broken


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/status.jsonl"), "no room left in out/status.jsonl"),
        (Exception("IO error: No space left on device: While appending to file: 7.log"), "make room"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "the disk fails (Input/output error): check it"),
        (Exception("IO error: Input/output error: While pread"), "the disk fails"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x"), "x: Permission denied"),
    ],
)
def test_what_is_said(error: Exception, words: str) -> None:
    assert words in describe(error) and "\n" not in describe(error)


def test_no_room_for_the_state(tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk that is full. With room, the run goes on and loses nothing."""
    source = tmp_path / "web.jsonl"
    write(1_500, 3, source)
    limit = 300_000

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    done = run(source, tmp_path / "out", "--jobs", "1", preexec_fn=limited)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "no room left" in done.stderr.splitlines()[-1] and "run the same command again" in done.stderr
    again, calm = run(source, tmp_path / "out", "--json"), run(source, tmp_path / "calm", "--json")
    assert again.returncode == calm.returncode == 0
    assert json.loads(again.stdout)["state_hash"] == json.loads(calm.stdout)["state_hash"]
    assert json.loads(again.stdout)["rejected"] == json.loads(calm.stdout)["rejected"], "no page paid for the disk"


def test_no_room_for_the_answer(small: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        for options in (["--version"], ["run", str(small), "--out", str(tmp_path / "out"), "--json"]):
            done = subprocess.run([*COMMAND, *options], stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no room left" in done.stderr


def test_a_store_that_fails_is_no_fault_of_a_message() -> None:
    """Else messages would become dead letters while a disk is full."""

    class Broken(MemoryStore):
        def get(self, key: bytes) -> bytes | None:
            if key.startswith(b"task/pages"):
                raise DiskFailure("no room left")
            return super().get(key)

    store = Broken()
    store.put(b"task/pages/00000/pages/x", b"")  # an old state: rows are looked for in the store
    engine = EmbeddedEngine(pipeline(Settings(partitions=1)), store)
    with pytest.raises(DiskFailure):
        engine.run([feed(0)])


# ---- stopped


def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "web.jsonl"
    write(6_000, 4, source)
    command = [*COMMAND, "run", str(source), "--out", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out" / "state" / "CURRENT").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in told.splitlines() if "compiling" not in line] == [
        "dustream: interrupted; completed work is kept; run the same command again to resume"
    ]


def test_ctrl_c_before_a_command_begins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(commands: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dustream.streams.cli.main.build_parser", interrupt)
    assert main(["run"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


class CountedStore(MemoryStore):
    writes = 0

    def write(self, changes: Iterable[Change]) -> None:
        self.writes += 1
        super().write(changes)


def feed(number: int) -> Feed:
    url = f"http://a.example/{number}"
    page = Crawl(url, 1, "content", signature=sign(f"one two three {number // 2}", "en"))
    return Feed([Send(PAGES_TOPIC, url, page)], [(b"position", b"%d" % number)])


def outcome(store: MemoryStore) -> list[tuple[str, str, str | None]]:
    return [(status.url, status.role, status.group) for status in StoredResults(store).statuses()]


def test_a_run_commits_by_the_clock_as_well_as_by_count() -> None:
    calm, hurried = CountedStore(), CountedStore()
    now = 0.0

    def slow() -> float:
        nonlocal now
        now += 0.7
        return now

    for store, clock in ((calm, lambda: 0.0), (hurried, slow)):
        EmbeddedEngine(pipeline(Settings(partitions=2)), store, clock=clock).run(feed(number) for number in range(40))
    assert calm.writes == 1 and hurried.writes > 10
    assert outcome(calm) == outcome(hurried)


def test_slow_input_is_committed_while_it_comes() -> None:
    """What was taken in is not lost because more is waited for."""
    store, now = CountedStore(), 0.0

    def slowly() -> Iterable[Feed]:
        nonlocal now
        for number in range(5):
            assert store.get(b"position") == (b"%d" % (number - 1) if number > 1 else None)
            yield feed(number)
            now += 3.0

    EmbeddedEngine(pipeline(Settings(partitions=1)), store, clock=lambda: now).run(slowly())


def test_a_state_that_is_whole_is_opened(tmp_path: Path) -> None:
    open_state(tmp_path, Settings()).close()
    open_state(tmp_path, Settings()).close()
