"""The real pipeline on the real broker: what comes out is what an embedded run gives, whatever is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from chaos import REAL, REPRINTED, Plan, run_chaos, undisturbed, write_web
from confluent_kafka.admin import AdminClient, NewTopic

import dustream
from dustream.core.errors import BadInput, StateMismatch
from dustream.core.settings import Settings
from dustream.core.tier2.partition_map import default_map, map_id
from dustream.core.topology import Topology
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.cli.main import main
from dustream.streams.compare import compare, read_outcome
from dustream.streams.kafka import publish
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import Broker
from dustream.streams.kafka.client import Client
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.dead import choose, read_letters, redrive
from dustream.streams.kafka.maps import create_application, read_map, require_settings
from dustream.streams.kafka.outcome import export
from dustream.streams.kafka.publish import publish_files
from dustream.streams.kafka.replay import copy_log, plan_stretches, prepare
from dustream.streams.kafka.sending import Sender
from dustream.streams.kafka.settled import unsettled
from dustream.streams.kafka.topics import partition_counts
from dustream.streams.store.memory import MemoryStore

PAGES = 150
PARTITIONS = 3
SETTINGS = Settings(partitions=PARTITIONS)
WAIT_S_MAX = 300.0


class Site(NamedTuple):
    """An application with two workers, fed with a generated web, at rest."""

    cluster: KafkaCluster
    application: Application
    topology: Topology
    web: Path
    embedded_hash: str


@pytest.fixture(scope="module")
def site(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pipeline")
    application = Application(f"pipeline-{time.time_ns()}")
    topology = planned_topology(SETTINGS, cluster, application)
    create_application(cluster, application, topology, SETTINGS)
    web = folder / "web.jsonl"
    write_web(web, PAGES, seed=3)
    embedded_hash = undisturbed(web, folder / "embedded", PARTITIONS)
    workers = [start(cluster, application, folder / f"worker-{number}") for number in range(2)]
    publish_files(cluster, application, [str(web)], folder / "published")
    site = Site(cluster, application, topology, web, embedded_hash)
    try:
        settle(site)
        yield site
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)


def start(cluster: KafkaCluster, application: Application, data: Path) -> subprocess.Popen[bytes]:
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.with_suffix(".log").open("ab") as log:
        command = [sys.executable, str(REAL), cluster.bootstrap, application.name, str(data), str(PARTITIONS)]
        return subprocess.Popen(command, stdout=log, stderr=log)


def settle(site: Site) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        try:
            if not unsettled(site.cluster, site.application, site.topology):
                return
        except Unreachable:
            pass
        time.sleep(0.3)
    raise AssertionError("the application did not come to rest")


def test_statuses_equal_those_of_an_embedded_run(site: Site, tmp_path: Path) -> None:
    outcome = export(site.cluster, site.application, MemoryStore(), tmp_path)
    assert outcome.state_hash == site.embedded_hash
    assert outcome.roles["duplicate"] > PAGES // 10
    assert outcome.relations["contained"] == REPRINTED // 3  # of the others the container went, or says something else


def test_publishing_again_reads_nothing_again(site: Site, tmp_path: Path) -> None:
    published = site.web.parent / "published"
    assert publish_files(site.cluster, site.application, [str(site.web)], published).events == 0


def test_a_topic_created_anew_is_published_to_from_the_beginning(site: Site) -> None:
    application = Application(f"anew-{time.time_ns()}")
    create_application(site.cluster, application, site.topology, SETTINGS)
    published = site.web.parent / "published"
    assert publish_files(site.cluster, application, [str(site.web)], published).events > PAGES


def test_any_client_may_publish_single_events(site: Site) -> None:
    with Client(site.cluster.bootstrap, site.application.name) as client:
        client.publish({"url": "https://new.example/", "fetched_at": "2026-01-01T00:00:00Z", "text": "one of a kind"})
    settle(site)
    status = Client(site.cluster.bootstrap, site.application.name).status("https://new.example")
    assert status is not None and status.role == "unique"


def test_what_a_page_is_does_not_depend_on_the_order(site: Site) -> None:
    """A confirmation before what it confirms, and a revisit after its page has changed, and before."""
    old, new = (" ".join(f"{name}{number}" for number in range(50)) for name in ("old", "new"))
    page, early, late, confirmed, only = (
        f"https://{name}.example/" for name in ("page", "early", "late", "ok", "only")
    )
    with Client(site.cluster.bootstrap, site.application.name) as client:
        client.publish({"url": early, "fetched_at": 2, "revisit_of": page})
        client.publish({"url": confirmed, "fetched_at": 2, "status": 304})
        client.publish({"url": only, "fetched_at": 2, "status": 304})
        client.publish({"url": page, "fetched_at": 3, "text": new})
        settle(site)
        client.publish({"url": late, "fetched_at": 2, "revisit_of": page})
        client.publish({"url": page, "fetched_at": 1, "text": old})
        client.publish({"url": confirmed, "fetched_at": 1, "text": old})
    settle(site)
    found = client.find([page, early, late, confirmed, only])
    assert {found[url].group for url in (early, late, confirmed)} != {found[page].group}
    assert len({found[url].group for url in (early, late, confirmed)}) == 1
    assert found[page].role == "unique" and found[only].problem == "content_unknown"


def test_a_canonical_link_decides_the_winner_and_its_change_is_heard(site: Site) -> None:
    old, stable = "https://docs.example/1.0/x", "https://docs.example/a/longer/path/to/stable/x"
    text = " ".join(f"canonical{number}" for number in range(100))
    client = Client(site.cluster.bootstrap, site.application.name)

    def publish_page(url: str, time_s: int, canonical: str) -> None:
        link = f'<link rel="canonical" href="{canonical}">'
        client.publish({"url": url, "fetched_at": time_s, "html": f"<html><head>{link}</head><p>{text}</p></html>"})

    with client:
        publish_page(old, 1, stable)
        publish_page(stable, 2, stable)
    settle(site)
    status = client.status(old)
    assert status is not None and (status.role, status.winner) == ("duplicate", stable)
    with client:
        publish_page(stable, 3, "https://docs.example/elsewhere")
        publish_page(old, 4, old)
    settle(site)
    status = client.status(stable)
    assert status is not None and (status.role, status.winner) == ("duplicate", old)


def test_an_operator_splits_a_group_through_the_crawl_topic(site: Site) -> None:
    words = [f"word{number}" for number in range(200)]
    client = Client(site.cluster.bootstrap, site.application.name)
    one, other = "https://one.example/", "https://other.example/"
    with client:
        client.publish({"url": one, "fetched_at": 1, "text": " ".join(words[:-2]), "popularity": 1e6})
        client.publish({"url": other, "fetched_at": 2, "text": " ".join(words)})
    settle(site)
    status = client.status(other)
    assert status is not None and (status.role, status.group) == ("duplicate", one)
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    assert main(["breaker", "split", one, "--pass-from", "0.999", *where]) == 0
    settle(site)
    status = client.status(other)
    assert status is not None and (status.role, status.winner) == ("winner", other)


def test_an_operator_keeps_a_page_through_the_crawl_topic(site: Site) -> None:
    text = " ".join(f"kept{number}" for number in range(100))
    client = Client(site.cluster.bootstrap, site.application.name)
    winner, page = "https://first-kept.example/", "https://second-kept.example/with/a/path"
    with client:
        client.publish({"url": winner, "fetched_at": 1, "text": text, "popularity": 1e6})
        client.publish({"url": page, "fetched_at": 2, "text": text})
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    found = []
    for arguments in (None, ["not-duplicate", page], ["undo", page]):
        assert arguments is None or main(["decide", *arguments, *where]) == 0
        settle(site)
        status = client.status(page)
        assert status is not None
        found.append((status.role, status.winner, status.decided))
    dropped = ("duplicate", winner, None)
    assert found == [dropped, ("winner", page, "not_duplicate"), dropped]


def test_a_rule_book_follows_what_is_learned(site: Site) -> None:
    client = dustream.Client(site.cluster.bootstrap, site.application.name)
    with client, dustream.RuleBook.follow(site.cluster.bootstrap, site.application.name) as book:
        assert {rules.site: rules for rules in book if rules.rules} == client.rules()
        assert book.rules("learned.example") is None
        for page in range(30):
            text = " ".join(f"page{page}word{number}" for number in range(40))
            for query in ("", f"?sid={page}1", f"?sid={page}2"):
                url = f"https://learned.example/{page}{query}"
                client.publish({"url": url, "fetched_at": 1, "text": text})
        client.flush()
        settle(site)
        deadline_s = time.monotonic() + 30
        while book.rules("learned.example") is None and time.monotonic() < deadline_s:
            book.refresh()
        assert book.rules("learned.example") == client.rules()["learned.example"]
        assert book.normalize("https://learned.example/99?sid=5") == "https://learned.example/99"
        (active,) = (rule for rule in client.rules()["learned.example"].rules if rule.stage == "active")
        where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
        assert main(["decide", "rule", "reject", "learned.example", active.id, *where]) == 0
        settle(site)
        (rejected,) = (rule for rule in client.rules()["learned.example"].rules if rule.id == active.id)
        assert (rejected.stage, rejected.decision) == ("shadow", "reject")


def test_redriven_dead_letter_is_taken_in_again_and_only_once(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(site.cluster.bootstrap, site.application.name) as client:
        client.publish(CrawlEvent(url="ftp://wrong.example/", text="x"))
    settle(site)
    letters = choose(read_letters(site.cluster, site.application), [], "scheme 'ftp'")
    assert [letter.letter.url for letter in letters] == ["ftp://wrong.example/"]
    assert redrive(site.cluster, site.application, letters) == 1
    settle(site)
    again = choose(read_letters(site.cluster, site.application), [], "scheme 'ftp'")
    assert [letter.original for letter in again] == [letters[0].original] * 2
    assert sorted((letter.place == letters[0].place, letter.redriven) for letter in again) == [
        (False, False),
        (True, True),
    ]
    where = ["--reason", "scheme 'ftp'", "--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    assert main(["dead", "redrive", "--all", "--json", *where]) == 0  # the new one
    assert main(["dead", "redrive", letters[0].place, "--json", *where]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["redriven"], each["redriven_before"]) for each in said] == [(1, 1), (0, 1)]
    settle(site)


def test_what_publish_cannot_read_is_kept_as_it_stood(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b'{"url": 7, "text": "no page"}\n')
    assert publish_files(site.cluster, site.application, [str(broken)], tmp_path / "published").rejected == 1
    [letter] = [found for found in read_letters(site.cluster, site.application) if found.letter.source == str(broken)]
    assert letter.original == b'{"url": 7, "text": "no page"}'
    assert redrive(site.cluster, site.application, [letter]) == 0


def test_of_a_long_record_publish_keeps_the_beginning_and_says_so(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = b"no HTTP response " * 100_000
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.de/\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(block) + block + b"\r\n\r\n"
    broken = tmp_path / "broken.warc"
    broken.write_bytes(whole)
    assert publish_files(site.cluster, site.application, [str(broken)], tmp_path / "published").rejected == 1
    [letter] = [found for found in read_letters(site.cluster, site.application) if found.letter.source == str(broken)]
    assert (letter.original, letter.original_size) == (whole[: 1 << 20], len(whole))
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    assert main(["dead", "list", "--reason", "no HTTP response", *where]) == 0
    assert f"first {1 << 20} of {len(whole)} bytes" in capsys.readouterr().out


def test_an_event_that_no_record_holds_does_not_stop_the_rest(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "EVENT_BYTES_MAX", 1000)
    events = [CrawlEvent(url=f"https://large.example/{size}", text="x" * size) for size in (10, 5000, 20)]
    file = tmp_path / "large.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    done = publish_files(site.cluster, site.application, [str(file)], tmp_path / "published", single=True)
    assert (done.events, done.rejected) == (2, 1)
    [letter] = [
        found.letter for found in read_letters(site.cluster, site.application) if found.letter.source == str(file)
    ]
    assert (letter.position, letter.url) == (1, events[1].url) and "the limit is 1000" in letter.reason


def test_what_a_broker_refuses_has_not_arrived(site: Site) -> None:
    topic = f"small-{time.time_ns()}"
    admin = AdminClient(site.cluster.confluent())
    admin.create_topics([NewTopic(topic, 1, config={"max.message.bytes": "1000"})])[topic].result()
    sender = Sender(site.cluster, "send less")
    sender.send(topic, b"x" * 5000)
    with pytest.raises(BadInput, match=r"the broker refused a record .*: send less"):
        sender.flush()


def test_letters_do_not_command_the_terminal(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(site.cluster.bootstrap, site.application.name) as client:
        client.publish(CrawlEvent(url="https://a.example/\x1b[31m", text="x"))
    settle(site)
    assert main(["dead", "list", "--bootstrap", site.cluster.bootstrap, "--name", site.application.name]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "https://a.example/\\x1b[31m" in shown


def test_watching_ends_with_its_reader(site: Site) -> None:
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    command = [sys.executable, "-m", "dustream.streams.cli.main", "watch", "--from-beginning", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        newest = Client(site.cluster.bootstrap, site.application.name).statuses()
        for _ in newest:  # all that is there, so that nothing more is written
            assert watch.stdout.readline()
        assert watch.poll() is None
        watch.stdout.close()
        assert watch.wait(30) == -signal.SIGPIPE


def test_files_that_cannot_be_replayed_are_named(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    into = ["--into", f"files-{time.time_ns()}", "--partitions", "1", "--workers", "0"]
    where = ["--bootstrap", site.cluster.bootstrap]
    assert main(["replay", "--from", "files", str(tmp_path / "image.png"), *into, *where]) == 1
    said = capsys.readouterr().err
    assert "refused: " in said and "image.png" in said and "nothing to replay" in said


def test_replay_with_another_partition_map_gives_the_same(site: Site, tmp_path: Path) -> None:
    target = Application(f"{site.application.name}-again")
    log = site.application.topic(CRAWL_PAGES)
    prepare(site.cluster, target, site.topology, SETTINGS, learned_map(site.web, tmp_path / "map"), fresh=False)
    stretches = plan_stretches(site.cluster, log, None, None, {})
    copied = copy_log(site.cluster, log, stretches, target)
    assert copied == sum(stretch.end - stretch.start for stretch in stretches)
    worker = start(site.cluster, target, tmp_path / "worker")
    try:
        settle(site._replace(application=target))
    finally:
        worker.terminate()
        worker.wait(60)
    before = read_outcome(site.application.name, site.cluster.bootstrap)
    after = read_outcome(target.name, site.cluster.bootstrap)
    counts, changes = compare(before, after)
    assert changes == [] and counts.same == len(before) > 100


def learned_map(web: Path, out: Path) -> bytes:
    assert main(["partitions", str(web), "--partitions", str(PARTITIONS), "--out", str(out)]) == 0
    return out.read_bytes()


def test_an_application_keeps_its_partition_map(site: Site, tmp_path: Path) -> None:
    create_application(site.cluster, site.application, site.topology, SETTINGS)
    other = learned_map(site.web, tmp_path / "map")
    with pytest.raises(StateMismatch, match="another partition map"):
        create_application(site.cluster, site.application, site.topology, SETTINGS, other)
    assert map_id(read_map(site.cluster, site.application, SETTINGS)) == map_id(default_map(PARTITIONS))


def test_a_map_that_cannot_be_used_leaves_nothing_behind(site: Site) -> None:
    application = Application(f"unmade-{time.time_ns()}")
    with pytest.raises(StateMismatch, match="not a partition map"):
        create_application(site.cluster, application, site.topology, SETTINGS, b"")
    assert not any(name.startswith(application.name) for name in partition_counts(site.cluster))


def test_other_settings_are_named(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    require_settings(site.cluster, site.application, SETTINGS)
    with pytest.raises(StateMismatch, match=r"other settings \(site_pages_min was 100\): use the same"):
        require_settings(site.cluster, site.application, Settings(partitions=PARTITIONS, site_pages_min=7))
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name, "--partitions", str(PARTITIONS)]
    assert main(["topics", "check", *where]) == 0
    for action in ("check", "create"):
        assert main(["topics", action, "--threshold", "0.8", *where]) == 1
        shown = capsys.readouterr()
        assert "was made with other settings (threshold was 0.9)" in shown.out + shown.err


def test_wrong_partitions_are_told_once(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    assert main(["topics", "check", "--partitions", "5", *where]) == 1
    assert capsys.readouterr().out.count(f"run with --partitions {PARTITIONS}") == 1


def test_status_of_a_url_is_told_from_the_cluster(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    newest = Client(site.cluster.bootstrap, site.application.name).newest()
    duplicate = next(status for status in newest.values() if status.role == "duplicate")
    where = ["--bootstrap", site.cluster.bootstrap, "--name", site.application.name]
    assert main(["status", duplicate.url, "https://nobody.example/", *where]) == 1
    shown = capsys.readouterr()
    assert f"winner      {duplicate.winner}" in shown.out
    assert "https://nobody.example/ is not known in" in shown.err


def test_cluster_tells_why_as_a_state_does(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    newest = Client(site.cluster.bootstrap, site.application.name).newest()
    duplicate = next(status.url for status in newest.values() if status.relation == "near")

    def ask(*where: str) -> dict[str, Any]:
        assert main(["why", duplicate, "--no-text", "--json", *where]) == 0
        return msgspec.json.decode(capsys.readouterr().out)

    on_kafka = ask("--bootstrap", site.cluster.bootstrap, "--name", site.application.name)
    in_state = ask("--state", str(site.web.parent / "embedded/state"))
    for what in ("role", "winner", "similarity", "decision", "group"):
        assert on_kafka[what] == in_state[what] is not None
    assert on_kafka["evidence"]


def test_cluster_lists_groups_as_a_state_does(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*where: str) -> set[tuple[str, int, str, str]]:
        assert main(["groups", "--json", "--top", "1000", *where]) == 0
        found = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
        return {(group["group"], group["size"], str(group["winners"]), str(group["sites"])) for group in found}

    in_state = ask("--state", str(site.web.parent / "embedded/state"))
    assert in_state and in_state <= ask("--bootstrap", site.cluster.bootstrap, "--name", site.application.name)


@pytest.mark.slow
def test_chaos(cluster: KafkaCluster, broker: Broker, tmp_path: Path) -> None:
    plan = Plan(pages=200, workers=2, kills=2, pauses=1, broker_kills=1, seed=7, partitions=2, gap_s_max=4)
    report = run_chaos(plan, broker, tmp_path)
    assert report.found == report.expected
