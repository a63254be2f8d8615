"""The endpoints, asked over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from planted_pages import event, prose, write_events
from served import Served

from dustream.streams.cli.main import main
from dustream.streams.engine.state_rows import COUNTS_KEY, Counts
from dustream.streams.store.rocks import RocksStore

A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"


def test_url_has_role_group_winner_and_similarity(either: Served) -> None:
    found = either.get("/v1/url", u=B).json
    assert found["role"] == "duplicate" and found["winner"] == found["group"] == A
    assert found["similarity"] == pytest.approx(380 / 420) and found["relation"] == "near"
    assert found["words"] == f"a duplicate of {A} (near, similarity 0.9048)"
    assert found["position"] > 300 and found["settled"] is True


@pytest.mark.parametrize(
    ("url", "role", "words"),
    [
        ("HTTPS://A.Example:443/chain#top", "winner", "a winner"),
        ("https://a.example/old", "redirect", f"a redirect to {A}"),
        ("https://a.example/nowhere", "redirect", "leads to no page"),
        ("https://d.example/dead", "gone", "gone"),
        ("https://f.example/Page/", "unique", "unique"),
        ("https://nobody.example/", "unknown", "not known"),
        (
            "https://mirror-of-it.example/page/3",
            "held",
            "held: kept, although a duplicate of https://orig.example/page/3",
        ),
    ],
)
def test_every_role(either: Served, url: str, role: str, words: str) -> None:
    found = either.get("/v1/url", u=url).json
    assert found["role"] == role and words in found["words"]


def test_many_urls_are_answered_in_order(either: Served) -> None:
    answer = either.post("/v1/urls", {"urls": [B, "https://nobody.example/", "mailto:x", B]}).json
    assert [each["role"] for each in answer["statuses"]] == ["duplicate", "unknown", "invalid", "duplicate"]
    assert "only http and https" in answer["statuses"][2]["words"]


def test_ten_thousand_urls_and_no_more(either: Served) -> None:
    urls = [f"https://nobody.example/{number}" for number in range(10_000)]
    assert len(either.post("/v1/urls", {"urls": urls}).json["statuses"]) == 10_000
    refused = either.post("/v1/urls", {"urls": [*urls, B]})
    assert refused.status == 400 and "length <= 10000" in refused.json["detail"]


@pytest.mark.parametrize(
    ("url", "action", "reason", "same_as"),
    [
        (A, "fetch", "kept", None),
        (B, "skip", "duplicate", A),
        ("https://a.example/older", "skip", "redirect", A),
        ("https://a.example/round", "fetch", "unresolved", None),
        ("https://d.example/dead", "fetch", "gone", None),
        ("https://mirror-of-it.example/page/3", "fetch", "kept", None),
        ("https://shop.example/a/1?sid=4711", "skip", "rule", "https://shop.example/a/1"),
        ("https://shop.example/a/999?sid=4711", "fetch", "new", None),
        ("https://nobody.example/", "fetch", "new", None),
    ],
)
def test_crawler_asks_before_it_fetches(
    either: Served, url: str, action: str, reason: str, same_as: str | None
) -> None:
    found = either.get("/v1/decide", u=url).json
    assert (found["action"], found["reason"], found["same_as"]) == (action, reason, same_as)


def test_rule_is_named(either: Served) -> None:
    found = either.get("/v1/decide", u="https://shop.example/a/1?sid=4711").json
    rules = either.get("/v1/rules/shop.example").json["rules"]
    assert found["rule"] in {rule["id"] for rule in rules if rule["stage"] == "active"}
    assert "leads to https://shop.example/a/1, which is known" in found["words"]


def test_normal_form_step_by_step(either: Served) -> None:
    found = either.get("/v1/normalize", u="HTTPS://shop.example:443/a/1?sid=5").json
    assert found["normalized"] == "https://shop.example/a/1" and found["known"] is True
    assert [bool(step["rule"]) for step in found["steps"]][-1] is True and len(found["steps"]) > 1


def test_group_has_its_members_and_redirects(either: Served) -> None:
    for name in (A, C):
        found = either.get("/v1/groups/" + quote(name, safe="")).json
        assert found["group"] == A and found["size"] == 3 and found["left_out"] == 0
        urls = [each["url"] for each in found["members"]]
        assert urls == [A, B, C, "https://a.example/old", "https://a.example/older"]
    assert either.get("/v1/groups/" + quote("https://nobody.example/", safe="")).status == 404


def test_group_of_a_url_with_percent_codes(tmp_path: Path) -> None:
    events = [event("a.example/a%2Fb%20c?d=%26") | {"text": prose("p")}, event("a.example/x") | {"text": prose("p")}]
    assert (
        main(["run", str(write_events(tmp_path / "in.jsonl", events)), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    )
    with Served(tmp_path / "out") as server:
        found = server.get("/v1/groups/" + quote("https://a.example/a%2Fb%20c?d=%26", safe="")).json
        assert {each["url"] for each in found["members"]} == {
            "https://a.example/a%2Fb%20c?d=%26",
            "https://a.example/x",
        }


def test_state_knows_the_weakest_link(served: Served) -> None:
    assert served.get("/v1/groups/" + quote(A, safe="")).json["weakest_link"] == pytest.approx(380 / 420)


def test_members_are_limited(either: Served) -> None:
    found = either.get("/v1/groups/" + quote(A, safe=""), members=2).json
    assert found["left_out"] == 1 and sum(each["role"] != "redirect" for each in found["members"]) == 2


def test_site_has_pages_lost_and_rules(either: Served) -> None:
    found = either.get("/v1/sites/mirror-of-it.example").json
    assert (found["pages"], found["lost"], found["held"]) == (110, 110, True)
    assert either.get("/v1/sites/www.shop.example").json["rules"]["active"] >= 1
    assert either.get("/v1/sites/nobody.example").status == 404


def test_stats_are_those_of_the_summary(either: Served) -> None:
    stats = either.get("/v1/stats").json
    summary = json.loads((either.path / "summary.json").read_text())
    assert stats["position"] == stats["counted_at"] == summary["events"]
    for name in ("pages", "kept", "roles", "relations", "groups", "largest_group", "rules", "rejected"):
        assert stats[name] == summary[name], name


def test_why_of_two_with_evidence_and_text(served: Served) -> None:
    found = served.get("/v1/why", a=A, b=C).json
    assert found["pair"]["words"] == "in one group, but neither is a duplicate of the other"
    assert len(found["pair"]["evidence"]["path"]) == 2 and found["text"]["diff"]["words_removed"] == 8
    assert served.get("/v1/why", a=A, b=C, text="no").json["text"] is None


def test_once_result_says_what_it_cannot_know(once_served: Served) -> None:
    found = once_served.get("/v1/why", a=A, b=B).json
    assert found["pair"]["words"].startswith(f"{B} is a duplicate of {A}")
    assert found["pair"]["reasons"][0]["code"] == "no_state" and "--once" in found["text"]["missing"][0]
    assert once_served.get("/v1/groups", by="changed").status == 400


def test_position_asked_for_and_not_reached(either: Served) -> None:
    position = either.get("/v1/stats").json["position"]
    assert either.get("/v1/url", u=A, min_position=position).status == 200
    late = either.get("/v1/url", u=A, min_position=position + 1)
    assert late.status == 412 and late.headers["Retry-After"] == "1"
    assert either.post("/v1/urls", {"urls": [A], "min_position": position + 1}).status == 412


def test_run_is_followed_while_it_adds(tmp_path: Path) -> None:
    first = write_events(tmp_path / "1.jsonl", [event("a.example/1") | {"text": prose("one")}])
    more = write_events(tmp_path / "2.jsonl", [event("b.example/1?x") | {"text": prose("one")}])
    command = [sys.executable, "-m", "dustream.streams.cli.main", "run", "--out", str(tmp_path / "out"), "--quiet"]
    subprocess.run([*command, str(first)], check=True, capture_output=True)
    with Served(tmp_path / "out") as server:
        assert server.get("/v1/url", u="https://b.example/1?x").json["role"] == "unknown"
        subprocess.run([*command, str(more)], check=True, capture_output=True)
        found = server.get("/v1/url", u="https://b.example/1?x", min_position=2).json
        assert found["role"] == "duplicate" and found["position"] == 2


def test_records_without_all_that_follows_are_not_reached(tmp_path: Path) -> None:
    """A run that was stopped in the middle of its work: messages are queued in the state."""
    given = write_events(tmp_path / "in.jsonl", [event("a.example/1") | {"text": prose("one")}])
    assert main(["run", str(given), "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1"]) == 0
    queued = b"queue/pages/00000/0000000000000001"
    with Served(tmp_path / "out") as server:
        assert server.get("/v1/stats", min_position=1).json["settled"] is True
        for row, counted, status in ((b"", 2, 412), (None, 2, 200)):
            store = RocksStore(tmp_path / "out" / "state")
            store.write([(queued, row), (COUNTS_KEY, msgspec.json.encode(Counts(records=counted)))])
            store.close()
            server.lookups.catch_up(0.0)
            assert server.get("/v1/stats", min_position=2).status == status
            assert server.get("/v1/stats", min_position=1).json["settled"] is (status == 200)


@pytest.mark.parametrize(
    "command",
    [
        ("status", B, "--json"),
        ("why", B, "--json"),
        ("why", A, C, "--json", "--no-text"),
        ("why", A, C),
        ("groups", "--json"),
        ("groups", "--held"),
        ("groups", "--site", "shop.example", "--by", "changed", "--top", "3"),
    ],
)
def test_commands_answer_alike_by_state_and_by_url(
    ask: Callable[..., Any], served: Served, command: tuple[str, ...]
) -> None:
    here, there = ask(*command, "--state", served.path), ask(*command, "--url", served.base)
    assert (here.code, there.code) == (0, 0)
    if command[0] == "status":
        assert {**here.json, "version": None} == {**there.json, "version": None}
    else:
        assert here.out == there.out and here.out


def test_unknown_url_and_dead_service_give_exit_status_1(ask: Callable[..., Any], served: Served) -> None:
    assert ask("status", "https://nobody.example/", "--url", served.base).code == 1
    assert ask("why", "https://nobody.example/", "--url", served.base).code == 1
    said = ask("status", A, "--url", "http://127.0.0.1:1")
    assert said.code == 1 and "is `dustream serve` running?" in said.err
