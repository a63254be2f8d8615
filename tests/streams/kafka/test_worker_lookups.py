"""The lookup service and the web page of workers, on the real broker: both of two workers answer as `dustream serve`
does over an embedded state of the same pages."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import schemathesis
from chaos import REAL
from chromium import follow, missing_tools, open_browser, text_of, violations
from confluent_kafka import Producer
from hypothesis import HealthCheck, settings
from not_run import skip_or_fail
from planted_pages import event, prose, write_events
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)
from selenium import webdriver
from selenium.webdriver.common.by import By
from served import Asking, Reply, Served
from served_web import HOSTILE_URL, WEB_SERVED

from dustream.core.settings import Settings
from dustream.streams.cli.main import main
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.assembly import planned_topology
from dustream.streams.kafka.broker import free_port
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.maps import create_application
from dustream.streams.kafka.publish import publish_files
from dustream.streams.serve.openapi import openapi

PARTITIONS = 4
NOT_RUN = "NOT RUN, no browser"
TOKEN = "0123456789abcdef-token"
WAIT_S_MAX = 120.0
A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"
NOT_COMPARED = {"position", "counted_at", "inputs", "decided_by", "text", "evidence"}
"""Where the input is differs, texts are not stored, and which matches connect a group may differ between runs."""

Ask = Callable[[Asking], Reply]
SCHEMA = schemathesis.openapi.from_dict(openapi())
UNDESCRIBED = [positive_data_acceptance, unsupported_method, negative_data_rejection]
"""As in tests/streams/serve/test_openapi.py, which has the large round."""


class Working(Asking):
    """A worker with a lookup service."""

    def __init__(self, cluster: KafkaCluster, name: str, data: Path) -> None:
        self._command = [sys.executable, str(REAL), cluster.bootstrap, name, str(data), str(PARTITIONS), "4.0"]
        self._log = data.with_suffix(".log")
        self.port = free_port()
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([*self._command, str(self.port), TOKEN], stdout=log, stderr=log)

    def send(self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        return super().send(method, target, body, {"Authorization": f"Bearer {TOKEN}"} | (headers or {}))

    def bare(self, target: str) -> Reply:
        """Without the token."""
        return super().send("GET", target)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)

    def is_settled(self) -> bool:
        try:
            answer = self.get("/v1/stats")
        except OSError:
            return False
        return answer.status == 200 and answer.json["settled"] and answer.json["counted_at"] == answer.json["position"]

    def log(self) -> str:
        try:
            stats = self.get("/v1/stats").text
        except OSError as error:
            stats = repr(error)
        return f"{stats}\n{self._log.read_text()[-3000:]}"


class Crew:
    """Two workers of an application, the embedded state of the same pages, and a client of the input."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self.cluster = cluster
        self.application = Application(f"lookups-{time.time_ns()}")
        settings = Settings(partitions=PARTITIONS)
        topology = planned_topology(settings, cluster, self.application)
        create_application(cluster, self.application, topology, settings)
        given = write_events(folder / "web.jsonl", WEB_SERVED)
        options = ["--jobs", "1", "--quiet", "--partitions", str(PARTITIONS)]
        self.workers = [Working(cluster, self.application.name, folder / f"worker-{each}") for each in range(2)]
        assert main(["run", str(given), "--out", str(folder / "out"), *options]) == 0
        publish_files(cluster, self.application, [str(given)], folder / "published")
        self.result = folder / "out"

    def wait(self, condition: Callable[[], Any], problem: str, pause_s: float = 0.1) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("\n".join([problem, *(worker.log() for worker in self.workers)]))
            time.sleep(pause_s)

    def settle(self, pages: int) -> None:
        def is_done() -> bool:
            return all(each.is_settled() and each.get("/v1/stats").json["pages"] >= pages for each in self.workers)

        self.wait(is_done, "the workers did not come to rest")


@pytest.fixture(scope="module")
def embedded(crew: Crew) -> Iterator[Served]:
    with Served(crew.result) as server:
        yield server


@pytest.fixture(scope="module")
def crew(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(cluster, tmp_path_factory.mktemp("lookups"))
    try:
        crew.settle(len({page["url"] for page in WEB_SERVED}) * 9 // 10)
        yield crew
    finally:
        for worker in crew.workers:
            worker.stop()


def _same(found: Any) -> Any:
    """An answer without what differs on Kafka."""
    if isinstance(found, dict):
        return {name: _same(value) for name, value in found.items() if name not in NOT_COMPARED}
    return [_same(each) for each in found] if isinstance(found, list) else found


URLS = [A, B, C, "https://a.example/old", "https://d.example/dead", "https://nobody.example/", HOSTILE_URL, "mailto:x"]
ASKED: dict[str, Ask] = {
    **{f"url {url}": lambda on, url=url: on.get("/v1/url", u=url) for url in URLS},  # type: ignore[misc]
    **{f"decide {url}": lambda on, url=url: on.get("/v1/decide", u=url) for url in URLS},  # type: ignore[misc]
    "decide by rule": lambda on: on.get("/v1/decide", u="https://shop.example/a/1?sid=new"),
    "urls": lambda on: on.post("/v1/urls", {"urls": URLS * 20}),
    **{f"why {url}": lambda on, url=url: on.get("/v1/why", a=url) for url in URLS},  # type: ignore[misc]
    "why two": lambda on: on.get("/v1/why", a=A, b=C),
    "why two of other groups": lambda on: on.get("/v1/why", a=A, b="https://soft.example/ant"),
    "near urls": lambda on: on.get("/v1/why", a="https://soft.example/antt"),
    "groups": lambda on: on.get("/v1/groups", top=500),
    "groups of a site": lambda on: on.get("/v1/groups", site="soft.example", by="changed"),
    "group": lambda on: on.get(f"/v1/groups/{quote(B, safe='')}"),
    "group with redirects": lambda on: on.get(f"/v1/groups/{quote(A, safe='')}", members=2),
    "no group": lambda on: on.get("/v1/groups/https%3A%2F%2Fnobody.example%2F"),
    "site": lambda on: on.get("/v1/sites/mirror-of-it.example"),
    "no site": lambda on: on.get("/v1/sites/nobody.example"),
    "rules": lambda on: on.get("/v1/rules/shop.example"),
    "normalize": lambda on: on.get("/v1/normalize", u="https://shop.example/a/1?sid=5"),
    "stats": lambda on: on.get("/v1/stats"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_workers_answer_as_an_embedded_state_does(crew: Crew, embedded: Served, asked: str) -> None:
    expected = ASKED[asked](embedded)
    for worker in crew.workers:
        found = ASKED[asked](worker)
        assert (found.status, _same(found.json)) == (expected.status, _same(expected.json))


@pytest.mark.parametrize("path", ["/", "/groups", "/groups?by=lowest", "/groups?by=different", "/rules", "/threshold"])
def test_views_of_everything_are_those_of_all_workers(crew: Crew, embedded: Served, path: str) -> None:
    """The counts and lists of pages are equal; the overview of a worker has its workers and its input besides."""

    def cells(on: Asking) -> list[str]:
        page = on.send("GET", path)
        assert page.status == 200, page.text
        text = page.text.partition("<h2>Inputs</h2>")[0]
        workers = re.compile(r"<h2>Workers</h2>.*?</div>", re.DOTALL)
        return re.findall(r"<t[dh][^>]*>.*?</t[dh]>", workers.sub("", text))

    expected = cells(embedded)
    assert path == "/threshold" or expected
    for worker in crew.workers:
        assert cells(worker) == expected


def test_both_workers_hold_some_of_the_pages(crew: Crew) -> None:
    """Else nothing above was asked of the other."""
    for worker in crew.workers:
        held = re.findall(r">(\d+) of (\d+)<", worker.get("/").text.partition("<h2>URLs by role")[0])
        assert [opened == assigned != "0" for opened, assigned in held] == [True, True]


def test_every_answer_has_the_offsets_of_the_input(crew: Crew) -> None:
    found = [worker.get("/v1/url", u=A).json["position"] for worker in crew.workers]
    assert found[0] == found[1] and len(found[0]) == PARTITIONS and sum(found[0]) > 0


def test_a_token_is_needed_by_every_endpoint(crew: Crew) -> None:
    for path in ("/", f"/v1/url?u={A}", "/internal/tasks", "/internal/rows"):
        assert crew.workers[0].bare(path).status == 401, path


def test_texts_are_not_stored_and_the_answer_says_so(crew: Crew) -> None:
    found = crew.workers[0].get("/v1/why", a=A, b=B).json
    assert "crawl topic" in found["text"]["missing"][0] and found["text"]["diff"] is None


def test_commands_ask_a_worker(crew: Crew, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    where = ["--url", crew.workers[1].base, "--token-file", str(token)]
    assert main(["why", A, C, *where]) == 0
    assert "similar" in capsys.readouterr().out
    assert main(["status", B, *where]) == 0
    assert f"winner      {A} (near, similarity 0.9048)" in capsys.readouterr().out
    assert main(["groups", *where, "--top", "1"]) == 0
    assert "https://soft.example/ant" in capsys.readouterr().out


def test_evidence_is_a_path_of_matches(crew: Crew) -> None:
    for worker in crew.workers:
        pair = worker.get("/v1/why", a=A, b=C).json["pair"]
        assert [(each["one"], each["other"]) for each in pair["evidence"]["path"]] == [(A, B), (B, C)]


def test_a_write_is_read_back_by_its_offset(crew: Crew) -> None:
    """Refused until it and all that follows is included, then answered."""
    url = "https://fresh.example/1"
    worker = crew.workers[0]
    partition = next(at for at, offset in enumerate(worker.get("/v1/url", u=A).json["position"]) if offset)
    ahead = worker.get("/v1/url", u=url, min_position=f"{partition}:99999999")
    assert ahead.status == 412 and ahead.headers["Retry-After"] == "1"
    assert worker.get("/v1/url", u=url, min_position=3).status == 400
    assert worker.get("/v1/url", u=url, min_position=f"{PARTITIONS}:1").status == 400
    place = _publish(crew, url)
    answers: list[Reply] = []

    def is_included() -> bool:
        answers.append(worker.get("/v1/url", u=url, min_position=place))
        return answers[-1].status == 200

    crew.wait(is_included, "the page was never included")
    assert answers[-1].json["role"] == "unique"
    assert {each.status for each in answers} <= {200, 412}


def test_a_decision_on_a_rule_is_read_back_by_its_offset(crew: Crew) -> None:
    """Rules are decided when a task is at rest: an answer that includes the event includes that work."""
    workers, site = crew.workers, "shop.example"
    rule = workers[0].get(f"/v1/rules/{site}").json["rules"][0]
    for number in range(10):
        decided = None if number % 2 else "reject"
        made = {"url": f"http://{site}/", "fetched_at": f"2020-01-01T00:00:{number:02}Z", "rule": rule["rewrite"]}
        place = _send(crew, made | {"decision": f"{decided or 'undo'}_rule"})
        for worker in workers:
            answers: list[Reply] = []

            def is_included(worker: Working = worker, place: str = place, answers: list[Reply] = answers) -> bool:
                answers.append(worker.get(f"/v1/rules/{site}", min_position=place))
                return answers[-1].status == 200

            crew.wait(is_included, f"decision {number} was never included", pause_s=0.002)
            assert [each["decision"] for each in answers[-1].json["rules"]] == [decided], number


def _publish(crew: Crew, url: str) -> str:
    return _send(crew, event(url.removeprefix("https://")) | {"text": prose(url)})


def _send(crew: Crew, made: dict[str, Any]) -> str:
    """One event by the producer of any client; where Kafka says it is."""
    places: list[str] = []
    producer = Producer(crew.cluster.confluent())
    producer.produce(
        crew.application.topic(CRAWL_PAGES),
        json.dumps(made).encode(),
        str(made["url"]).encode(),
        on_delivery=lambda error, message: places.append(f"{message.partition()}:{message.offset()}"),
    )
    producer.flush()
    return places[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    if missing := missing_tools():
        skip_or_fail(NOT_RUN, f"{', '.join(missing)} not found (Debian: make browser-tools)")
    driver = open_browser()
    yield driver
    driver.quit()


def _click(browser: webdriver.Chrome, button: str) -> None:
    follow(browser, By.XPATH, f"//button[starts-with(., '{button}')]")


def _page(crew: Crew, path: str, **asked: str) -> str:
    """The address of a page of a worker. A browser sends the token as a password."""
    base = crew.workers[0].base.replace("//", f"//anybody:{TOKEN}@")
    return f"{base}{path}?{urlencode(asked)}"


def test_the_page_of_a_worker_shows_all_workers_and_decides(crew: Crew, browser: webdriver.Chrome) -> None:
    """A decision reaches the tasks of both workers, and is undone."""
    browser.get(_page(crew, "/"))
    text = text_of(browser)
    wanted = ["pages a second", "behind the input", *(worker.base for worker in crew.workers), "URLs known"]
    assert [each for each in wanted if each not in text] == []
    browser.get(_page(crew, "/url", u=B))
    assert f"a duplicate of {A}" in text_of(browser)
    browser.get(_page(crew, "/pair", a=A, b=C))
    assert "crawl topic" in text_of(browser)
    held = "https://mirror-of-it.example/page/3"
    for button, role in (("Release", "duplicate"), ("Undo", "held")):
        _decide(crew, browser, _page(crew, "/decide"), button)
        _await_url(crew, held, role=role)


def _decide(crew: Crew, browser: webdriver.Chrome, address: str, button: str) -> None:
    """Press a button of a page, look at the preview, and apply it."""
    browser.get(address)
    _click(browser, button)
    assert violations(browser) == []
    _click(browser, "Apply")
    crew.wait(lambda: "being applied" not in text_of(browser), "the decision was not applied")


def _await_url(crew: Crew, url: str, **fields: object) -> None:
    for worker in crew.workers:

        def is_so(worker: Working = worker) -> bool:
            answer = worker.get("/v1/url", u=url)
            return answer.status == 200 and fields.items() <= answer.json.items()

        crew.wait(is_so, f"{url} is not {fields} at {worker.base}")


def test_decisions_on_pages_from_the_page_of_a_worker(crew: Crew, browser: webdriver.Chrome) -> None:
    """Each reaches both workers, is listed, and is undone."""
    one, other = "https://shop.example/a/5", "https://shop.example/a/6"
    page, pair = _page(crew, "/url", u=B), _page(crew, "/pair", a=one, b=other)
    _decide(crew, browser, page, "Not a duplicate")
    _await_url(crew, B, role="winner", decided="not_duplicate")
    _decide(crew, browser, pair, "Same")
    better = crew.workers[0].get("/v1/why", a=one, b=other).json["pair"]["decision"]["better"]
    worse = other if better == one else one
    _await_url(crew, worse, role="duplicate", relation="decided", winner=better)
    browser.get(_page(crew, "/decide"))
    listed = text_of(browser)
    assert f"not a duplicate: {B}" in listed and f"same: {one} and {other}" in listed
    _decide(crew, browser, page, "Undo")
    _decide(crew, browser, pair, "Undo")
    _await_url(crew, B, role="duplicate", decided=None)
    _await_url(crew, worse, role="winner")


def test_decisions_on_rules_from_the_page_of_a_worker(crew: Crew, browser: webdriver.Chrome) -> None:
    address, new = _page(crew, "/rules", site="shop.example"), "https://shop.example/a/77?sid=1"
    normal = crew.workers[0].get("/v1/normalize", u=new).json["normalized"]
    assert normal != new
    for button, form in (("Reject", new), ("Pin", normal), ("Accept", normal), ("Undo", normal)):
        _decide(crew, browser, address, button)
        decided = None if button == "Undo" else button.lower()
        for worker in crew.workers:

            def is_so(worker: Working = worker, decided: str | None = decided) -> bool:
                rules = worker.get("/v1/rules/shop.example").json["rules"]
                return [rule["decision"] for rule in rules] == [decided] * len(rules)

            crew.wait(is_so, f"the rule is not decided: {button}")
            assert worker.get("/v1/normalize", u=new).json["normalized"] == form


@pytest.mark.parametrize("path", ["/", "/groups", f"/url?u={quote(B)}", "/rules?site=shop.example", "/decide"])
def test_pages_of_a_worker_have_no_accessibility_violation(crew: Crew, browser: webdriver.Chrome, path: str) -> None:
    """Those that differ from `dustream serve`: workers, live figures, no texts."""
    browser.get(_page(crew, "").removesuffix("?") + path)
    assert violations(browser) == []


@SCHEMA.parametrize()
@settings(max_examples=5, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_worker_does_what_is_described(case: Any, crew: Crew) -> None:
    """A small round: the endpoints are those of `dustream serve`, with positions by partition."""
    response = case.call(base_url=crew.workers[1].base, headers={"Authorization": f"Bearer {TOKEN}"})
    case.validate_response(response, excluded_checks=[*UNDESCRIBED, ignored_auth])


def test_a_worker_is_killed_and_its_tasks_move(crew: Crew) -> None:
    """Meanwhile its URLs are answered with 503, those of the other as always; afterwards all are answered."""
    victim, other = crew.workers
    before = {url: other.get("/v1/url", u=url).json["role"] for url in URLS[:-1]}
    victim.kill()
    statuses = {url: other.get("/v1/url", u=url) for url in URLS[:-1]}
    refused = [found for found in statuses.values() if found.status == 503]
    assert refused and all(found.headers["Retry-After"] == "1" for found in refused)
    assert len(refused) < len(statuses) and {found.status for found in statuses.values()} == {200, 503}
    crew.wait(lambda: all(other.get("/v1/url", u=url).status == 200 for url in before), "the tasks did not move")
    assert {url: other.get("/v1/url", u=url).json["role"] for url in before} == before
    victim.start()
    crew.settle(1)
    assert {url: victim.get("/v1/url", u=url).json["role"] for url in before} == before
