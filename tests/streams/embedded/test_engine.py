"""The embedded engine on a small topology: whatever is killed when, and however batches are cut, same outcome."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from numba.core.errors import NumbaError

from dustream.core.errors import BadSetting, BrokenProgram
from dustream.core.processor import Send, TaskState
from dustream.core.topology import ProcessorSpec, TableSpec, Topic, Topology
from dustream.streams.embedded.engine import GATHERED_MESSAGES, EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.store.base import Change, Store
from dustream.streams.store.memory import MemoryStore

POSITION = b"meta/position"


class Word(Struct, frozen=True, array_like=True):
    url: str
    echoes: int


class Count(Struct, frozen=True, array_like=True):
    count: int


class Counter:
    """Counts each word, and echoes it to a neighbour a few times; derived state must equal the table."""

    def open(self, state: TaskState) -> None:
        self.total = sum(row.count for _, row in state.table("counts").scan())

    def process(self, state: TaskState, messages: Sequence[Word]) -> list[Send]:
        table = state.table("counts")
        sends = []
        for word in messages:
            if word.url == "poison":
                table.put("poison", Count(1))
                raise ValueError("cannot count this")
            before = table.get(word.url)
            now = Count((before.count if before else 0) + 1)
            table.put(word.url, now)
            self.total += 1
            if self.total != sum(row.count for _, row in table.scan()):
                raise AssertionError("derived state and table differ")
            if word.echoes:
                sends.append(Send("words", word.url + "'", Word(word.url + "'", word.echoes - 1)))
            sends.append(Send("counts", word.url, now))
        return sends


def topology(partitions: int) -> Topology:
    return Topology(
        topics=(
            Topic("words", "url", Word),
            Topic("counts", "url", Count, public=True, compacted=True),
            Topic("dead.letters", "source", None, public=True),
        ),
        processors=(
            ProcessorSpec(
                "count", "words", ("counts", "dead.letters"), (TableSpec("counts", Count),), partitions, Counter
            ),
        ),
    )


def feeds(words: Sequence[Word], store: Store, size: int) -> Iterator[Feed]:
    """The rest of the input, from the position in the store."""
    at = int(store.get(POSITION) or b"0")
    while at < len(words):
        chunk = words[at : at + size]
        at += len(chunk)
        yield Feed([Send("words", word.url, word) for word in chunk], [(POSITION, b"%d" % at)])


class Killed(Exception):
    pass


class DoomedStore(MemoryStore):
    """Stops working just before its n-th batch."""

    def __init__(self, survivor: MemoryStore, writes: int) -> None:
        self._rows, self._keys = survivor._rows, survivor._keys
        self._left = writes

    def write(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        if self._left == 0:
            raise Killed
        self._left -= 1
        super().write(changes)


def outcome(store: Store) -> dict[bytes, bytes]:
    return {key: value for prefix in ("counts", "dead.letters") for key, value in store.scan(view_prefix(prefix))}


def undisturbed(words: Sequence[Word]) -> dict[bytes, bytes]:
    store = MemoryStore()
    EmbeddedEngine(topology(1), store).run(feeds(words, store, 10**9))
    return outcome(store)


WORDS = st.lists(
    st.builds(Word, st.sampled_from(["a", "b", "c", "a'", "é", "poison"]), st.integers(0, 4)), min_size=1, max_size=25
)


@given(
    words=WORDS,
    partitions=st.integers(1, 4),
    batch=st.integers(1, 7),
    commit=st.integers(1, 9),
    size=st.integers(1, 30),
    kills=st.lists(st.integers(0, 6), max_size=4),
)
@settings(max_examples=150)
def test_killed_and_resumed_equals_undisturbed(
    words: list[Word], partitions: int, batch: int, commit: int, size: int, kills: list[int]
) -> None:
    store = MemoryStore()
    for writes in kills:
        doomed = DoomedStore(store, writes)
        try:
            engine = EmbeddedEngine(topology(partitions), doomed, batch_messages_max=batch, commit_messages=commit)
            engine.run(feeds(words, doomed, size))
        except Killed:
            continue
    engine = EmbeddedEngine(topology(partitions), store, batch_messages_max=batch, commit_messages=commit)
    engine.run(feeds(words, store, size))
    expected, got = undisturbed(words), outcome(store)
    assert {k: v for k, v in got.items() if b"dead" not in k} == {k: v for k, v in expected.items() if b"dead" not in k}
    assert sum(b"dead" in k for k in got) == sum(b"dead" in k for k in expected)
    assert not list(store.scan(b"queue/")), "messages were left behind"


class Watching(Counter):
    """Notes how many messages each step had."""

    steps: ClassVar[list[int]] = []

    def process(self, state: TaskState, messages: Sequence[Word]) -> list[Send]:
        self.steps.append(len(messages))
        return super().process(state, messages)


def test_small_feeds_are_gathered_and_the_collector_is_left_as_it_was() -> None:
    Watching.steps, thresholds = [], gc.get_threshold()
    spec = replace(topology(1).processors[0], make=Watching)
    engine = EmbeddedEngine(replace(topology(1), processors=(spec,)), MemoryStore())
    engine.run(Feed([Send("words", "a", Word("a", 0))]) for _ in range(GATHERED_MESSAGES + 5))
    assert Watching.steps == [GATHERED_MESSAGES, 5]
    assert gc.get_threshold() == thresholds


def test_failing_message_becomes_a_dead_letter_and_leaves_no_trace() -> None:
    store = MemoryStore()
    words = [Word("a", 0), Word("poison", 0), Word("a", 0)]
    EmbeddedEngine(topology(1), store).run(feeds(words, store, 3))
    assert outcome(store)[b"view/counts/a"] == b"[2]"
    assert not [key for key, _ in store.scan(b"task/") if b"poison" in key]
    [letter] = [msgspec.json.decode(value) for key, value in outcome(store).items() if b"dead" in key]
    assert letter["url"] == "poison"
    assert "cannot count this" in letter["reason"]


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'moved'"), MemoryError(), NumbaError("no such")]
)
def test_an_error_that_no_message_caused_ends_the_run(error: Exception) -> None:
    class Broken(Counter):
        def process(self, state: TaskState, messages: Sequence[Word]) -> list[Send]:
            if any(word.url == "b" for word in messages):
                raise error
            return super().process(state, messages)

    store, words = MemoryStore(), [Word("a", 0), Word("b", 0)]
    broken = replace(topology(1), processors=(replace(topology(1).processors[0], make=Broken),))
    with pytest.raises(BrokenProgram, match="run the same command again"):
        EmbeddedEngine(broken, store).run(feeds(words, store, 2))
    assert outcome(store) == {}
    EmbeddedEngine(topology(1), store).run(feeds(words, store, 2))
    assert outcome(store) == undisturbed(words)


def test_partition_out_of_range_is_refused() -> None:
    store = MemoryStore()
    engine = EmbeddedEngine(topology(2), store)
    with pytest.raises(BadSetting, match="partition 2 does not exist"):
        engine.run([Feed([Send("words", 2, Word("a", 0))])])


def test_topology_with_an_undeclared_topic_is_refused() -> None:
    with pytest.raises(BadSetting, match="nowhere"):
        Topology(topics=(), processors=(ProcessorSpec("x", "nowhere", (), (), 1, Counter),))


def test_topology_can_be_printed() -> None:
    text = topology(3).describe()
    assert "count" in text and "[3 partitions]" in text and "public JSON, compacted" in text
