"""A small topology of two processors that send each other messages, for engines that run one of them elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from dustream.core.processor import Send, TaskState
from dustream.core.topology import ProcessorSpec, TableSpec, Topic, Topology
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.feed import Feed
from dustream.streams.store.base import Store

POSITION = b"meta/position"
TAIL_BYTES = 500


class Word(Struct, frozen=True, array_like=True):
    url: str
    bounces: int


class Count(Struct, frozen=True, array_like=True):
    count: int
    tail: bytes = b"." * TAIL_BYTES


def fail(path: str) -> None:
    """As long as the file is there."""
    if Path(path).read_text() == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise MemoryError("none left")


class Counter:
    """Counts words and passes them on, as often as they bounce. Derived state must equal the table, wherever that is
    read from."""

    topic, next_topic = "near", "far"

    def open(self, state: TaskState) -> None:
        self.total = sum(row.count for _, row in state.table("counts").scan())
        self.at_rest_sent = state.table("counts").get("rested") is not None

    def process(self, state: TaskState, messages: Sequence[Word]) -> list[Send]:
        table = state.table("counts")
        sends = []
        for word in messages:
            if word.url.startswith(f"poison {self.topic}"):
                table.put(word.url, Count(1))
                raise ValueError("cannot count this")
            if self.topic == "far" and word.url.startswith("/") and os.path.exists(word.url):
                fail(word.url)
            before = table.get(word.url)
            now = Count((before.count if before else 0) + 1)
            table.put(word.url, now)
            if now.count % 3 == 0:
                table.put(f"gone {word.url}", now)
                table.delete(f"gone {word.url}")
            self.total += 1
            if self.total != sum(row.count for _, row in table.scan()):
                raise AssertionError("derived state and table differ")
            if word.bounces:
                sends.append(Send(self.next_topic, word.url, Word(word.url, word.bounces - 1)))
            sends.append(Send(f"{self.topic} counts", f"{self.topic} {word.url}", now))
        return sends

    def at_rest(self, state: TaskState) -> list[Send]:
        """Once, send a word to the other side and to this one."""
        if self.at_rest_sent:
            return []
        self.at_rest_sent = True
        state.table("counts").put("rested", Count(0))
        word = f"rest of {self.topic} {state.partition}"
        return [Send(topic, word, Word(word, 1)) for topic in (self.next_topic, self.topic)]


class FarCounter(Counter):
    topic, next_topic = "far", "near"


def topology(partitions: int) -> Topology:
    counts = (TableSpec("counts", Count),)
    outputs = ("near", "far", "near counts", "far counts", "dead.letters")
    return Topology(
        topics=(
            Topic("near", "url", Word),
            Topic("far", "url", Word),
            Topic("near counts", "url", Count, public=True, compacted=True),
            Topic("far counts", "url", Count, public=True, compacted=True),
            Topic("dead.letters", "source", DeadLetter, public=True),
        ),
        processors=(
            ProcessorSpec("near", "near", outputs, counts, partitions, Counter),
            ProcessorSpec("far", "far", outputs, counts, partitions, FarCounter),
        ),
    )


def feeds(words: Sequence[Word], store: Store, size: int) -> Iterator[Feed]:
    """The rest of the input, from the position in the store."""
    at = int(store.get(POSITION) or b"0")
    while at < len(words):
        chunk = words[at : at + size]
        at += len(chunk)
        yield Feed([Send("near", word.url, word) for word in chunk], [(POSITION, b"%d" % at)])
