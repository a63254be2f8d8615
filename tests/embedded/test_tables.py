"""A task's table behaves like a sorted dictionary, whatever is committed, cached or taken back when."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dustream.core.topology import TableSpec
from dustream.streams.embedded.tables import TaskTable
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


@given(steps=STEPS)
@settings(max_examples=200, deadline=None)
def test_table_equals_a_dictionary(steps: list[tuple[str, str, int]]) -> None:
    store, spec = MemoryStore(), TableSpec("numbers", Number)
    table: TaskTable[Number] = TaskTable(store, b"t/", spec, cache_rows_max=2)
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
                table = TaskTable(store, b"t/", spec, cache_rows_max=2)
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
@settings(max_examples=100, deadline=None)
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
