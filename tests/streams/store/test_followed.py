"""A follower sees what the last of many writers wrote, in every thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dustream.core.errors import StateMismatch
from dustream.streams.store.extent import MeasuredStore
from dustream.streams.store.followed import FollowedStore

TURNS = 25
WITHIN_S = 30.0
WRITER = """
import sys
from pathlib import Path
from dustream.streams.store.extent import MeasuredStore
store = MeasuredStore(Path(sys.argv[1]))
for batch in range(3):
    store.write((b"row/%03d" % key, b"%s-%d" % (sys.argv[2].encode(), batch)) for key in range(200))
store.close()
"""


def _write(path: Path, turn: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(turn)])


def test_a_follower_finds_what_the_last_of_many_writers_wrote(tmp_path: Path) -> None:
    """Each writer flushes what the one before it has left in the log, while one thread catches up and another reads,
    as in the lookup service."""
    path = tmp_path / "state"
    assert _write(path, 0).wait() == 0
    follower, ended = FollowedStore(path, tmp_path / "log"), threading.Event()

    def follow() -> None:
        while not ended.wait(0.003):
            follower.catch_up()

    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(follow)
        try:
            for turn in range(1, TURNS):
                writer, last = _write(path, turn), b"%d-2" % turn
                while writer.poll() is None:
                    assert len({value for _, value in follower.scan(b"row/")}) == 1  # never a part of a batch
                _await_last(follower, last)
                assert [follower.get(b"row/%03d" % key) for key in (0, 199, 200)] == [last, last, None]
        finally:
            ended.set()
        following.result()
    follower.close()


def _await_last(follower: FollowedStore, last: bytes) -> None:
    deadline = time.monotonic() + WITHIN_S
    while {value for _, value in follower.scan(b"row/")} != {last}:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_follower_refuses_a_state_that_has_lost_batches(tmp_path: Path) -> None:
    store = MeasuredStore(tmp_path / "state")
    store.write([(b"row", b"1")])
    store.close()
    (tmp_path / "state" / "EXTENT.json").write_text('{"batches": 2}')
    with pytest.raises(StateMismatch, match="has lost something"):
        FollowedStore(tmp_path / "state", tmp_path / "log")
