"""Workers are killed and paused, and the broker with them, while pages are worked through; then the statuses must be
those of an undisturbed run, and nothing may have been lost.

    python tests/kafka/chaos.py [--pages 20000] [--workers 3] [--kills 20] [--pauses 3] [--broker-kills 1] [--seeds 1 …]

A fault comes a random time after its victim has begun to work, by a plan made from the seed; what the machine does in
between is its own affair.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from reprints import reprints

from dustream.core.settings import Settings
from dustream.streams.generate.web import generate
from dustream.streams.job import RunRequest, run_job
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import Broker, free_port
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.maps import create_application
from dustream.streams.kafka.outcome import export
from dustream.streams.kafka.publish import publish_files
from dustream.streams.kafka.settled import unsettled
from dustream.streams.store.memory import MemoryStore

REAL = Path(__file__).with_name("real.py")
SESSION_TIMEOUT_S = 4.0
REPRINTED = 12


@dataclass(frozen=True)
class Plan:
    """How much to disturb."""

    pages: int
    workers: int
    kills: int
    pauses: int
    broker_kills: int
    seed: int
    partitions: int = 6
    gap_s_max: float = 8.0
    settle_s_max: float = 1800.0

    def faults(self) -> list[str]:
        faults = ["kill"] * self.kills + ["pause"] * self.pauses + ["broker"] * self.broker_kills
        random.Random(self.seed).shuffle(faults)
        return faults


@dataclass(frozen=True)
class Report:
    """What came out, disturbed and not."""

    expected: str
    found: str
    faults: int
    seconds: float


class Crew:
    """The workers."""

    def __init__(self, cluster: KafkaCluster, name: str, partitions: int, folder: Path, count: int) -> None:
        self._command = [sys.executable, str(REAL), cluster.bootstrap, name]
        self._partitions = partitions
        self._folder = folder
        self._log_starts: dict[int, int] = {}
        self.workers = [self._start(number) for number in range(count)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        data = str(self._folder / f"worker-{number}")
        with self._log(number).open("ab") as log:
            self._log_starts[number] = log.tell()
            arguments = [*self._command, data, str(self._partitions), str(SESSION_TIMEOUT_S)]
            return subprocess.Popen(arguments, stdout=log, stderr=log)

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def is_at_work(self, number: int) -> bool:
        """Whether a worker has opened a task since it was started, or was dealt none."""
        since = self._log(number).read_bytes()[self._log_starts[number] :]
        return b"open at" in since or b": 0 partitions" in since

    def kill(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._start(number)

    def pause(self, number: int) -> None:
        os.kill(self.workers[number].pid, signal.SIGSTOP)
        time.sleep(SESSION_TIMEOUT_S * 2)
        os.kill(self.workers[number].pid, signal.SIGCONT)

    def check(self) -> None:
        for number, worker in enumerate(self.workers):
            if worker.poll() is not None:
                tail = self._log(number).read_text()[-3000:]
                raise AssertionError(f"worker {number} ended by itself ({worker.returncode}):\n{tail}")

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def write_web(path: Path, pages: int, seed: int) -> None:
    """A generated web, and some pages that are contained in others."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for event in chain(generate(pages, seed, 2_000), reprints(REPRINTED, seed)):
            file.write(encoder.encode(event) + b"\n")


def undisturbed(web: Path, folder: Path, partitions: int) -> str:
    """The state hash of an embedded run."""
    request = RunRequest([str(web)], folder / "out", folder / "state", Settings(partitions=partitions), jobs=1)
    return run_job(request).state_hash


def run_chaos(plan: Plan, broker: Broker, folder: Path) -> Report:
    """One round."""
    started = time.monotonic()
    running = broker.running()
    assert running is not None
    cluster, application = KafkaCluster(running.bootstrap), Application(f"chaos-{plan.seed}-{os.getpid()}")
    settings = Settings(partitions=plan.partitions)
    topology = planned_topology(settings, cluster, application)
    create_application(cluster, application, topology, settings)
    web = folder / "web.jsonl"
    write_web(web, plan.pages, plan.seed)
    expected = undisturbed(web, folder / "embedded", plan.partitions)
    publish_files(cluster, application, [str(web)], folder / "published")
    crew = Crew(cluster, application.name, plan.partitions, folder, plan.workers)
    try:
        _disturb(plan, crew, broker, running.port)
        _settle(plan, crew, lambda: unsettled(cluster, application, topology))
    finally:
        crew.stop()
    found = export(cluster, application, MemoryStore(), folder / "out").state_hash
    return Report(expected, found, len(plan.faults()), time.monotonic() - started)


def _disturb(plan: Plan, crew: Crew, broker: Broker, port: int) -> None:
    draw = random.Random(plan.seed + 1)
    for fault in plan.faults():
        victim = draw.randrange(plan.workers)
        _wait(lambda victim=victim: crew.is_at_work(victim), plan.settle_s_max, crew)
        time.sleep(draw.uniform(plan.gap_s_max / 4, plan.gap_s_max))
        print(f"  {fault} {victim if fault != 'broker' else ''}", flush=True)
        if fault == "kill":
            crew.kill(victim)
        elif fault == "pause":
            crew.pause(victim)
        else:
            broker.kill()
            broker.start(port)
        crew.check()


def _settle(plan: Plan, crew: Crew, look: Callable[[], object]) -> None:
    def is_settled() -> bool:
        try:
            return not look()
        except Unreachable:
            return False

    _wait(is_settled, plan.settle_s_max, crew)


def _wait(condition: Callable[[], bool], seconds_max: float, crew: Crew) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        crew.check()
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing came of it in {seconds_max:.0f} s")
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pauses", type=int, default=3)
    parser.add_argument("--broker-kills", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    args = parser.parse_args()
    failures = 0
    for seed in args.seeds:
        plan = Plan(args.pages, args.workers, args.kills, args.pauses, args.broker_kills, seed)
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
            broker = Broker(Path(folder) / "broker")
            broker.start(free_port())
            try:
                report = run_chaos(plan, broker, Path(folder))
            finally:
                broker.stop()
        equal = report.expected == report.found
        failures += not equal
        print(
            f"seed {seed}: {report.faults} faults, {report.seconds:.0f} s, {'equal' if equal else 'DIFFERENT'}",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
