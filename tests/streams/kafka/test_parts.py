"""The parts of the Kafka engine that need no broker."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import toy
import zstandard
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from dustream.core.errors import BadSetting
from dustream.core.intake import take_in
from dustream.core.pipeline import pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.extractors import TextSource
from dustream.core.topology import ProcessorSpec
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.cli.main import main
from dustream.streams.compare import compare
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import StatusLine
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.broker import Broker, RunningBroker
from dustream.streams.kafka.cluster import KafkaCluster, read_cluster
from dustream.streams.kafka.counted import PagesCounted, groups_counted
from dustream.streams.kafka.health import LOOPBACK, Health, serve
from dustream.streams.kafka.inbox import Inboxes
from dustream.streams.kafka.intake import CrashGuard, IntakeProcessor, pack, unpack
from dustream.streams.kafka.metrics import Metrics
from dustream.streams.kafka.records import (
    ORIGINAL_HEADER,
    RECORD_BYTES,
    InRecord,
    LinkBatch,
    Outbox,
    OutRecord,
    pack_link_batches,
    read_link_batches,
    record_letter,
)
from dustream.streams.kafka.replay import parse_offsets
from dustream.streams.kafka.topics import RECORD_BYTES_MAX, plan_topics
from dustream.streams.kafka.worker_log import Seldom
from dustream.streams.store.memory import MemoryStore

EVENTS = [CrawlEvent(url=f"https://example.org/{number}", body=b"\xff\0" * number) for number in range(40)]


def test_pack_and_single_event_are_told_apart() -> None:
    assert unpack(pack(EVENTS, zstandard.ZstdCompressor())) == EVENTS
    assert unpack(msgspec.json.encode(EVENTS[3])) == [EVENTS[3]]


def test_pages_know_where_in_the_crawl_topic_they_stand(tmp_path: Path) -> None:
    pages = [
        CrawlEvent(url=f"https://example.org/{n}", text=f"page {n}", status=500 if n == 1 else 200) for n in range(3)
    ]
    values = [pack(pages, zstandard.ZstdCompressor()), msgspec.json.encode(pages[2])]
    records = [InRecord("crawl.pages", 5, 0, 70 + at, None, value, {}) for at, value in enumerate(values)]
    guard = CrashGuard(tmp_path / "guard")
    intake = IntakeProcessor(pipeline(Settings()), "pages", TextSource(), guard, Metrics())
    sends = intake.process(None, records)  # type: ignore[arg-type]  # it keeps no state
    guard.close()
    found = [(send.message.url, send.message.origin) for send in sends]
    urls = [page.url for page in pages]
    assert found == [(urls[0], "k5:70:0"), (urls[2], "k5:70:2"), (urls[2], "k5:71:0")]


def test_damaged_or_boasting_pack_is_refused() -> None:
    whole = pack(EVENTS, zstandard.ZstdCompressor())
    with pytest.raises(ValueError, match="damaged"):
        unpack(whole[:-9])
    bomb = zstandard.ZstdCompressor().compress(bytes(300 << 20))
    with pytest.raises(ValueError, match="size"):
        unpack(bomb)
    stream = zstandard.ZstdCompressor().compressobj()
    with pytest.raises(ValueError, match="size"):
        unpack(stream.compress(b"x") + stream.flush())


def test_outbox_numbers_batches_and_records_are_cut() -> None:
    outbox = Outbox(toy.topology(2), Application("t"), "read-0", {"words-1": 5})
    outbox.add(Send("words", 1, toy.Word("x" * (RECORD_BYTES // 3), number)) for number in range(7))
    outbox.add([Send("words", 0, toy.Word("y", 0))])
    batches = [batch for (_, partition), batch in outbox.link_batches() if partition == 1]
    numbers = [batch.number for batch in batches]
    assert numbers == list(range(5, 5 + len(numbers))) and len(numbers) > 2
    assert outbox.sent == {"words-1": 5 + len(numbers), "words-0": 1}
    small = [LinkBatch("read-1", number, msgspec.Raw(b"\x90")) for number in range(3)]
    values = list(pack_link_batches([*batches, *small]))
    assert all(len(value) <= RECORD_BYTES + 100 for value in values) and len(values) < len(batches) + 3
    unpacked = [batch for value in values for batch in read_link_batches(value)]
    assert [(batch.sender, batch.number) for batch in unpacked[-3:]] == [("read-1", number) for number in range(3)]
    words = [word for batch in unpacked for word in msgspec.msgpack.decode(batch.messages)]
    assert [echoes for _, echoes in words] == list(range(7)), "order is kept across the cuts"


def test_password_is_never_shown() -> None:
    environment = {
        "DUSTREAM_SECURITY_PROTOCOL": "sasl_ssl",
        "DUSTREAM_SASL_MECHANISM": "SCRAM-SHA-512",
        "DUSTREAM_SASL_USERNAME": "me",
        "DUSTREAM_SASL_PASSWORD": "s3cret",
    }
    cluster = read_cluster("broker:1", environment)
    assert cluster.confluent()["sasl.password"] == "s3cret" == cluster.aiokafka()["sasl_plain_password"]
    assert "s3cret" not in repr(cluster)
    with pytest.raises(BadSetting, match="DUSTREAM_SASL_USERNAME"):
        KafkaCluster(protocol="SASL_SSL", password="x")


def test_topics_are_compacted_where_the_newest_counts() -> None:
    plans = {plan.name: plan for plan in plan_topics(toy.topology(3), Application("t")).plans}
    assert (
        plans["t.counts"].config["cleanup.policy"] == "compact" == plans["t.count.changelog"].config["cleanup.policy"]
    )
    assert "cleanup.policy" not in plans["t.seen"].config
    assert {plan.partitions for plan in plans.values()} == {3}


def test_crawl_topic_may_have_partitions_of_its_own() -> None:
    topology = toy.topology(3)
    read, count = topology.processors
    topology = replace(topology, processors=(replace(read, partitions=7), count))
    plans = {plan.name: plan.partitions for plan in plan_topics(topology, Application("t")).plans}
    assert plans["t.lines"] == plans["t.read.changelog"] == 7
    assert plans["t.words"] == plans["t.counts"] == plans["t.dead.letters"] == 3
    outbox = Outbox(topology, Application("t"), "read-6", {})
    outbox.add(Send("counts", f"w{number}", toy.Count(1)) for number in range(50))
    assert {record.partition for record in outbox.public} == {0, 1, 2}


def test_groups_are_counted_as_they_change() -> None:
    metrics, settings, store = Metrics(), Settings(partitions=1), MemoryStore()

    def run(events: list[CrawlEvent]) -> None:
        planned = pipeline(settings)
        topology = replace(planned, processors=tuple(counted(spec) for spec in planned.processors))
        crawls = take_in(events, settings.text_source).crawls
        EmbeddedEngine(topology, store).run([Feed([Send("pages", crawl.url, crawl) for crawl in crawls])])

    def counted(spec: ProcessorSpec) -> ProcessorSpec:
        return replace(spec, make=lambda: groups_counted(spec.make(), metrics)) if spec.name == "groups" else spec

    def page(name: str, text: str, **fields: int) -> CrawlEvent:
        return CrawlEvent(url=f"https://example.org/{name}", text=text * 20, **fields)

    run([page("a", "one text "), page("b", "one text "), page("c", "other words "), page("d", "other words ")])
    assert 'dustream_groups{partition="0",processor="groups"} 2' in metrics.text()
    metrics.set("groups", 0, processor="groups", partition="0")
    run([CrawlEvent(url="https://example.org/b", status=404, fetched_at=5)])
    assert 'dustream_groups{partition="0",processor="groups"} 1' in metrics.text()


def test_pages_are_counted_at_their_tier_2_homes() -> None:
    metrics, settings, store = Metrics(), Settings(partitions=1), MemoryStore()
    planned = pipeline(settings)
    specs = [
        replace(spec, make=lambda spec=spec: PagesCounted(spec.make(), metrics, 1)) if spec.name == "pages" else spec
        for spec in planned.processors
    ]
    crawls = take_in([CrawlEvent(url=f"https://example.org/{n}", text=f"{n} ") for n in range(3)], TextSource()).crawls
    feed = Feed([Send("pages", crawl.url, crawl) for crawl in crawls])
    EmbeddedEngine(replace(planned, processors=tuple(specs)), store).run([feed])
    lines = metrics.text().splitlines()
    assert 'dustream_tier2_pages{home="0",partition="0",processor="pages"} 3' in lines
    assert 'dustream_tier2_imbalance{partition="0",processor="pages"} 1' in lines
    assert 'dustream_remapped_pages{partition="0",processor="pages"} 0' in lines
    metrics.drop("tier2_pages", processor="pages", partition="0")
    assert "dustream_tier2_pages" not in metrics.text()


def test_original_too_large_for_a_letter_is_left_in_its_log() -> None:
    def record(original: bytes) -> OutRecord:
        outbox = Outbox(toy.topology(1), Application("t"), "read-0", {})
        letter = record_letter(InRecord("lines", 0, 7, 7, b"k", original, {}), "lines", "no good")
        outbox.add([Send("dead.letters", "lines-0", letter)])
        return outbox.public[0]

    small, large = record(b"x" * 1000), record(b"x" * RECORD_BYTES_MAX)
    assert dict(small.headers)[ORIGINAL_HEADER] == b"x" * 1000
    assert large.headers == () and b'"position":7' in (large.value or b"")


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    assert metrics.text() == ""
    metrics.add("events_ignored", 2, reason='a "quoted"\nreason')
    metrics.set("lag", 7, processor="pages", partition="0")
    lines = metrics.text().splitlines()
    assert 'dustream_events_ignored_total{reason="a \\"quoted\\"\\nreason"} 2' in lines
    assert 'dustream_lag{partition="0",processor="pages"} 7' in lines
    assert "# TYPE dustream_lag gauge" in lines


def test_a_process_leaves_in_time_whatever_its_threads_wait_for() -> None:
    """As one that reads from a broker that is away."""
    waiting = "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
    command = f"from dustream.streams.kafka.worker import leave_after; leave_after(0.2); {waiting}"
    left = subprocess.run([sys.executable, "-c", command], timeout=120, capture_output=True, text=True)
    assert left.returncode == 1


def test_a_taken_health_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadSetting, match=f"127.0.0.1:{port} cannot be listened on"):
            asyncio.run(serve(Health(Metrics()), LOOPBACK, port))


def test_libraries_complain_once_in_a_while() -> None:
    now_s = 100.0
    seldom = Seldom(lambda: now_s)

    def complain(source: str, node: int) -> logging.LogRecord | None:
        record = logging.LogRecord(source, logging.ERROR, "", 0, "no connection to node %s", (node,), None)
        return record if seldom.filter(record) else None

    first = complain("aiokafka", 1)
    assert first is not None and first.getMessage() == "no connection to node 1"
    assert complain("aiokafka", 2) is None and complain("aiokafka", 3) is None
    assert complain("dustream.streams", 1) is not None, "our own are all told"
    now_s += 11
    later = complain("aiokafka", 4)
    assert later is not None
    assert later.getMessage() == (
        "no connection to node 4 (repeated 2 times since last logged; the worker keeps trying)"
    )


def test_offsets_as_people_write_them() -> None:
    assert parse_offsets(["0:5-9", "2:-7", "3:4-"]) == {0: (5, 9), 2: (0, 7), 3: (4, None)}
    for wrong in ("5-9", "0:5", "x:1-2", "0:1-b"):
        with pytest.raises(BadSetting, match="PARTITION:FROM-TO"):
            parse_offsets([wrong])


def test_comparison_says_what_changed_and_why() -> None:
    def line(url: str, role: str, winner: str | None = None, similarity: float | None = None) -> StatusLine:
        relation = "near" if winner else None
        return StatusLine(url, role, "g", winner, relation, similarity, None, None, 1)  # type: ignore[arg-type]

    before = {"a": line("a", "winner"), "b": line("b", "duplicate", "a", 0.91), "c": line("c", "unique")}
    after = {"a": line("a", "unique"), "b": line("b", "unique"), "c": line("c", "unique"), "d": line("d", "unique")}
    counts, changes = compare(before, after)
    assert counts.same == 1 and counts.changed == {"only after": 1, "role": 2}
    assert changes[1].why == "no duplicate any more: was near duplicate of a, similarity 0.9100, is unique now"


def test_record_being_parsed_in_a_crash_is_suspect_after_it(tmp_path: Path) -> None:
    path = tmp_path / "guard"
    crash = (
        "import os, sys; from pathlib import Path; from dustream.streams.kafka.intake import CrashGuard\n"
        "guard = CrashGuard(Path(sys.argv[1]))\n"
        "with guard.watching(1, 5): pass\n"
        "with guard.watching(2, 10): os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", crash, str(path)], env=os.environ, check=False)
    guard = CrashGuard(path)
    assert guard.suspects(2, 10)
    assert not guard.suspects(2, 11) and not guard.suspects(1, 5)
    guard.close()


def test_a_lost_connection_is_told_without_a_trace() -> None:
    lost = KafkaConnectionError("closed")
    record = logging.LogRecord("faust", logging.ERROR, "", 0, "cannot start", (), (type(lost), lost, None))
    assert Seldom(lambda: 0.0).filter(record)
    assert record.exc_info is None and record.getMessage() == "cannot start: KafkaConnectionError: closed"


@pytest.mark.parametrize(
    "options",
    [
        ("broker", "start", "--port", "0"),
        ("broker", "start", "--port", "65536"),
        ("worker", "--health-port", "99999"),
        ("worker", "--session-timeout", "0"),
        ("worker", "--drain-timeout", "nan"),
        ("replay", "--into", "trial", "--workers", "-1"),
    ],
)
def test_numbers_that_cannot_be_are_refused(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(options))
    assert ended.value.code == 2 and f"{options[-1]} is no " in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="ps is always there")
def test_a_running_broker_is_known_without_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "input()", str(tmp_path / "server.properties")]
    monkeypatch.setenv("PATH", str(tmp_path))
    with subprocess.Popen(command, stdin=subprocess.PIPE) as other:
        (tmp_path / "broker.json").write_bytes(msgspec.json.encode(RunningBroker(other.pid, 1, 2)))
        assert Broker(tmp_path).running() is not None
        other.kill()
        other.wait()
        assert Broker(tmp_path).running() is None


def _inboxes(waiting: dict[TP, list[int]]) -> Inboxes:
    """Records of these sizes."""
    inboxes = Inboxes(1 << 20)
    for tp, sizes in waiting.items():
        for offset, size in enumerate(sizes):
            inboxes.put(tp, InRecord(tp.topic, tp.partition, offset, offset, None, b"x" * size, {}))
    return inboxes


def test_what_a_task_does_not_need_of_a_round_is_for_the_others() -> None:
    few, many, more = TP("pages", 0), TP("crawl.pages", 0), TP("crawl.pages", 1)
    inboxes = _inboxes({few: [100], many: [100] * 50, more: [100] * 50})
    taken = inboxes.take_fairly([few, many, more], 2_100)
    assert list(taken) == sorted([few, many, more])
    assert {tp: len(records) for tp, records in taken.items()} == {few: 1, many: 10, more: 10}
    assert [record.offset for record in taken[many]] == list(range(10))
    assert [record.offset for record in inboxes.take(many, 100)] == [10]


def test_a_round_has_a_record_of_every_task_that_something_waits_for() -> None:
    large, small = TP("crawl.pages", 0), TP("crawl.pages", 1)
    taken = _inboxes({large: [5_000, 5_000], small: [4_000, 10]}).take_fairly([large, small], 1_000)
    assert {tp: len(records) for tp, records in taken.items()} == {large: 1, small: 1}
