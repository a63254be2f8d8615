"""A task's table behaves like a sorted dictionary, whatever is committed, cached or taken back when."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dustream.core.topology import TableSpec
from dustream.streams.engine.tables import StoredKeys, TaskTable
from dustream.streams.store.memory import MemoryStore


class Number(Struct, frozen=True, array_like=True):
    value: int


KEYS = st.text("ab\x00é", max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.sampled_from(["delete", "get", "scan"]), KEYS, st.integers(0, 9)),
        st.tuples(st.sampled_from(["accept", "undo", "commit", "reopen"]), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS, began_empty=st.booleans())
@settings(max_examples=200)
def test_table_equals_a_dictionary(steps: list[tuple[str, str, int]], began_empty: bool) -> None:
    store, spec, stored = MemoryStore(), TableSpec("numbers", Number), StoredKeys() if began_empty else None
    table: TaskTable[Number] = TaskTable(store, b"t/", spec, cache_rows_max=2, stored=stored)
    model: dict[str, int] = {}
    accepted: dict[str, int] = {}
    for step, key, value in steps:
        if step == "put":
            table.put(key, Number(value))
            model[key] = value
        elif step == "delete":
            table.delete(key)
            model.pop(key, None)
        elif step == "get":
            row = table.get(key)
            assert (row and row.value) == model.get(key)
        elif step == "scan":
            after = key[:1] + "a" if value > 5 else ""
            expected = [(k, v) for k, v in sorted(model.items()) if k.startswith(key) and (not after or k > after)]
            assert [(k, row.value) for k, row in table.scan(key, after)] == expected
        elif step == "undo":
            table.undo()
            model = dict(accepted)
        else:
            table.accept()
            accepted = dict(model)
            if step in ("commit", "reopen"):
                store.write(table.drain())
            if step == "reopen":
                table = TaskTable(store, b"t/", spec, cache_rows_max=2, stored=stored)
    assert {k: row.value for k, row in table.scan()} == model


def test_rows_written_during_a_scan_do_not_disturb_it() -> None:
    table: TaskTable[Number] = TaskTable(MemoryStore(), b"t/", TableSpec("numbers", Number))
    for key in "abc":
        table.put(key, Number(1))
    seen = []
    for key, _ in table.scan():
        table.delete(key)
        table.put(key + "'", Number(2))
        seen.append(key)
    assert seen == ["a", "b", "c"]


@given(
    rows=st.dictionaries(st.integers(0, 400), st.booleans(), max_size=300),
    writes=st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=150),
    every=st.integers(1, 5),
)
@settings(max_examples=100)
def test_a_long_scan_shows_the_rows_as_they_were_when_it_began(
    rows: dict[int, bool], writes: list[tuple[int, bool]], every: int
) -> None:
    """Half of the rows are committed; while it scans, the caller puts and deletes before and behind the scan."""
    store = MemoryStore()
    table: TaskTable[Number] = TaskTable(store, b"t/", TableSpec("numbers", Number))
    for key, committed in rows.items():
        if committed:
            table.put(f"{key:04d}", Number(key))
    table.accept()
    store.write(table.drain())
    for key, committed in rows.items():
        if not committed:
            table.put(f"{key:04d}", Number(key))
    seen, left = [], list(writes)
    for at, (key, row) in enumerate(table.scan()):
        seen.append((key, row.value))
        if at % every == 0 and left:
            number, is_put = left.pop()
            table.put(f"{number:04d}", Number(-1) if is_put else None)
    assert seen == [(f"{key:04d}", key) for key in sorted(rows)]


class CountedStore(MemoryStore):
    """Counts what it is asked."""

    asked = 0

    def get(self, key: bytes) -> bytes | None:
        self.asked += 1
        return super().get(key)

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        self.asked += 1
        return super().scan(prefix, after)


def test_what_a_store_that_began_empty_never_held_is_not_asked_for_and_not_deleted() -> None:
    store, stored = CountedStore(), StoredKeys()
    table: TaskTable[Number] = TaskTable(store, b"t/", TableSpec("numbers", Number), cache_rows_max=2, stored=stored)
    for key in "abcdef":
        table.put(key, Number(1))
    table.put("short-lived", Number(2))
    table.delete("short-lived")
    changes = list(table.drain())
    assert [key for key, _ in changes] == [b"t/" + key.encode() for key in "abcdef"]
    store.write(changes)
    assert table.get("never") is None and not store.asked
    row = table.get("a")
    assert row is not None and row.value == 1 and store.asked == 1


def test_a_scan_asks_a_store_that_began_empty_only_for_groups_that_it_has() -> None:
    store, spec = CountedStore(), TableSpec("numbers", Number)
    table: TaskTable[Number] = TaskTable(store, b"t/", spec, stored=StoredKeys())
    table.put("old\0a", Number(1))
    store.write(table.drain())
    table.put("new\0b", Number(2))
    assert [key for key, _ in table.scan("new\0")] == ["new\0b"]
    assert not list(table.scan("new\0b\0")) and not store.asked
    assert [key for key, _ in table.scan("old\0")] == ["old\0a"] and store.asked == 1
    assert [key for key, _ in table.scan("o")] == ["old\0a"] and store.asked == 2
