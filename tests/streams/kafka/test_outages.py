"""What a worker shows and does when the broker, the disk or the input is not as it should be."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiokafka.codec
import msgspec
import pytest
from aiokafka.errors import KafkaError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dustream.core.settings import Settings
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import Broker, free_port
from dustream.streams.kafka.changelog import read_to_end
from dustream.streams.kafka.client import Client
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.dead import read_letters
from dustream.streams.kafka.faust_consumer import UNREADABLE_HEADER, CommittedConsumer, install
from dustream.streams.kafka.maps import create_application
from dustream.streams.kafka.metrics import HELP, Metrics
from dustream.streams.kafka.records import OutRecord
from dustream.streams.kafka.transactions import InDoubt, MemberProducer, Membership, Transactions

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMMAND = [sys.executable, "-m", "dustream.streams.cli.main"]
WAIT_S_MAX = 90.0


class Worker:
    """A worker of the real pipeline, started by its command, with its endpoints."""

    def __init__(self, cluster: KafkaCluster, application: Application, data: Path, *options: str) -> None:
        self.port = free_port()
        self.data = data
        self._log = data.with_suffix(".log")
        command = [*COMMAND, "worker", "--bootstrap", cluster.bootstrap, "--name", application.name]
        command += ["--data", str(data), "--partitions", "2", "--health-port", str(self.port)]
        command += ["--session-timeout", "6", "--input-topic", application.topic("crawl.pages"), *options]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def gauge(self, name: str) -> float | None:
        found = re.findall(rf"^dustream_{name}(?:{{[^}}]*}})? (\S+)$", self.ask("/metrics")[1], re.MULTILINE)
        return sum(map(float, found)) if found else None

    def wait(self, condition: Any, problem: str) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not condition():
            assert time.monotonic() < deadline, f"{problem}\n{self.log()[-4000:]}"
            assert self.process.poll() is None, f"the worker ended: {self.log()[-4000:]}"
            time.sleep(0.2)

    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(40)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def application(cluster: KafkaCluster, tmp_path: Path) -> Application:
    """With an input topic of somebody's own, which keeps records as they were compressed."""
    name = f"{tmp_path.name.replace('_', '-')[-40:]}-{os.getpid()}"
    admin = AdminClient(cluster.confluent())
    admin.create_topics([NewTopic(f"{name}-input", 2, 1)])[f"{name}-input"].result()
    application = Application(name, f"{name}-input")
    settings = Settings(partitions=2)
    create_application(cluster, application, planned_topology(settings, cluster, application), settings, None)
    return application


def event(number: int, words: int = 30) -> bytes:
    text = " ".join(f"word{number}x{word}" for word in range(words))
    return msgspec.json.encode(CrawlEvent(url=f"http://a.de/{number}", fetched_at=1, text=text))


def publish(cluster: KafkaCluster, application: Application, numbers: range, codec: str = "none") -> None:
    producer = Producer(cluster.confluent(compression_type=codec, linger_ms=100))
    for number in numbers:
        producer.produce(application.topic("crawl.pages"), event(number), f"http://a.de/{number}".encode(), number % 2)
    producer.flush()


def known(cluster: KafkaCluster, application: Application) -> set[int]:
    statuses = Client(cluster.bootstrap, name=application.name).newest()
    return {int(url.rpartition("/")[2]) for url in statuses}


def settled(cluster: KafkaCluster, application: Application, *options: str) -> subprocess.CompletedProcess[str]:
    where = ["--bootstrap", cluster.bootstrap, "--name", application.name]
    where += ["--input-topic", application.topic("crawl.pages")]
    return subprocess.run([*COMMAND, "settled", *where, *options], capture_output=True, text=True, timeout=120)


def test_every_codec_is_read_and_a_tombstone_named(
    cluster: KafkaCluster, application: Application, tmp_path: Path
) -> None:
    for number, codec in enumerate(CODECS):
        publish(cluster, application, range(number * 10, number * 10 + 10), codec)
    producer = Producer(cluster.confluent())
    producer.produce(application.topic("crawl.pages"), None, b"http://a.de/dead", 0)
    producer.flush()
    publish(cluster, application, range(90, 94))
    assert settled(cluster, application).returncode == 1
    worker = Worker(cluster, application, tmp_path / "w")
    try:
        done = settled(cluster, application, "--wait", "--timeout", "90", "--json")
        assert (done.returncode, msgspec.json.decode(done.stdout)["settled"]) == (0, True), worker.log()[-3000:]
        assert known(cluster, application) == {*range(50), *range(90, 94)}
        [letter] = read_letters(cluster, application)
        assert letter.letter.url == "http://a.de/dead" and letter.key == b"http://a.de/dead" and letter.original is None
        assert "a tombstone" in letter.letter.reason and "http://a.de/dead" in letter.letter.reason
        worker.wait(lambda: worker.gauge("unsettled") == 0, "the gauge does not say that all is settled")
        text = worker.ask("/metrics")[1]
        for name, (kind, _) in HELP.items():
            assert kind != "counter" or f"dustream_{name}_total" in text, name
        assert worker.gauge("alarms") == 0 and worker.gauge("held_pages") == 0
        assert worker.stop() == 0
    finally:
        worker.stop()


def test_a_batch_that_cannot_be_unpacked_is_passed_over_with_its_position(
    cluster: KafkaCluster, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, codec in enumerate(("none", "zstd", "none", "lz4")):
        producer = Producer(cluster.confluent(compression_type=codec, linger_ms=10_000))  # one batch each
        for each in range(number * 10, number * 10 + 5):
            producer.produce(application.topic("crawl.pages"), event(each), b"k", 0)
        producer.flush()
    monkeypatch.setattr(aiokafka.codec, "cramjam", None)  # as if the library that unpacks them were not there
    install()

    async def read() -> list[Any]:
        consumer = CommittedConsumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(application.topic("crawl.pages"), 0)])
            found: list[Any] = []
            deadline = time.monotonic() + 30
            while (not found or found[-1].offset < 19) and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += records
            return found
        finally:
            await consumer.stop()

    found = asyncio.run(read())
    assert [record.offset for record in found] == [*range(5), 9, *range(10, 15), 19]
    marks = [dict(record.headers).get(UNREADABLE_HEADER) for record in found if record.value is None]
    assert [mark.split(b" ")[0] for mark in marks] == [b"5", b"15"]
    assert all(b"codec not found" in mark for mark in marks)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[tuple[Broker, KafkaCluster]]:
    """One that can be stopped without harm to other tests."""
    broker = Broker(tmp_path / "own-broker")
    broker.start(free_port())
    running = broker.running()
    assert running is not None
    yield broker, KafkaCluster(running.bootstrap)
    broker.stop()


def test_a_broker_that_is_gone_shows(own_broker: tuple[Broker, KafkaCluster], tmp_path: Path) -> None:
    broker, cluster = own_broker
    running = broker.running()
    assert running is not None
    application, settings = Application("gone"), Settings(partitions=2)
    create_application(cluster, application, planned_topology(settings, cluster, application), settings, None)
    worker = Worker(cluster, application, tmp_path / "w")
    try:
        worker.wait(lambda: worker.ask("/ready")[0] == 200, "the worker is not ready")
        publish(cluster, application, range(4))
        worker.wait(lambda: worker.gauge("unsettled") == 0, "the worker did not settle")
        assert worker.gauge("lag") == 0 and (worker.gauge("contact_seconds") or 0) < 6
        os.kill(running.pid, signal.SIGSTOP)
        stopped_at_s = time.monotonic()
        worker.wait(lambda: worker.ask("/ready")[0] == 503, "a broker that is silent does not show")
        assert 3 < time.monotonic() - stopped_at_s < 15
        assert (worker.gauge("contact_seconds") or 0) > 5 and worker.gauge("ready") == 0
        assert worker.gauge("lag") is None and worker.gauge("unsettled") is None
        assert worker.ask("/live")[0] == 200 and "no answer from the broker" in worker.ask("/ready")[1]
        os.kill(running.pid, signal.SIGCONT)
        worker.wait(lambda: worker.ask("/ready")[0] == 200, "the worker is not ready again")
        publish(cluster, application, range(4, 8))
        worker.wait(lambda: known(cluster, application) == set(range(8)), "the worker does not go on")
    finally:
        os.kill(running.pid, signal.SIGCONT)
        worker.stop()


def test_a_full_disk_is_waited_for(cluster: KafkaCluster, application: Application, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: what is written beyond it fails, as on a full one."""
    publish(cluster, application, range(10))
    worker = Worker(cluster, application, tmp_path / "w")
    try:
        worker.wait(lambda: known(cluster, application) == set(range(10)), "the worker does not begin")
        _, hard = resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (20_000, hard))
        publish(cluster, application, range(10, 200))
        worker.wait(lambda: worker.gauge("disk_full") == 1, "a full disk is not noticed")
        assert worker.ask("/ready")[0] == 503 and "no room" in worker.ask("/ready")[1]
        assert worker.ask("/live")[0] == 200
        assert "there is no room in" in worker.log() and "Traceback" not in worker.log()
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        worker.wait(lambda: known(cluster, application) == set(range(200)), "the worker does not go on")
        worker.wait(lambda: worker.ask("/ready")[0] == 200, "the worker is not ready again")
        assert not (worker.data / "state.damaged").exists() and "not free" not in worker.log()
        assert worker.stop() == 0
    finally:
        worker.stop()


def test_endpoints_and_signals_while_hot_loops_are_compiled(cluster: KafkaCluster, tmp_path: Path) -> None:
    port = free_port()
    command = [*COMMAND, "worker", "--bootstrap", cluster.bootstrap, "--name", "unmade", "--data", str(tmp_path / "w")]
    command += ["--health-port", str(port), "--health-host", "127.0.0.2"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}  # nothing is compiled yet
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
    try:
        answers = []
        deadline = time.monotonic() + 60
        while len(answers) < 5 and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.2:{port}/live", timeout=5) as answer:
                    answers.append(answer.read())
            except OSError:
                pass
            time.sleep(0.3)
        assert answers == [b"alive\n"] * 5 and process.poll() is None
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.2:{port}/ready", timeout=5)
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=5)
        asked_at_s = time.monotonic()
        process.terminate()
        assert process.wait(20) == 0 and time.monotonic() - asked_at_s < 5
        assert process.stderr is not None and "stopped while warming up" in process.stderr.read()
    finally:
        process.kill()
        process.wait()


def test_after_a_transactional_request_that_timed_out_the_producer_is_opened_anew(
    own_broker: tuple[Broker, KafkaCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker stands still when the transaction is to be committed, for longer than a request may take."""
    broker, cluster = own_broker
    running = broker.running()
    assert running is not None
    admin = AdminClient(cluster.confluent())
    admin.create_topics([NewTopic("out", 1, 1)])["out"].result()
    requests: list[tuple[int, str]] = []
    send = MemberProducer._send_answered

    async def spied(self: MemberProducer, node: int, request: Any, **options: Any) -> Any:
        requests.append((id(self), type(request).__name__))
        return await send(self, node, request, **options)

    monkeypatch.setattr(MemberProducer, "_send_answered", spied)
    stalls = [True]

    def stall(moment: str) -> None:
        if moment == "inside-transaction" and stalls:
            stalls.clear()
            os.kill(running.pid, signal.SIGSTOP)
            threading.Timer(6, os.kill, (running.pid, signal.SIGCONT)).start()

    async def write() -> None:
        transactions = Transactions(cluster, Application("timing-out"), tmp_path, stall, request_timeout_s=2)
        who = Membership("timing-out-workers", -1, "")
        place = ("out", 0)
        await transactions.open()
        first = {place: [OutRecord(*place, b"k", b"first")]}
        with pytest.raises(InDoubt, match="EndTxnRequest"):
            await transactions.write(first, {place: (0, "")}, who)
        await transactions.close(InDoubt("as the worker does"))
        while not transactions.is_open:  # as the worker does, too
            with suppress(KafkaError, TimeoutError):
                await transactions.open()
        await transactions.write({place: [OutRecord(*place, b"k", b"second")]}, {place: (0, "")}, who)
        await transactions.close()

    asyncio.run(write())
    old = requests[0][0]
    own = [name for producer, name in requests if producer == old]
    assert [name for name in own if "Txn" in name].count("EndTxnRequest") == 1 and own[-1] == "EndTxnRequest"
    others = [name for producer, name in requests if producer != old]
    assert next(name for name in others if "Metadata" not in name and "Coordinator" not in name).startswith(
        "InitProducerId"
    )
    values = [record.value() for records in read_to_end(cluster, "out", 0, 0, reset="earliest") for record in records]
    assert values in ([b"first", b"second"], [b"second"]), "each once, or not at all"


def test_counters_are_there_from_the_start() -> None:
    metrics = Metrics()
    metrics.begin(["pages"])
    text = metrics.text()
    assert 'dustream_dead_letters_total{processor="pages"} 0' in text and "dustream_transactions_total 0" in text
    assert 'dustream_statuses_total{role="held"} 0' in text
    metrics.add("transactions")
    metrics.begin(["pages"])
    assert "dustream_transactions_total 1" in metrics.text(), "a worker that begins anew goes on counting"
