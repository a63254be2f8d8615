"""A small topology with every difficulty in it, and a worker for it that crashes where it is told to.

    lines (written by anybody) ─► read ─► words (linked) ─► count ─► counts (compacted)      seen (a log)
                                            ▲      │ echoes
                                            └──────┘

Each line says "WORD ECHOES"; each word is counted at its own partition, and echoes to a neighbour. `seen` gets one
record for every word counted: its length shows anything lost or done twice, whatever the counts look like.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from dustream.core.processor import Send, TaskState
from dustream.core.topology import ProcessorSpec, TableSpec, Topic, Topology
from dustream.streams.kafka import worker
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.records import InRecord
from dustream.streams.kafka.worker_log import configure_log
from dustream.streams.kafka.worker_options import WorkerOptions

PARTITIONS = 4
ROUND_BYTES = 256  # some fifty lines: what a test writes takes many transactions, for faults to fall between


class Word(Struct, frozen=True, array_like=True):
    url: str
    echoes: int


class Count(Struct, frozen=True, array_like=True):
    count: int


class Read:
    """Stateless, like intake: its messages are the records."""

    def open(self, state: TaskState) -> None:
        pass

    def process(self, state: TaskState, messages: Sequence[InRecord]) -> list[Send]:
        sends = []
        for record in messages:
            word, echoes = (record.value or b"").decode().split()
            sends.append(Send("words", word, Word(word, int(echoes))))
        return sends


class CountWords:
    """Counts each word; derived state must equal the table."""

    is_broken: ClassVar[bool] = False

    def open(self, state: TaskState) -> None:
        self.total = sum(row.count for _, row in state.table("counts").scan())

    def process(self, state: TaskState, messages: Sequence[Word]) -> list[Send]:
        table = state.table("counts")
        sends = []
        for word in messages:
            before = table.get(word.url)
            now = Count((before.count if before else 0) + 1)
            table.put(word.url, now)
            self.total += 1
            if word.url.startswith("module") and self.is_broken:
                raise ModuleNotFoundError("No module named 'moved'")
            if word.url.startswith("poison"):
                raise ValueError("cannot count this")
            if word.url.startswith("forget"):
                table.delete(word.url)
            if word.echoes:
                sends.append(Send("words", word.url + "'", Word(word.url + "'", word.echoes - 1)))
            sends.append(Send("counts", word.url, now))
            sends.append(Send("seen", word.url, word))
        return sends


def topology(partitions: int = PARTITIONS) -> Topology:
    return Topology(
        topics=(
            Topic("lines", "url", None, public=True),
            Topic("words", "url", Word),
            Topic("counts", "url", Count, public=True, compacted=True),
            Topic("seen", "url", Word, public=True),
            Topic("dead.letters", "source", None, public=True),
        ),
        processors=(
            ProcessorSpec("read", "lines", ("words", "dead.letters"), (), partitions, Read),
            ProcessorSpec(
                "count",
                "words",
                ("words", "counts", "seen", "dead.letters"),
                (TableSpec("counts", Count),),
                partitions,
                CountWords,
            ),
        ),
    )


def expected(lines: Sequence[str]) -> Counter[str]:
    """How often each word is counted."""
    counts: Counter[str] = Counter()
    for line in lines:
        word, echoes = line.split()
        for number in range(int(echoes) + 1):
            counts[word + "'" * number] += 1
    return counts


def signal_at(number: signal.Signals, moment: str, times: int) -> Callable[[str], None]:
    """Kill this process, as kill -9 does, or stop it, when it comes to a moment for the n-th time."""
    left = times

    def fault(now: str) -> None:
        nonlocal left
        if now == moment:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)

    return fault


class ForgetfulTasks(AssignedTasks):
    """Throws away a few of the records that Faust delivers of a topic: as Faust itself does around a rebalance. Takes
    its time to close tasks: as one does that is busy with a long round."""

    closes_after_s: float = 0.0
    forgets: tuple[str, ...] = ()
    which: range = range(0)
    delivered: ClassVar[Counter[str]] = Counter()

    async def deliver(self, message: Any) -> None:
        if message.topic.endswith(self.forgets):
            self.delivered[message.topic] += 1
            if self.delivered[message.topic] in self.which:
                logging.warning("thrown away: a record of %s", message.topic)
                return
        await super().deliver(message)

    async def close(self, tp: Any) -> None:
        await asyncio.sleep(self.closes_after_s)
        await super().close(tp)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("data", type=Path)
    parser.add_argument("--crash", nargs=2, default=("never", "1"), metavar=("MOMENT", "TIMES"))
    parser.add_argument("--stop", nargs=2, default=("never", "1"), metavar=("MOMENT", "TIMES"))
    parser.add_argument("--forget", nargs=3, default=("nothing", "0", "0"), metavar=("TOPICS", "FIRST", "AFTER"))
    parser.add_argument("--close-after", type=float, default=0.0, metavar="S")
    parser.add_argument("--broken", action="store_true", help="a module is missing that some words need")
    parser.add_argument("--processors", nargs="+", default=())
    parser.add_argument("--session-timeout", type=float, default=3.0)
    args = parser.parse_args()
    CountWords.is_broken = args.broken
    ForgetfulTasks.forgets = tuple(args.forget[0].split(","))
    ForgetfulTasks.closes_after_s = args.close_after
    ForgetfulTasks.which = range(int(args.forget[1]), int(args.forget[2]))
    stages = tuple(args.processors)
    options = WorkerOptions(args.data, stages, None, args.session_timeout, drain_timeout_s=5, round_bytes=ROUND_BYTES)
    crash = signal_at(signal.SIGKILL, args.crash[0], int(args.crash[1]))
    stop = signal_at(signal.SIGSTOP, args.stop[0], int(args.stop[1]))

    def fault(moment: str) -> None:
        crash(moment)
        stop(moment)

    application, metrics = Application(args.name), Metrics()
    worker.AssignedTasks = ForgetfulTasks  # type: ignore[misc]
    await worker.Worker(KafkaCluster(args.bootstrap), application, topology(), "toy", options, metrics, fault).run()
    print(metrics.text())


if __name__ == "__main__":
    configure_log("info", as_json=False)
    if without := os.environ.get("DUSTREAM_TOY_WITHOUT"):
        from mutants import mutate

        mutate(without)
    asyncio.run(main())
