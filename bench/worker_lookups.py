"""How fast Kafka workers answer questions and lookups on a state of 400,000 pages, with a real broker on this machine:
`python bench/worker_lookups.py [--pages N]`.

The rows are those of bench/questions.py, written to the changelogs. Two workers recover them, and share the tasks. Each
question is asked at both workers, five times; the median of the slower worker counts. The load tool is wrk, as in
bench/serve.py, at one worker: half of the URLs are asked of the other one. Processor time is that of both workers.
"""

from __future__ import annotations

import argparse
import http.client
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from confluent_kafka import Producer
from questions import fill, url
from result_files import Table, write_result
from serve import BATCH_URLS, LUA_BATCH, LUA_HEAD, LUA_SINGLE, TICK_S, Server

from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import map_id
from dustream.streams.engine.state_rows import STATE_FORMAT
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import Broker, free_port
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.local_state import task_prefix
from dustream.streams.kafka.maps import create_application, read_map
from dustream.streams.kafka.progress import PROGRESS_KEY, TaskProgress
from dustream.streams.store.rocks import RocksStore

REPEAT = 5
WAIT_S_MAX = 1_800.0


class WorkerServer(Server):
    """A worker with a lookup service; its processor time is that of all workers."""

    workers: list[WorkerServer]

    def __init__(self, bootstrap: str, name: str, data: Path) -> None:
        self.host, self.port = "127.0.0.1", free_port()
        command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", "--bootstrap", bootstrap]
        options = ["--name", name, "--data", str(data), "--serve-port", str(self.port), "--rate", "1e9"]
        with data.with_suffix(".log").open("wb") as log:
            self._process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
        self.workers = [self]

    def own_cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def cpu_s(self) -> float:
        return sum(each.own_cpu_s() for each in self.workers)

    def is_settled(self, pages: int) -> bool:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request("GET", "/v1/stats")
            response = connection.getresponse()
            return response.status == 200 and f'"pages":{pages},'.encode() in response.read()
        except OSError:
            return False
        finally:
            connection.close()


def write_changelogs(cluster: KafkaCluster, application: Application, settings: Settings, folder: Path) -> None:
    """The rows of an embedded state, as the tasks of workers would have written them."""
    topology = planned_topology(settings, cluster, application)
    cells = read_map(cluster, application, settings)
    fingerprint = f"{settings.fingerprint()}-{map_id(cells)}-{STATE_FORMAT}"
    producer = Producer(cluster.confluent(linger_ms=50, queue_buffering_max_messages=1_000_000))
    store = RocksStore(folder, read_only=True)
    for spec in topology.processors:
        for partition in range(spec.partitions):
            prefix, place = task_prefix(spec.name, partition), (application.changelog(spec.name), partition)
            _produce(producer, place, TaskProgress(fingerprint).encode(), PROGRESS_KEY)
            for key, row in store.scan(prefix):
                _produce(producer, place, row, key[len(prefix) :])
    producer.flush()
    store.close()


def _produce(producer: Producer, place: tuple[str, int], value: bytes, key: bytes) -> None:
    while True:
        try:
            producer.produce(place[0], value, key, place[1])
            return
        except BufferError:
            producer.poll(0.5)


@contextmanager
def working(folder: Path, pages: int) -> Iterator[list[WorkerServer]]:
    """Two workers that have recovered the state."""
    broker = Broker(folder / "kafka")
    broker.start(free_port())
    running = broker.running()
    assert running is not None
    cluster, application, settings = KafkaCluster(running.bootstrap), Application("lookups"), Settings()
    workers: list[WorkerServer] = []
    try:
        create_application(cluster, application, planned_topology(settings, cluster, application), settings)
        fill(folder / "embedded", pages)
        write_changelogs(cluster, application, settings, folder / "embedded")
        print("changelogs written", flush=True)
        workers += [WorkerServer(running.bootstrap, "lookups", folder / f"worker-{each}") for each in range(2)]
        for each in workers:
            each.workers = workers
        deadline = time.monotonic() + WAIT_S_MAX
        while not all(each.is_settled(pages) for each in workers):
            if time.monotonic() > deadline:
                sys.exit(f"the workers did not recover: see {folder}")
            time.sleep(1)
        yield workers
    finally:
        for each in workers:
            each.stop()
        broker.stop()


def ask_questions(workers: list[WorkerServer], pages: int) -> list[list[object]]:
    last, far = url(pages // 10 - 1), url(pages // 20)
    questions = {
        "status of a page": ("/v1/url", {"u": far}),
        "why a page of a group of four": ("/v1/why", {"a": url(pages // 2 - 1)}),
        "why two pages that are not alike": ("/v1/why", {"a": url(pages - 1), "b": url(pages - 2)}),
        f"why the ends of a chain of {pages // 10:,} are in one group": ("/v1/why", {"a": url(0), "b": last}),
        "why, of a page never seen": ("/v1/why", {"a": f"{url(7)}x"}),
        "groups by size": ("/v1/groups", {}),
        "groups by change": ("/v1/groups", {"by": "changed"}),
        "groups of a site": ("/v1/groups", {"site": "site7.example"}),
        "a group of four": ("/group", {"id": url(pages // 10)}),
        "overview": ("/", {}),
    }
    rows: list[list[object]] = []
    for name, (path, asked) in questions.items():
        target = f"{path}?{urlencode(asked)}"
        before = workers[0].cpu_s()
        took = [median(each.request_ms(target) for _ in range(REPEAT)) for each in workers]
        cpu_ms = 1e3 * (workers[0].cpu_s() - before) / (REPEAT * len(workers))
        rows.append([name, round(max(took)), round(cpu_ms)])
        print(*rows[-1], sep="\t", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=400_000)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    args = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt install wrk")
    with tempfile.TemporaryDirectory() as folder, working(Path(folder), args.pages) as workers:
        asked = ask_questions(workers, args.pages)
        loads = []
        head = LUA_HEAD % args.pages
        for name, script, connections, lookups in (
            ("GET /v1/url, 16 connections", head + LUA_SINGLE % "/v1/url", 16, 1),
            (f"POST /v1/urls, {BATCH_URLS:,} URLs each, 2 connections", head + LUA_BATCH % BATCH_URLS, 2, BATCH_URLS),
        ):
            load = workers[0].load(script, connections, args.seconds, lookups)
            numbers = (load.per_second, load.p50_ms, load.p99_ms, load.cpu_us)
            loads.append([name, *(round(number, 1) for number in numbers)])
            print(*loads[-1], sep="\t", flush=True)
    title = f"two workers with {args.pages:,} pages"
    tables = [
        Table(f"questions at {title}", ["question", "ms", "processor time of both, ms"], asked),
        Table(
            f"lookups at one of {title}, wrk, workers and broker on two cores",
            ["load", "lookups a second", "p50, ms", "p99, ms", "processor time per lookup, µs"],
            loads,
        ),
    ]
    if args.pages == parser.get_default("pages"):
        write_result("worker_lookups", tables)


if __name__ == "__main__":
    main()
