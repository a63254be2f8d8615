"""One contract, every backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.errors import StateMismatch
from dustream.streams.store.base import Change, Store
from dustream.streams.store.extent import open_to_read
from dustream.streams.store.handed_over import HandedOver
from dustream.streams.store.memory import MemoryStore
from dustream.streams.store.rocks import RocksStore


class Handing(HandedOver):
    """Hands its changes over to another store, which writes them at once; catches up at every third batch."""

    def __init__(self, path: Path) -> None:
        self._writer = RocksStore(path)
        self._batches = 0
        super().__init__(lambda: open_to_read(path))

    def write(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        super().write(changes)
        self._writer.write(changes)
        self._batches += 1
        if self._batches % 3 == 0:
            assert self.bytes_held or not any(key or value for key, value in changes)
            self.catch_up()
            assert not self.bytes_held

    def close(self) -> None:
        super().close()
        self._writer.close()


BACKENDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "rocks": RocksStore,
    "handed over": Handing,
}


@pytest.fixture(params=sorted(BACKENDS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = BACKENDS[request.param](tmp_path / "db")
    yield opened
    opened.close()


def test_get_put_delete(store: Store) -> None:
    assert store.get(b"a") is None
    store.put(b"a", b"1")
    store.put(b"a", b"2")
    assert store.get(b"a") == b"2"
    store.delete(b"a")
    store.delete(b"a")
    assert store.get(b"a") is None


def test_empty_values_and_any_bytes_are_kept(store: Store) -> None:
    store.put(b"\x00\xff", b"")
    store.put(b"\xff\xff", b"\x00")
    assert list(store.scan()) == [(b"\x00\xff", b""), (b"\xff\xff", b"\x00")]


def test_scan_is_ordered_and_bounded_by_the_prefix(store: Store) -> None:
    for key in (b"b", b"a/2", b"a/10", b"a", b"a0"):
        store.put(key, b"")
    assert [key for key, _ in store.scan(b"a/")] == [b"a/10", b"a/2"]
    assert [key for key, _ in store.scan()] == [b"a", b"a/10", b"a/2", b"a0", b"b"]


def test_a_prefix_may_end_in_the_highest_byte(store: Store) -> None:
    for key in (b"a", b"a\xff", b"a\xff\xff1", b"b", b"\xff\xff"):
        store.put(key, b"")
    assert [key for key, _ in store.scan(b"a\xff")] == [b"a\xff", b"a\xff\xff1"]
    assert [key for key, _ in store.scan(b"\xff")] == [b"\xff\xff"]


def test_scan_sees_the_state_as_it_was_when_it_began(store: Store) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")])
    scan = store.scan()
    first = next(scan)
    store.write([(b"b", None), (b"c", b"1")])
    assert [first, *scan] == [(b"a", b"1"), (b"b", b"1")]


def test_later_change_of_a_key_in_one_batch_wins(store: Store) -> None:
    store.write([(b"a", b"1"), (b"a", None), (b"b", None), (b"b", b"2")])
    assert list(store.scan()) == [(b"b", b"2")]


def test_batch_whose_changes_fail_writes_nothing(store: Store) -> None:
    def changes() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"1"
        raise RuntimeError("the caller fails half way")

    with pytest.raises(RuntimeError):
        store.write(changes())
    assert list(store.scan()) == []


CHANGES = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=20)


@given(batches=st.lists(CHANGES, max_size=5), prefix=st.binary(max_size=2), after=st.binary(max_size=3))
@settings(max_examples=60)
def test_backends_agree(tmp_path_factory: pytest.TempPathFactory, batches: list, prefix: bytes, after: bytes) -> None:
    stores = [make(tmp_path_factory.mktemp("db") / "db") for make in BACKENDS.values()]
    for batch in batches:
        for each in stores:
            each.write(batch)
    everything = [list(each.scan()) for each in stores]
    results = [list(each.scan(prefix, after)) for each in stores]
    for each in stores:
        each.close()
    assert all(each == everything[0] for each in everything)
    expected = [pair for pair in everything[0] if pair[0].startswith(prefix) and (pair[0] > after or not after)]
    assert all(each == expected for each in results)


def test_reopened_rocks_store_has_everything(tmp_path: Path) -> None:
    first = RocksStore(tmp_path)
    first.write([(b"a", b"1")])
    first.close()
    first.close()
    again = RocksStore(tmp_path)
    assert again.get(b"a") == b"1"
    again.close()


WRITER = """
import sys
from pathlib import Path
from dustream.streams.store.rocks import RocksStore
store = RocksStore(Path(sys.argv[1]))
for n in range(10**9):
    store.write([(b"a%d" % i, b"%d" % n) for i in range(200)])
    print(n, flush=True)
"""


def test_killed_writer_leaves_whole_batches(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(20)][-1]
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    store = RocksStore(tmp_path)
    values = {value for _, value in store.scan()}
    store.close()
    assert len(values) == 1, "a batch was torn"
    assert int(values.pop()) >= acknowledged, "an acknowledged batch was lost"


def test_second_writer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    first = RocksStore(tmp_path)
    with pytest.raises(StateMismatch, match="in use by another run"):
        RocksStore(tmp_path)
    reader = RocksStore(tmp_path, read_only=True)
    reader.close()
    first.close()


def test_reading_a_state_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StateMismatch, match="there is no state"):
        RocksStore(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()
