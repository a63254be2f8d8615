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
