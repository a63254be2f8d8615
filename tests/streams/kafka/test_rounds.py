"""Rounds: what a worker's tasks do and write in one transaction. No broker is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import toy
from aiokafka.producer.message_accumulator import BatchBuilder

from dustream.core.errors import StateMismatch
from dustream.core.processor import Send, TaskState
from dustream.core.topology import Topology, partition_of
from dustream.streams.engine.tables import StoredKeys
from dustream.streams.kafka import round as round_module
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import PROGRESS_KEY
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.local_state import LocalState
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.progress import TaskProgress, decode_progress
from dustream.streams.kafka.records import InRecord, LinkBatch, pack_link_batches, read_link_batches
from dustream.streams.kafka.round import Round, Written
from dustream.streams.kafka.task import KafkaTask, Runtime
from dustream.streams.kafka.transactions import Place, Transactions, waves

APPLICATION = Application("t")
LINES = [f"w{number % 7} {number % 3}" for number in range(60)]
Tasks = dict[Place, KafkaTask]


class RestingCount(toy.CountWords):
    """Has something to say when nothing comes any more."""

    def at_rest(self, state: TaskState) -> list[Send]:
        return [Send("counts", "all", toy.Count(self.total))]


@pytest.fixture
def make_tasks(tmp_path: Path) -> Iterator[Callable[[Topology], Tasks]]:
    state, readers = LocalState(tmp_path), ThreadPoolExecutor(1)

    def make(topology: Topology) -> Tasks:
        transactions = Transactions(KafkaCluster(), APPLICATION, tmp_path)
        runtime = Runtime(
            KafkaCluster(), APPLICATION, topology, "toy", state, StoredKeys(), readers, Metrics(), transactions
        )
        tasks = {
            (spec.input, partition): KafkaTask(spec, partition, runtime)
            for spec in topology.processors
            for partition in range(spec.partitions)
        }
        for task in tasks.values():
            task.load()
        return tasks

    yield make
    readers.shutdown()
    state.close()


def work(topology: Topology, tasks: Tasks, lines: Sequence[str] = (), more: Sequence[InRecord] = ()) -> Written:
    """One round with these lines, and with records of the words log."""
    round_ = Round(topology, APPLICATION, "me", tasks, Metrics())
    values: dict[int, list[bytes]] = {}
    for line in lines:
        values.setdefault(partition_of(line.split()[0], 2), []).append(line.encode())
    for partition, some in values.items():
        records = [InRecord("t.lines", partition, at, at, None, value, {}) for at, value in enumerate(some)]
        round_.admit(("lines", partition), tasks["lines", partition].admit(records))
    for record in more:
        place = ("words", record.partition)
        round_.admit(place, tasks[place].admit([record]))
    for _ in round_.steps():
        pass
    return round_.written()


def seen(written: Written) -> Counter[str]:
    return Counter(
        record.key.decode()
        for (topic, _), records in written.records.items()
        if topic == "t.seen"
        for record in records
        if record.key is not None
    )


def logged(written: Written, partition: int) -> list[LinkBatch]:
    """What goes to a partition of the words log."""
    records = written.records.get(("t.words", partition), [])
    return [batch for record in records for batch in read_link_batches(record.value or b"")]


def words_in(batches: Sequence[LinkBatch]) -> list[str]:
    return [word for batch in batches for word, _ in msgspec.msgpack.decode(batch.messages)]


def test_messages_between_tasks_of_a_worker_need_no_log(make_tasks: Callable[[Topology], Tasks]) -> None:
    topology = toy.topology(2)
    written = work(topology, make_tasks(topology), LINES)
    assert seen(written) == toy.expected(LINES)
    assert not logged(written, 0) and not logged(written, 1)
    changelog = written.records["t.count.changelog", 0]
    assert changelog[0].key == PROGRESS_KEY, "whoever takes over finds there whose transaction it is"
    assert decode_progress(changelog[0].value or b"").writer == "me"
    assert written.positions["t.lines", 0][0] + written.positions["t.lines", 1][0] == len(LINES)


def test_tasks_of_other_workers_are_written_to(make_tasks: Callable[[Topology], Tasks]) -> None:
    topology = toy.topology(2)
    tasks = make_tasks(topology)
    del tasks["words", 1]
    written = work(topology, tasks, LINES)
    abroad = logged(written, 1)
    assert {"read-1", "count-0"} <= {batch.sender for batch in abroad}
    assert len(written.records["t.words", 1]) == 1, "one record for all senders"
    assert not logged(written, 0)
    expected = toy.expected(LINES)
    first = Counter(line.split()[0] for line in LINES)
    for word in first:
        found = seen(written) if partition_of(word, 2) == 0 else Counter(words_in(abroad))
        assert found[word] == expected[word]


def test_what_waits_in_the_log_is_not_overtaken(make_tasks: Callable[[Topology], Tasks]) -> None:
    topology = toy.topology(2)
    tasks = make_tasks(topology)
    for partition in range(2):  # both have written to words-1 before it came here, and it has read of one only
        task = tasks["lines", partition]
        task.progress = TaskProgress("toy", sent={"words-1": 3})
    tasks["words", 1].progress = TaskProgress("toy", received={"read-0": 3, "read-1": 2})
    written = work(topology, tasks, LINES)
    assert {(batch.sender, batch.number) for batch in logged(written, 1)} == {("read-1", 3)}
    late = LinkBatch("read-1", 2, msgspec.Raw(msgspec.msgpack.encode([toy.Word("late", 0)])))
    tasks = make_tasks(topology)
    tasks["lines", 1].progress = TaskProgress("toy", sent={"words-1": 3})
    tasks["words", 1].progress = TaskProgress("toy", received={"read-1": 2})
    record = InRecord("t.words", 1, 0, 0, None, next(pack_link_batches([late])), {})
    written = work(topology, tasks, LINES, [record])
    assert not logged(written, 1), "it comes in this round, before what is new"
    assert seen(written) == toy.expected(LINES) + Counter(["late"])


def test_a_round_has_a_limit(make_tasks: Callable[[Topology], Tasks], monkeypatch: pytest.MonkeyPatch) -> None:
    topology = toy.topology(2)
    monkeypatch.setattr(round_module, "HANDED_OVER_MAX", 20)
    written = work(topology, make_tasks(topology), LINES)
    over = [batch for partition in range(2) for batch in logged(written, partition)]
    done = seen(written)
    left = Counter(words_in(over))
    assert left and done + left <= toy.expected(LINES)
    for word in {line.split()[0] for line in LINES}:
        assert done[word] + left[word] == toy.expected(LINES)[word], "done, or in the log"


def test_batches_that_come_again_are_left_out_and_missing_ones_are_told(
    make_tasks: Callable[[Topology], Tasks],
) -> None:
    task = make_tasks(toy.topology(2))["words", 0]
    batches = [LinkBatch("read-0", number, msgspec.Raw(b"\x91\x92\xa1a\x00")) for number in (0, 0, 1)]
    again = InRecord("t.words", 0, 0, 0, None, next(pack_link_batches(batches)), {})
    assert len(task.admit([again]).messages) == 2
    hole = InRecord("t.words", 0, 0, 0, None, next(pack_link_batches(batches[2:])), {})
    with pytest.raises(StateMismatch, match="lacks batches 0 to 0 of read-0"):
        task.admit([hole])


def test_no_request_is_too_large_for_a_broker() -> None:
    def batch(size: int) -> BatchBuilder:
        builder = BatchBuilder(64 << 20, 0, is_transactional=1)
        builder.append(timestamp=None, key=b"k", value=bytes(size))
        return builder

    sizes = [1, 30 << 20, 20 << 20, 1, 60 << 20, 5]
    found = list(waves((("t", number), batch(size)) for number, size in enumerate(sizes)))
    assert [[number for (_, number), _ in wave] for wave in found] == [[0, 1], [2, 3], [4], [5]]


def test_state_of_another_version_is_refused_with_what_to_do(make_tasks: Callable[[Topology], Tasks]) -> None:
    task = make_tasks(toy.topology(2))["words", 0]
    header = task._runtime.state.header_change(b"task/count/00000/", "id", 1, TaskProgress("older").encode())
    task._runtime.state.write([header])
    with pytest.raises(StateMismatch, match=r"another version of this program.*replay into another --name"):
        task.load()


def test_position_tells_that_there_is_work_left(make_tasks: Callable[[Topology], Tasks]) -> None:
    topology = toy.topology(2)
    read, count = topology.processors
    topology = replace(topology, processors=(read, replace(count, make=RestingCount)))
    tasks = make_tasks(topology)
    written = work(topology, tasks, LINES)
    assert written.positions["t.words", 0] == (0, "work left\0")
    assert written.positions["t.lines", 0][1] == ""
    round_ = Round(topology, APPLICATION, "me", tasks, Metrics())
    round_.rested(("words", 0), tasks["words", 0].at_rest())
    written = round_.written()
    assert written.positions["t.words", 0] == (0, "")
    assert [record.key for (topic, _), some in written.records.items() if topic == "t.counts" for record in some] == [
        b"all"
    ]


def test_a_task_rests_a_share_of_its_time_counted_from_its_last_rest(
    make_tasks: Callable[[Topology], Tasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = toy.topology()
    resting = replace(plain.processors[1], make=RestingCount)
    task = make_tasks(replace(plain, processors=(plain.processors[0], resting)))["words", 0]
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    task._rested_at_s, task._rest_took_s, task._worked_at_s, task.is_rested = 100.0, 1.0, 103.0, False
    now_s = 104.0
    assert not task.is_rest_due(0.0)  # it rested a second of the last five
    now_s = 105.1
    assert task.is_rest_due(0.0)  # though it worked two seconds ago: nobody waits five from there
    assert not task.is_rest_due(3.0)
