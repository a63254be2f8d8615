"""The pipeline on Kafka beside the embedded engine, on the same pages in one run, with a real broker on this machine.

    python bench/kafka.py [--pages 10000] [--partitions 8] [--workers 1 2] [--repeat 3]
    python bench/kafka.py --recovery 100000

Measures pages a second of one and two workers as shares of the embedded engine's with --jobs 1, processor time by
process, messages per page and µs per message by stage, and how long a worker takes to rebuild its state from the
changelogs. Time runs from when all tasks are open and all pages are published to the last status; workers are stopped
while pages are published, because a publisher would run on another machine.

The engines take turns, several times, because a single run is noisy. A ratio compares two runs of one turn; median,
least and most are reported, and beside each run the processor time of everything else on the machine. Ratios by
processor time assume that workers and broker have two cores of their own: they take at least as long as the busiest of
them, and half of what they take together.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from pages import sample_pages
from result_files import Table, write_result

from dustream.core.settings import Settings
from dustream.core.topology import Topology
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.generate import generate
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

STAGES = ("intake", "pages", "tier2", "groups", "sites", "containment", "rules")
WAIT_S_MAX = 3600.0
POLL_S = 0.2
QUIET_S = 0.5
RECOVERY_MARKUP_BYTES = 2_000  # markup is parsed, not kept: it takes no part in recovery
CORES = 2
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds() -> float:
    """Processor time of everything on this machine so far, and what its host gave to others (Linux)."""
    user, nice, system, _idle, _io, irq, softirq, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + stolen) / TICKS


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
def workers(
    cluster: KafkaCluster, name: str, folder: Path, settings: Settings, count: int
) -> Iterator[list[RunningWorker]]:
    running = []
    for number in range(count):
        port = free_port()
        command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", "--log-level", "warning"]
        where = ["--bootstrap", cluster.bootstrap, "--name", name, "--data", str(folder / f"{name}-{number}")]
        command += [*where, "--health-port", str(port), "--partitions", str(settings.partitions)]
        running.append(RunningWorker(subprocess.Popen(command), port))
    try:
        yield running
    finally:
        for worker in running:
            worker.process.terminate()
        for worker in running:
            worker.process.wait()


@contextmanager
def held(running: list[RunningWorker]) -> Iterator[None]:
    """Workers do nothing: who publishes has other machines than they."""
    for worker in running:
        worker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for worker in running:
            worker.process.send_signal(signal.SIGCONT)


def last_commit(running: list[RunningWorker], settled: Callable[[], bool]) -> float:
    """When the last transaction was committed, to POLL_S, once all is settled. The broker is asked only when the
    workers seem to be done: asking costs it more than they do at rest."""
    deadline = time.perf_counter() + WAIT_S_MAX
    seen, changed_at = committed(running), time.perf_counter()
    while True:
        time.sleep(POLL_S)
        now, at = committed(running), time.perf_counter()
        if now != seen:
            seen, changed_at = now, at
        elif at - changed_at > QUIET_S and settled():
            return changed_at
        if at > deadline:
            raise SystemExit("nothing moves any more")


def committed(running: list[RunningWorker]) -> list[dict[str, float]]:
    """The transactions of each worker, by stage."""
    return [{name: value for name, value in worker.metrics().items() if "transactions" in name} for worker in running]


def is_settled(cluster: KafkaCluster, application: Application, topology: Topology) -> bool:
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
    others_cpu: float
    metrics: dict[str, float]
    state_hash: str

    @property
    def least_seconds(self) -> float:
        """What the processes would take at least on cores that do nothing else."""
        return max(*self.cpu.values(), sum(self.cpu.values()) / CORES)


def run_workers(
    cluster: KafkaCluster, broker_pid: int, pages: Path, folder: Path, settings: Settings, count: int, turn: int
) -> Measured:
    """Start workers, publish, and time them from then to rest."""
    application = application_of(count, turn)
    topology = planned_topology(settings, cluster, application)
    create_application(cluster, application, topology, settings)
    # Workers join before there is anything to do, so that no rebalance falls into the measurement.
    with workers(cluster, application.name, folder, settings, count) as running:
        wait_ready(running, sum(spec.partitions for spec in topology.processors))
        pids = {f"worker {number + 1}": worker.process.pid for number, worker in enumerate(running)}
        pids["broker"] = broker_pid
        with held(running):
            publish_files(cluster, application, [str(pages)], folder / f"published-{application.name}")
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            others_before = seconds_of_others(pids.values())
        started = time.perf_counter()
        seconds = last_commit(running, lambda: is_settled(cluster, application, topology)) - started
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
        others = seconds_of_others(pids.values()) - others_before
        metrics: dict[str, float] = {}
        for worker in running:
            for name, value in worker.metrics().items():
                metrics[name] = metrics.get(name, 0) + value
    state_hash = export(cluster, application, MemoryStore(), folder / "out").state_hash
    return Measured(seconds, cpu, others, metrics, state_hash)


def application_of(count: int, turn: int) -> Application:
    return Application(f"bench-{count}-{turn}")


def seconds_of_others(pids: Iterable[int]) -> float:
    """Processor time of all but these processes and this one, so far."""
    return machine_seconds() - sum(map(cpu_seconds, pids)) - time.process_time()


@dataclass(frozen=True)
class Recovery:
    seconds: float
    cpu_seconds: float
    rows: float


def recover(cluster: KafkaCluster, application: Application, folder: Path, settings: Settings) -> Recovery:
    """A worker with an empty data folder, from its first sign of life until all tasks are open."""
    with workers(cluster, application.name, folder / "empty", settings, 1) as running:
        topology = planned_topology(settings, cluster, application)
        wait(lambda: running[0].ask("live"))
        started, cpu_before = time.perf_counter(), cpu_seconds(running[0].process.pid)
        wait_ready(running, sum(spec.partitions for spec in topology.processors))
        took, cpu = time.perf_counter() - started, cpu_seconds(running[0].process.pid) - cpu_before
        rows = sum(value for name, value in running[0].metrics().items() if "recovered_rows" in name)
        return Recovery(took, cpu, rows)


def stage_table(title: str, measured: Measured, pages: int) -> Table:
    rows: list[list[Any]] = []
    for stage in STAGES:
        value = {name: measured.metrics.get(f'dustream_{name}_total{{processor="{stage}"}}', 0.0)
                 for name in ("messages", "handling_seconds", "state_rows", "batches")}  # fmt: skip
        messages = max(value["messages"], 1)
        rows.append([
            stage, round(messages / pages, 2), round(value["handling_seconds"] / messages * 1e6),
            round(value["state_rows"] / pages, 2), round(messages / max(value["batches"], 1), 1),
        ])  # fmt: skip
    total = {name: measured.metrics.get(f"dustream_{name}_total", 0.0)
             for name in ("transactions", "writing_seconds", "handed_over")}  # fmt: skip
    title += (
        f"; {total['transactions'] * 1000 / pages:.1f} transactions per 1,000 pages, {total['writing_seconds']:.1f} s "
        f"in them; {total['handed_over'] / pages:.2f} messages/page went from task to task without a log"
    )
    return Table(title, ["stage", "messages/page", "µs/message", "rows/page", "messages/batch"], rows)


def write_pages(events: Iterable[CrawlEvent], path: Path) -> None:
    with path.open("wb") as file:
        for event in events:
            file.write(msgspec.json.encode(event) + b"\n")


@dataclass(frozen=True)
class Embedded:
    seconds: float
    cpu: float
    state_hash: str


def warm_embedded(pages: Path, folder: Path, settings: Settings) -> None:
    """Compile everything."""
    few = folder / "few.jsonl"
    with pages.open("rb") as lines:
        few.write_bytes(b"".join(islice(lines, 64)))
    run_job(RunRequest([str(few)], folder / "warm", folder / "warm-state", settings, 1))


def run_embedded(pages: Path, folder: Path, settings: Settings, turn: int) -> Embedded:
    """The embedded engine on the same pages."""
    cpu_before = time.process_time()
    request = RunRequest([str(pages)], folder / f"embedded-{turn}", folder / f"state-{turn}", settings, 1)
    summary = run_job(request)
    return Embedded(summary.seconds, time.process_time() - cpu_before, summary.state_hash)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=Settings().partitions)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="how many, one run after the other")
    parser.add_argument("--repeat", type=int, default=3, help="how often all of them take turns")
    parser.add_argument(
        "--recovery", type=int, metavar="PAGES", help="only the recovery of a worker, with so many generated pages"
    )
    args = parser.parse_args()
    settings = Settings(partitions=args.partitions)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        if args.recovery:
            bench_recovery(args.recovery, settings, Path(folder))
        else:
            bench_workers(args.pages, args.workers, args.repeat, settings, Path(folder))


@dataclass(frozen=True)
class Turn:
    """Each engine once."""

    embedded: Embedded
    by_count: dict[int, Measured]


def bench_workers(count: int, workers: list[int], repeat: int, settings: Settings, folder: Path) -> None:
    what, events = sample_pages(count)
    pages = folder / "pages.jsonl"
    write_pages(events, pages)
    warm_embedded(pages, folder, settings)
    with running_broker(folder) as (cluster, pid):
        turns = [
            Turn(
                run_embedded(pages, folder, settings, turn),
                {count: run_workers(cluster, pid, pages, folder, settings, count, turn) for count in workers},
            )
            for turn in range(repeat)
        ]
        recovery = recover(cluster, application_of(workers[0], 0), folder, settings)
    tables = tables_of(f"{what}, {settings.partitions} partitions, {repeat} turns", len(events), turns)
    publish_result("kafka", [*tables, recovery_table(recovery, len(events))])


def bench_recovery(count: int, settings: Settings, folder: Path) -> None:
    """One worker works through generated pages; then another with an empty folder takes over."""
    pages = folder / "pages.jsonl"
    write_pages(generate(count, seed=1, markup_bytes=RECOVERY_MARKUP_BYTES), pages)
    with running_broker(folder) as (cluster, pid):
        measured = run_workers(cluster, pid, pages, folder, settings, 1, 0)
        recovery = recover(cluster, application_of(1, 0), folder, settings)
    cpu = ", ".join(f"{name} {seconds:.0f}" for name, seconds in measured.cpu.items())
    print(f"{count:,} generated pages worked through in {measured.seconds:.0f} s (processor seconds: {cpu})")
    publish_result("kafka_recovery", [recovery_table(recovery, count)])


@contextmanager
def running_broker(folder: Path) -> Iterator[tuple[KafkaCluster, int]]:
    broker = Broker(folder / "broker")
    running = broker.start(free_port())
    try:
        yield KafkaCluster(running.bootstrap), running.pid
    finally:
        broker.stop()


def tables_of(what: str, pages: int, turns: list[Turn]) -> list[Table]:
    same = all(run.state_hash == turn.embedded.state_hash for turn in turns for run in turn.by_count.values())
    what += f"; statuses {'equal those of the embedded run' if same else 'DIFFER from those of the embedded run'}"
    return [
        Table(what, ["turn", "engine", "seconds", "pages/s", "processor seconds"], list(run_rows(pages, turns))),
        Table("Median, least to most", ["", "wall", "processor"], list(ratio_rows(turns))),
        *(
            stage_table(f"{name_of(count)}, the last turn", measured, pages)
            for count, measured in turns[-1].by_count.items()
        ),
    ]


def run_rows(pages: int, turns: list[Turn]) -> Iterator[list[Any]]:
    for number, turn in enumerate(turns, 1):
        embedded = turn.embedded
        rate = round(pages / embedded.seconds)
        yield [number, "embedded, --jobs 1", round(embedded.seconds, 2), rate, f"{embedded.cpu:.1f}"]
        for count, measured in turn.by_count.items():
            cpu = ", ".join(f"{name} {seconds:.1f}" for name, seconds in measured.cpu.items())
            cpu += f"; all else on this machine {measured.others_cpu:.1f}"
            yield [number, name_of(count), round(measured.seconds, 2), round(pages / measured.seconds), cpu]


def ratio_rows(turns: list[Turn]) -> Iterator[list[Any]]:
    first, *more = turns[0].by_count
    for count in (first, *more):
        runs = [turn.by_count[count] for turn in turns]
        wall = [turn.embedded.seconds / run.seconds for turn, run in zip(turns, runs, strict=True)]
        processor = [turn.embedded.cpu / run.least_seconds for turn, run in zip(turns, runs, strict=True)]
        yield [f"{name_of(count)}: share of embedded", spread(wall), spread(processor)]
    for count in more:
        pairs = [(turn.by_count[first], turn.by_count[count]) for turn in turns]
        wall = [one.seconds / run.seconds for one, run in pairs]
        processor = [one.least_seconds / run.least_seconds for one, run in pairs]
        yield [f"{name_of(count)}: times {name_of(first)}", spread(wall), spread(processor)]


def publish_result(name: str, tables: list[Table]) -> None:
    for table in tables:
        print(f"\n{table.title}\n\n{table.markdown()}")
    write_result(name, tables)


def name_of(count: int) -> str:
    return f"{count} worker" + "s" * (count > 1)


def spread(values: list[float]) -> str:
    return f"{median(values):.2f}, {min(values):.2f} to {max(values):.2f}"


def recovery_table(recovery: Recovery, pages: int) -> Table:
    columns = ["pages", "changelog records", "seconds", "processor seconds"]
    row = [pages, round(recovery.rows), round(recovery.seconds, 1), round(recovery.cpu_seconds, 1)]
    return Table("Recovery of a worker from an empty folder", columns, [row])


if __name__ == "__main__":
    main()
