"""Faults on a real broker. Whatever happens, a reader of committed records sees every word counted exactly once."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from playground import Playground, is_stopped, pause, wake, words

from dustream.streams.kafka.broker import Broker
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.records import ORIGINAL_HEADER
from dustream.streams.kafka.transactions import TRANSACTION_TIMEOUT_S
from dustream.streams.store.rocks import RocksStore

LINES = 600


@pytest.fixture
def ground(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Playground]:
    ground = Playground(cluster, tmp_path, tmp_path.name.replace("_", "-")[-40:])
    yield ground
    ground.stop_all()


def test_undisturbed_and_stopped_in_peace(ground: Playground) -> None:
    ground.write(words(LINES))
    ground.start()
    ground.settle()
    ground.check()
    assert ground.stop() == 0
    repeated = re.findall(r"dustream_repeated_batches_total\S* (\d+)", ground.log("a"))
    assert repeated and set(repeated) == {"0"}, "a stop in peace repeats nothing"


def test_killed_around_transactions(ground: Playground) -> None:
    ground.write(words(LINES))
    for moment in ("before-transaction", "inside-transaction", "after-commit"):
        ground.start("a", "--crash", moment, "3")
        assert ground.workers.pop("a").wait(60) == -9, "it was to be killed"
        ground.write(words(LINES // 3))
    ground.start("a")
    ground.settle()
    ground.check()


def test_what_cannot_be_used_becomes_a_dead_letter_with_its_bytes(ground: Playground) -> None:
    ground.write([*words(50), "poison1 0", *words(50)])
    producer = Producer(ground.cluster.confluent())
    producer.produce(ground.topic("lines"), b"\xff\xfe not a line", b"k")
    producer.produce(ground.topic("words"), b"\xc1 not from a task", b"k", 0)
    producer.flush()
    ground.start()
    ground.settle()
    ground.lines.remove("poison1 0")
    ground.check()
    letters = {dict(letter.headers())[ORIGINAL_HEADER]: letter.value() for letter in ground.read("dead.letters")}
    assert letters.keys() == {b"\x92\xa7poison1\x00", b"\xff\xfe not a line", b"\xc1 not from a task"}
    assert b"cannot count this" in letters[b"\x92\xa7poison1\x00"]


def test_an_error_that_no_message_caused_ends_the_worker(ground: Playground) -> None:
    ground.write([*words(50), "module 0", *words(50)])
    worker = ground.start("a", "--broken")
    assert worker.wait(60) != 0
    assert "the program is damaged (ModuleNotFoundError: No module named 'moved')" in ground.log("a")
    ground.workers.pop("a")
    ground.start("a")
    ground.settle()
    ground.check()
    assert ground.read("dead.letters") == []


def apart(ground: Playground, first: int, after: int) -> None:
    """Two workers with a stage each, so that all goes by the logs; both throw some of it away."""
    for worker, stage in (("a", "read"), ("b", "count")):
        ground.start(worker, "--processors", stage, "--forget", "lines,words", str(first), str(after))
    ground.wait(lambda: is_dealt_out(ground), "the tasks were not dealt out")


def is_dealt_out(ground: Playground) -> bool:
    """Whether both workers have their tasks, in the same generation: what is thrown away before is fetched anyway."""
    logs = [ground.log(worker) for worker in "ab"]
    generations = [re.findall(r"generation (\d+):", log) for log in logs]
    are_open = all(log.count(": open at") >= toy.PARTITIONS for log in logs)
    return are_open and all(generations) and generations[0][-1] == generations[1][-1]


def thrown_away(ground: Playground) -> int:
    return sum(ground.log(worker).count("thrown away") for worker in "ab")


def test_polls_thrown_away_are_fetched_again(ground: Playground) -> None:
    apart(ground, first=2, after=4)
    ground.write(words(LINES // 2))
    ground.wait(lambda: thrown_away(ground) >= 4, "not enough was thrown away")
    ground.settle()
    ground.check()


def test_last_poll_thrown_away_is_fetched_again(ground: Playground) -> None:
    apart(ground, first=1, after=2)
    ground.write(["alone 0"])
    ground.wait(lambda: thrown_away(ground) == 2, "nothing was thrown away")
    ground.settle()
    ground.check()


def test_group_without_committed_offsets_starts_from_the_state(ground: Playground) -> None:
    ground.write(words(LINES // 2))
    ground.start()
    ground.settle()
    ground.stop()
    admin = AdminClient(ground.cluster.confluent())
    admin.delete_consumer_groups([ground.application.group])[ground.application.group].result()
    ground.write(words(LINES // 2))
    ground.start()
    ground.settle()
    ground.check()


def test_true_gaps_in_the_input_are_no_holes(ground: Playground) -> None:
    producer = Producer(ground.cluster.confluent(transactional_id=f"{ground.application.name}-gaps"))
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for line in words(40):
            producer.produce(ground.topic("lines"), line.encode(), line.split()[0].encode())
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            ground.lines += words(40)
    ground.start()
    ground.settle()
    ground.check()


def test_input_deleted_before_it_was_read_does_not_stop_the_rest(ground: Playground) -> None:
    ground.write(words(LINES // 2))
    ground.start()
    ground.settle()
    ground.stop()
    kept = list(ground.lines)
    ground.write(words(100))
    admin = AdminClient(ground.cluster.confluent())
    end_of_all = -1
    everything = [TopicPartition(ground.topic("lines"), partition, end_of_all) for partition in range(4)]
    for done in admin.delete_records(everything).values():
        done.result()
    ground.lines = kept
    ground.start()
    ground.write(words(LINES // 2))
    ground.settle()
    ground.check()
    assert "deleted by retention" in ground.log("a")


def test_broker_killed_and_restarted(ground: Playground, broker: Broker) -> None:
    ground.start()
    ground.write(words(LINES))
    ground.wait(lambda: sum(ground.seen().values()) > 20, "work did not begin")
    running = broker.running()
    assert running is not None
    broker.kill()
    broker.start(running.port)
    ground.write(words(LINES))
    if ground.workers["a"].poll() is not None:
        ground.start()
    ground.settle()
    ground.check()


def test_worker_paused_past_its_session_writes_nothing_when_it_wakes(ground: Playground) -> None:
    sleeper = ground.start("a", "--session-timeout", "2")
    ground.write(words(LINES))
    ground.wait(lambda: sum(ground.seen().values()) > 20, "work did not begin")
    pause(sleeper)
    ground.start("b", "--session-timeout", "2")
    ground.write(words(LINES))
    ground.settle()
    wake(sleeper)
    ground.write(words(LINES))
    ground.settle()
    ground.check()


def test_worker_that_missed_a_generation_reads_its_state_again(ground: Playground) -> None:
    sleeper = ground.start("a", "--session-timeout", "2")
    ground.write(words(LINES // 2))
    ground.settle()
    pause(sleeper)
    ground.start("b", "--session-timeout", "2")
    ground.write(words(LINES // 2))
    ground.settle()
    wake(sleeper)
    ground.wait(lambda: ground.log("a").count("generation") > 1, "it did not come back")
    ground.write(words(LINES // 2))
    ground.settle()
    ground.check()


@pytest.mark.parametrize("moment", ["before-transaction", pytest.param("inside-transaction", marks=pytest.mark.slow)])
def test_worker_stopped_around_a_commit_cannot_commit_when_it_wakes(ground: Playground, moment: str) -> None:
    ground.write(words(LINES))
    sleeper = ground.start("a", "--session-timeout", "2", "--stop", moment, "2")
    ground.wait(lambda: is_stopped(sleeper), "it did not stop")
    ground.start("b", "--session-timeout", "2")
    ground.write(words(LINES))
    ground.settle()
    before = sum(ground.seen().values())
    wake(sleeper)
    ground.wait(lambda: "transaction of" in ground.log("a"), "it did not try to commit")
    assert sum(ground.seen().values()) == before == sum(toy.expected(ground.lines).values())
    ground.write(words(LINES))
    ground.settle()
    ground.check()
    waits_s = [float(seconds) for seconds in re.findall(r"open at \d+ after ([\d.]+) s", ground.log("a"))]
    assert max(waits_s) < TRANSACTION_TIMEOUT_S, "what it left open itself is ended by itself, not by the broker"


def test_worker_that_is_slow_to_let_go_writes_nothing_of_what_went_to_another(ground: Playground) -> None:
    ground.start("a", "--close-after", "4")
    ground.write(words(LINES // 2))
    ground.settle()
    ground.start("b")
    ground.wait(lambda: ground.log("a").count("generation") > 1, "it did not hear of the other")
    for _ in range(8):
        ground.write(words(LINES // 4))
        time.sleep(0.3)
    ground.settle()
    ground.check()


@pytest.mark.slow
def test_partitions_move_between_three_workers(ground: Playground) -> None:
    for worker in "abc":
        ground.start(worker)
        ground.write(words(LINES // 2))
        ground.wait(lambda worker=worker: "generation" in ground.log(worker), "it did not join")
    ground.kill("a")
    ground.write(words(LINES // 2))
    ground.stop("b")
    ground.write(words(LINES // 2))
    ground.settle()
    ground.check()


def test_lost_or_damaged_state_is_rebuilt_from_the_changelogs(ground: Playground) -> None:
    ground.write([*words(LINES), *(f"forget{number} 0" for number in range(20))])
    ground.start()
    ground.settle()
    ground.stop()
    before = rows(ground.data("a"))
    assert before
    for times, harm in enumerate((lose, damage), start=2):
        harm(ground.data("a"))
        ground.start()
        ground.wait(lambda times=times: ground.log("a").count("open at") == 8 * times, "the tasks did not open again")
        ground.stop()
        assert rows(ground.data("a")) == before
    assert ground.seen()["forget1"] == 1, "nothing is done again while the state is rebuilt"


def lose(data: Path) -> None:
    shutil.rmtree(data)


def damage(data: Path) -> None:
    for file in (data / "state").glob("*"):
        if file.name.startswith(("MANIFEST", "CURRENT")) or file.suffix in (".log", ".sst"):
            file.write_bytes(b"\0garbage\xff" * 100)


def rows(data: Path) -> dict[bytes, bytes]:
    store = RocksStore(data / "state", read_only=True)
    found = dict(store.scan(b"task/"))
    store.close()
    return found
