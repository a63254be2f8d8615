"""Toy workers on the real broker: start them, disturb them, and see what came out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import toy
from confluent_kafka import Producer

from dustream.streams.kafka.application import Application
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.settled import unsettled
from dustream.streams.kafka.topics import create_topics, plan_topics

TOY = Path(toy.__file__)
WAIT_S_MAX = float(os.environ.get("DUSTREAM_TOY_WAIT_S", "300"))


class Playground:
    """One toy application and its workers."""

    def __init__(self, cluster: KafkaCluster, folder: Path, name: str) -> None:
        self.cluster = cluster
        self.application = Application(f"{name}-{os.getpid()}")
        self.topology = toy.topology()
        self._folder = folder
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        create_topics(cluster, plan_topics(self.topology, self.application))
        self.lines: list[str] = []

    def write(self, lines: Iterable[str]) -> None:
        """Write lines as anybody would, and remember them."""
        producer = Producer(self.cluster.confluent(enable_idempotence=True))
        for line in lines:
            self.lines.append(line)
            producer.produce(self.topic("lines"), line.encode(), line.split()[0].encode())
            producer.poll(0)
        producer.flush()

    def topic(self, name: str) -> str:
        return self.application.topic(name)

    def data(self, worker: str) -> Path:
        return self._folder / worker

    def log(self, worker: str) -> str:
        return (self._folder / f"{worker}.log").read_text()

    def start(self, worker: str = "a", *options: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            str(TOY),
            self.cluster.bootstrap,
            self.application.name,
            str(self.data(worker)),
            *options,
        ]
        with (self._folder / f"{worker}.log").open("ab") as log:
            self.workers[worker] = subprocess.Popen(command, stdout=log, stderr=log)
        return self.workers[worker]

    def stop(self, worker: str = "a") -> int:
        process = self.workers.pop(worker)
        process.terminate()
        return process.wait(30)

    def kill(self, worker: str = "a") -> None:
        process = self.workers.pop(worker)
        process.kill()
        process.wait()

    def stop_all(self) -> None:
        for process in self.workers.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.workers.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.workers.clear()

    def settle(self) -> None:
        """Wait until everything written has been worked through."""
        self.wait(self._is_settled, "the application did not settle")

    def _is_settled(self) -> bool:
        try:
            return not unsettled(self.cluster, self.application, self.topology)
        except Unreachable:
            return False

    def wait(self, condition: Callable[[], Any], problem: str) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-2000:] for path in sorted(self._folder.glob("*.log")))
                raise AssertionError(f"{problem}\n{logs}")
            time.sleep(0.1)

    def read(self, topic: str) -> list[Any]:
        """All committed records of a topic."""
        spec = next(
            plan for plan in plan_topics(self.topology, self.application).plans if plan.name == self.topic(topic)
        )
        found = []
        for partition in range(spec.partitions):
            for records in read_to_end(self.cluster, spec.name, partition, 0, reset="earliest"):
                found += records
        return found

    def seen(self) -> Counter[str]:
        """How often each word was counted, by the log that nothing compacts."""
        return Counter(record.key().decode() for record in self.read("seen"))

    def counts(self) -> dict[str, int]:
        """The newest count of each word."""
        return {record.key().decode(): msgspec.json.decode(record.value())[0] for record in self.read("counts")}

    def check(self) -> None:
        """Nothing lost, nothing twice."""
        expected = toy.expected(self.lines)
        seen = self.seen()
        assert seen == expected, f"lost {sum((expected - seen).values())}, twice {sum((seen - expected).values())}"
        assert self.counts() == dict(expected)


def words(count: int, *, distinct: int = 200) -> list[str]:
    return [f"w{number % distinct} {number % 3}" for number in range(count)]


def pause(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def wake(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGCONT)


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process was stopped by a signal (Linux)."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
