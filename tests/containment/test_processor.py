"""The containment processor: what it proposes follows from who is posted, also after a restart."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.containment.rows import PostedPages, page_id
from dustream.core.containment.sketch import sketch_of
from dustream.core.pipeline import CONTAINMENT, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.schemas.containment import Post, Unpost
from dustream.streams.engine.tables import TaskTables
from dustream.streams.store.memory import MemoryStore

SPEC = next(spec for spec in pipeline(Settings()).processors if spec.name == CONTAINMENT)


def post(home: int, pages: dict[int, range]) -> Post:
    """Pages by serial, with these numbers as shingles."""
    sketches = [sketch_of(np.array(shingles, dtype=np.uint64) * np.uint64(7919), "") for shingles in pages.values()]
    return Post(
        home,
        PostedPages(
            np.array(list(pages), dtype=np.int64),
            np.array([len(shingles) for shingles in pages.values()], dtype=np.int32),
            np.array([sketch.masks for sketch in sketches]),
            np.array([sketch.terms.size for sketch in sketches], dtype=np.int32),
            np.concatenate([sketch.terms for sketch in sketches]),
            np.concatenate([sketch.kinds for sketch in sketches]),
        ).postings(),
    )


def unpost(home: int, *serials: int) -> Unpost:
    return Unpost(home, np.array(serials, dtype="<i8").tobytes())


def proposed(sends: list[Send]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for send in sends:
        columns = (send.message.pages, send.message.containers, send.message.changes)
        for page, container, change in zip(
            *(np.frombuffer(each, dtype="<i8").tolist() for each in columns), strict=True
        ):
            assert page >> 48 == send.key, "to the page's home"
            found[page, container] += change
    return found


def test_pages_meet_across_homes_and_restarts() -> None:
    tables = TaskTables(MemoryStore(), SPEC, 0)
    first = ContainmentProcessor()
    first.open(tables)
    assert not first.process(
        tables, [post(3, {serial: range(serial * 1_000, serial * 1_000 + 60) for serial in range(40)})]
    )
    second = ContainmentProcessor()
    second.open(tables)  # from the rows
    met = second.process(tables, [post(1, {7: range(5_000, 5_080)})])
    page, container = page_id(3, 5), page_id(1, 7)
    assert proposed(met)[page, container] > 0 and {pair[0] for pair in proposed(met)} == {page}
    third = ContainmentProcessor()
    third.open(tables)
    assert proposed(third.process(tables, [unpost(1, 7)])) == {pair: -n for pair, n in proposed(met).items()}
    assert not third.process(tables, [unpost(1, 7), unpost(2, 9)]), "unknown pages are nobody's loss"


def test_a_page_that_comes_and_goes_within_a_batch_is_never_proposed() -> None:
    tables = TaskTables(MemoryStore(), SPEC, 0)
    task = ContainmentProcessor()
    task.open(tables)
    messages = [post(0, {1: range(60)}), post(0, {2: range(70)}), unpost(0, 2)]
    assert not task.process(tables, messages)
    assert [key for key, _ in tables.table("posted").scan()] == ["00000000000000"]
