"""The pipeline on Kafka beside the embedded engine, on the same pages in one run, with a real broker on this machine.

    python bench/kafka.py [--pages 3000]

Prints pages a second of one and two workers as shares of the embedded engine's with --jobs 1, who took the processor,
messages per page and µs per message by stage, and how long a worker takes to rebuild its state from the changelogs.
Time counts from the moment all tasks are open to the last status; publishing is measured by itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import sample_pages

from dustream.core.settings import Settings
from dustream.core.topology import Topology
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.embedded.job import RunRequest, run_job
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import Broker, free_port
from dustream.streams.kafka.cluster import Cluster, Unreachable
from dustream.streams.kafka.outcome import export
from dustream.streams.kafka.publish import publish_files
from dustream.streams.kafka.settled import unsettled
from dustream.streams.kafka.topics import create_topics, plan_topics
from dustream.streams.store.memory import MemoryStore

STAGES = ("intake", "pages", "tier2", "groups")
WAIT_S_MAX = 3600.0
POLL_S = 0.5
RECOVERY_PAGES = 100_000
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True)
class RunningWorker:
    process: subprocess.Popen[bytes]
    port: int

    def ask(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            return ""

    def metrics(self) -> dict[str, float]:
        lines = [line for line in self.ask("metrics").splitlines() if line and not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@contextmanager
def workers(cluster: Cluster, name: str, folder: Path, count: int) -> Iterator[list[RunningWorker]]:
    running = []
    for number in range(count):
        port = free_port()
        command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", "--log-level", "warning"]
        where = ["--bootstrap", cluster.bootstrap, "--name", name, "--data", str(folder / f"{name}-{number}")]
        command += [*where, "--health-port", str(port)]
        running.append(RunningWorker(subprocess.Popen(command), port))
    try:
        yield running
    finally:
        for worker in running:
            worker.process.terminate()
        for worker in running:
            worker.process.wait()


def is_settled(cluster: Cluster, application: Application, topology: Topology) -> bool:
    try:
        return not unsettled(cluster, application, topology)
    except Unreachable:  # too busy to answer in time
        return False


def wait_ready(running: list[RunningWorker], tasks: int) -> None:
    """All tasks are open somewhere."""
    wait(lambda: sum(worker.metrics().get("dustream_tasks", 0) for worker in running) == tasks)
    wait(lambda: all(worker.ask("ready").startswith("ready") for worker in running))


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("nothing moves any more")
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu: dict[str, float]
    metrics: dict[str, float]
    state_hash: str


def run_workers(cluster: Cluster, broker_pid: int, pages: Path, folder: Path, count: int) -> Measured:
    """Publish, then start workers, and time them from all tasks open to rest."""
    application = Application(f"bench-{count}")
    topology = planned_topology(Settings(), cluster, application)
    create_topics(cluster, plan_topics(topology, application))
    # Workers join before there is anything to do, so that no rebalance falls into the measurement.
    with workers(cluster, application.name, folder, count) as running:
        wait_ready(running, sum(spec.partitions for spec in topology.processors))
        pids = {f"worker {number + 1}": worker.process.pid for number, worker in enumerate(running)}
        pids["broker"] = broker_pid
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        started = time.perf_counter()
        publish_files(cluster, application, [str(pages)], folder / f"published-{count}")
        wait(lambda: is_settled(cluster, application, topology))
        seconds = time.perf_counter() - started
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
        metrics: dict[str, float] = {}
        for worker in running:
            for name, value in worker.metrics().items():
                metrics[name] = metrics.get(name, 0) + value
    return Measured(seconds, cpu, metrics, export(cluster, application, MemoryStore(), folder / "out").state_hash)


def recovery_seconds(cluster: Cluster, folder: Path) -> tuple[float, float]:
    """How long a worker with an empty data folder takes until all tasks are open, and how many rows that were."""
    application = Application("bench-1")
    with workers(cluster, application.name, folder / "empty", 1) as running:
        topology = planned_topology(Settings(), cluster, application)
        started: list[float] = []
        wait(lambda: started or (running[0].ask("live") and not started.append(time.perf_counter())))
        wait_ready(running, sum(spec.partitions for spec in topology.processors))
        rows = sum(value for name, value in running[0].metrics().items() if "recovered_rows" in name)
        return time.perf_counter() - started[0], rows


def stage_table(measured: Measured, pages: int) -> str:
    lines = [f"{'stage':<8} {'messages/page':>14} {'µs/message':>11} {'rows/page':>10} {'messages/transaction':>21}"]
    for stage in STAGES:
        value = {name: measured.metrics.get(f'dustream_{name}_total{{processor="{stage}"}}', 0.0)
                 for name in ("messages", "handling_seconds", "state_rows", "transactions")}  # fmt: skip
        messages = max(value["messages"], 1)
        lines.append(
            f"{stage:<8} {messages / pages:>14.2f} {value['handling_seconds'] / messages * 1e6:>11.0f} "
            f"{value['state_rows'] / pages:>10.2f} {messages / max(value['transactions'], 1):>21.1f}"
        )
    return "\n".join(lines)


def write_pages(events: list[CrawlEvent], path: Path) -> None:
    with path.open("wb") as file:
        for event in events:
            file.write(msgspec.json.encode(event) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=3000)
    args = parser.parse_args()
    what, events = sample_pages(args.pages)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as temporary:
        folder = Path(temporary)
        pages = folder / "pages.jsonl"
        write_pages(events[:64], pages)
        run_job(RunRequest([str(pages)], folder / "warm", folder / "warm-state", Settings(), 1))
        write_pages(events, pages)
        embedded = run_job(RunRequest([str(pages)], folder / "embedded", folder / "state", Settings(), 1))
        broker = Broker(folder / "broker")
        running = broker.start(free_port())
        try:
            cluster = Cluster(running.bootstrap)
            by_count = {count: run_workers(cluster, running.pid, pages, folder, count) for count in (1, 2)}
            took, rows = recovery_seconds(cluster, folder)
        finally:
            broker.stop()
    show(what, len(events), embedded.seconds, embedded.state_hash, by_count)
    scaled_s = took * RECOVERY_PAGES / len(events)
    print(
        f"\nrecovery from an empty folder: {took:.1f} s for {len(events):,} pages ({rows / len(events):.1f} changelog "
        f"rows a page, {rows / took:,.0f} rows/s); at that rate {scaled_s:.0f} s for {RECOVERY_PAGES:,} pages"
    )


def show(what: str, pages: int, embedded_s: float, state_hash: str, by_count: dict[int, Measured]) -> None:
    print(f"{what}: {pages:,} pages\n")
    print(f"{'':<22} {'pages/s':>9} {'of embedded':>12} {'of one worker':>14}  processor seconds")
    print(f"{'embedded, --jobs 1':<22} {pages / embedded_s:>9,.0f} {1:>12.2f}")
    for count, measured in by_count.items():
        cpu = ", ".join(f"{name} {seconds:.1f}" for name, seconds in measured.cpu.items())
        print(
            f"{f'Kafka, {count} worker' + 's' * (count > 1):<22} {pages / measured.seconds:>9,.0f} "
            f"{embedded_s / measured.seconds:>12.2f} {by_count[1].seconds / measured.seconds:>14.2f}  {cpu}"
        )
    same = all(measured.state_hash == state_hash for measured in by_count.values())
    print(f"\nstatuses {'equal those of the embedded run' if same else 'DIFFER from those of the embedded run'}\n")
    print(stage_table(by_count[1], pages))


if __name__ == "__main__":
    main()
