"""Tasks in a process of their own: the outcome is that of one process, whatever is killed when."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_processes import POSITION, Word, feeds, topology

from dustream.core.errors import BrokenProgram
from dustream.core.settings import Settings
from dustream.streams.embedded.beside import BesideRequest, TasksBeside
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.embedded.tasks import Opening
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.generate import write
from dustream.streams.job import RunRequest, RunSummary, Watcher, run_job
from dustream.streams.store.base import Change, Store
from dustream.streams.store.extent import MeasuredStore
from dustream.streams.store.memory import MemoryStore

TINY, AMPLE = 1_000, 1 << 24


class Killed(Exception):
    pass


class DoomedStore(MeasuredStore):
    """Stops working just before its n-th batch."""

    def __init__(self, path: Path, writes: int) -> None:
        super().__init__(path)
        self._left = writes

    def write(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        if self._left == 0:
            raise Killed
        self._left -= 1
        super().write(changes)


def run(
    words: Sequence[Word],
    store: Store,
    path: Path,
    partitions: int = 2,
    memory: int = AMPLE,
    size: int = 10,
    **engine: int,
) -> None:
    make_topology = partial(topology, partitions)
    beside = partial(TasksBeside, request=BesideRequest(make_topology, ("far",), path, memory))
    with closing(EmbeddedEngine(make_topology(), store, start_beside=beside, **engine)) as opened:
        opened.run(feeds(words, store, size))


def outcome(store: Store) -> dict[bytes, bytes]:
    prefixes = ("near counts", "far counts", "dead.letters")
    return {key: value for prefix in prefixes for key, value in store.scan(view_prefix(prefix))}


def undisturbed(words: Sequence[Word], partitions: int = 2) -> dict[bytes, bytes]:
    store = MemoryStore()
    EmbeddedEngine(topology(partitions), store).run(feeds(words, store, 10**9))
    return outcome(store)


def counts_of(found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: value for key, value in found.items() if b"dead" not in key}


NAMES = st.sampled_from(["a", "b", "c", "a'", "é", "poison near", "poison far"])
WORDS = st.lists(st.builds(Word, NAMES, st.integers(0, 5)), min_size=1, max_size=30)


@given(
    words=WORDS,
    partitions=st.integers(1, 3),
    batch=st.integers(1, 7),
    commit=st.integers(1, 9),
    size=st.integers(1, 30),
    memory=st.sampled_from([TINY, AMPLE]),
    kills=st.lists(st.integers(0, 6), max_size=3),
)
@settings(max_examples=15, deadline=None)
def test_killed_and_resumed_equals_one_process_undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
    words: list[Word], partitions: int, batch: int, commit: int, size: int, memory: int, kills: list[int],
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("state")
    for writes in [*kills, 10**9]:
        store = DoomedStore(path, writes)
        with suppress(Killed):
            run(words, store, path, partitions, memory, size, batch_messages_max=batch, commit_messages=commit)
        store.close()
    store = MeasuredStore(path)
    expected, got = undisturbed(words, partitions), outcome(store)
    assert counts_of(got) == counts_of(expected)
    assert sum(b"dead" in key for key in got) == sum(b"dead" in key for key in expected)
    assert not list(store.scan(b"queue/")), "messages were left behind"
    store.close()


def test_more_changes_than_are_kept_in_memory(tmp_path: Path) -> None:
    words = [Word(f"word {number % 50}", 4) for number in range(600)]
    store = MeasuredStore(tmp_path)
    run(words, store, tmp_path, memory=TINY, commit_messages=100)
    assert outcome(store) == undisturbed(words)
    store.close()


@pytest.mark.parametrize(("failure", "ending"), [("no memory", "out of memory"), ("kill", "exit code -9")])
def test_an_error_that_no_message_caused_ends_the_run_and_it_resumes(tmp_path: Path, failure: str, ending: str) -> None:
    cause, path = tmp_path / "cause", tmp_path / "state"
    cause.write_text(failure)
    words = [*(Word(f"word {number % 40}", 2) for number in range(1_200)), Word(str(cause), 1), Word("later", 2)]
    store = MeasuredStore(path)
    with pytest.raises(BrokenProgram, match=ending):
        run(words, store, path, commit_messages=10)
    store.close()
    cause.unlink()
    store = MeasuredStore(path)
    assert int(store.get(POSITION) or b"0") >= 512, "it ended before the first commit"
    run(words, store, path)
    assert outcome(store) == undisturbed(words)
    store.close()


def test_a_run_that_waits_for_input_has_processed_all_before(tmp_path: Path) -> None:
    """Messages beside are processed while the main process waits; the commit with the next input has them."""
    words, store = [Word("a", 5), Word("b", 5)], MeasuredStore(tmp_path)
    now, seen = [0.0], list[bytes]()

    def slowly() -> Iterator[Feed]:
        first, second = feeds(words, store, 1)
        yield first
        now[0] += 10.0
        yield second
        seen.append(store.get(POSITION) or b"")

    beside = partial(TasksBeside, request=BesideRequest(partial(topology, 2), ("far",), tmp_path, AMPLE))
    with closing(EmbeddedEngine(topology(2), store, start_beside=beside, clock=lambda: now[0])) as engine:
        engine.run(slowly())
    assert seen == [b"2"]
    store.close()


class Noting(Watcher):
    def __init__(self) -> None:
        self.openings: list[Opening] = []

    def opening(self, opening: Opening) -> None:
        self.openings.append(opening)


def run_pages(folder: Path, jobs: int, watcher: Watcher | None = None) -> RunSummary:
    out = folder / f"out-{jobs}"
    request = RunRequest([str(folder / "web.jsonl")], out, out / "state", Settings(partitions=3), jobs, memory_mb=8)
    return run_job(request, watcher)


def test_a_run_on_several_cores_has_the_outcome_of_one_core(tmp_path: Path) -> None:
    write(700, 5, tmp_path / "web.jsonl")
    with (tmp_path / "web.jsonl").open("ab") as file:
        file.write(b" " * (9 << 20) + b"\n")  # large enough for several processes
    alone, together = run_pages(tmp_path, 1), run_pages(tmp_path, 2)
    assert together.state_hash == alone.state_hash
    for name in ("status.jsonl", "groups.jsonl", "rules.jsonl", "rejected.jsonl"):
        assert (tmp_path / "out-2" / name).read_bytes() == (tmp_path / "out-1" / name).read_bytes()
    assert together.messages["tier2"] > 700 and together.seconds_per_stage["tier2"] > 0


def test_opening_a_state_beside_tells_the_rows_read(tmp_path: Path) -> None:
    words = [Word(f"word {number}", 4) for number in range(200)]
    store, openings = MeasuredStore(tmp_path), list[Opening]()
    run(words, store, tmp_path)
    beside = partial(TasksBeside, request=BesideRequest(partial(topology, 2), ("far",), tmp_path, AMPLE))
    EmbeddedEngine(topology(2), store, start_beside=beside, on_open=openings.append).close()
    store.close()
    assert sorted({each.number for each in openings}) == [1, 2, 3, 4]
    assert {each.tasks for each in openings} == {4}
    assert next(each.task for each in openings if each.number > 2).startswith("far")
    assert sorted(each.rows for each in openings) == [each.rows for each in openings]
    assert openings[-1].rows > 300


def test_ctrl_c_is_left_to_the_main_process_which_ends_the_other(tmp_path: Path) -> None:
    store, before = MeasuredStore(tmp_path), multiprocessing.active_children()
    beside = partial(TasksBeside, request=BesideRequest(partial(topology, 2), ("far",), tmp_path, AMPLE))
    engine = EmbeddedEngine(topology(2), store, start_beside=beside)
    [process] = set(multiprocessing.active_children()) - set(before)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)  # a terminal sends it to all processes
    engine.run(feeds([Word("a", 3)], store, 1))
    engine.close()
    assert process not in multiprocessing.active_children()
    store.close()
