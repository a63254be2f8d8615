"""`dustream decide`: decisions on pages and rules, their undo, the list of them, and the same outcome from a replay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ITEMS = 60
KEPT = "http://shop.example/buy?id=3&sid=s3"
ONE, OTHER = "http://shop.example/buy?id=8", "http://shop.example/buy?id=9"


def dustream(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def done(*arguments: object) -> str:
    """The output of a command that succeeds."""
    finished = dustream(*arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def write_shop(path: Path) -> Path:
    """Each item under two URLs, with and without a session."""
    lines = []
    for item in range(ITEMS):
        text = " ".join(f"word{item}x{n}" for n in range(60))
        for query in (f"id={item}", f"id={item}&sid=s{item}"):
            event = {"url": f"http://shop.example/buy?{query}", "fetched_at": f"2024-05-01T00:00:{item:02d}Z"}
            lines.append(json.dumps(event | {"text": text}) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop") / "shop.jsonl")


@pytest.fixture
def out(shop: Path, tmp_path: Path) -> Path:
    done("run", shop, "--out", tmp_path / "out")
    return tmp_path / "out"


def status(out: Path, url: str) -> dict[str, Any]:
    lines = map(json.loads, (out / "status.jsonl").read_text().splitlines())
    return next(line for line in lines if line["url"] == url)


def rules(out: Path) -> list[dict[str, Any]]:
    (site,) = [json.loads(line) for line in done("rules", "show", out, "--json").splitlines()]
    found: list[dict[str, Any]] = site["rules"]
    return found


def normal_form(out: Path, url: str) -> str:
    command = [sys.executable, "-m", "dustream.streams.cli.main", "normalize", "--state", str(out)]
    return subprocess.run(command, input=url, capture_output=True, text=True, check=True).stdout.strip()


def test_not_a_duplicate_and_its_undo(out: Path) -> None:
    assert status(out, KEPT)["role"] == "duplicate"
    told = done("decide", "not-duplicate", KEPT, "--state", out)
    assert told == f"not-duplicate {KEPT}: duplicate of http://shop.example/buy?id=3 → winner\n"
    decided = status(out, KEPT)
    assert (decided["role"], decided["decided"]) == ("winner", "not_duplicate")
    assert KEPT in (out / "keep.txt").read_text().splitlines()
    assert f"not a duplicate: {KEPT}" in done("decide", "list", "--state", out)
    assert "not a duplicate" in done("why", KEPT, "--state", out)
    assert "decided" in done("status", KEPT, "--state", out)
    done("decide", "undo", KEPT, "--state", out)
    assert status(out, KEPT)["role"] == "duplicate"
    assert done("decide", "list", "--state", out) == "no decision is in force\n"


def test_two_pages_are_the_same_and_its_undo(out: Path) -> None:
    """The copy of the worse page matches no other winner, so it is kept."""
    assert (status(out, ONE)["role"], status(out, OTHER)["role"]) == ("winner", "winner")
    told = done("decide", "same", OTHER, ONE, "--state", out)
    assert told == f"same {OTHER} {ONE}: winner and winner → duplicate of {ONE} and winner\n"
    same = status(out, OTHER)
    assert (same["winner"], same["relation"], same["similarity"], same["group"]) == (ONE, "decided", 0.0, ONE)
    assert status(out, f"{OTHER}&sid=s9")["role"] == "winner"
    assert f"same: {ONE} and {OTHER}" in done("decide", "list", "--state", out)
    assert "an operator decided that the two are the same" in done("why", OTHER, "--state", out, "--no-text")
    both = done("why", ONE, OTHER, "--state", out, "--no-text")
    assert f"{OTHER} is a duplicate of {ONE}" in both and "that they are the same" in both
    done("decide", "undo", ONE, OTHER, "--state", out)
    assert status(out, OTHER)["role"] == "winner" and status(out, OTHER)["group"] == OTHER
    assert done("decide", "list", "--state", out) == "no decision is in force\n"


def test_a_rule_is_rejected_pinned_and_left_to_itself_again(out: Path) -> None:
    (rule,) = rules(out)
    assert (rule["stage"], rule["decision"]) == ("active", None)
    new, short = "http://shop.example/buy?id=99&sid=x", "http://shop.example/buy?id=99"
    assert normal_form(out, new) == short
    told = done("decide", "rule", "reject", "shop.example", rule["id"], "--state", out)
    assert "active → shadow (an operator rejected it)" in told
    assert normal_form(out, new) == new
    assert "id=99" not in done("rules", "export", out, "--format", "nutch")
    assert f"reject rule {rule['id']} of shop.example" in done("decide", "list", "--state", out)
    done("decide", "rule", "pin", "shop.example", rule["id"], "--state", out)
    assert rules(out)[0]["decision"] == "pin"
    assert normal_form(out, new) == short
    done("decide", "rule", "undo", "shop.example", rule["id"], "--state", out)
    assert rules(out) == [rule]


def test_a_replay_of_the_decisions_gives_the_same_result(out: Path, shop: Path, tmp_path: Path) -> None:
    """By `run` and `run --once`, with the decisions before or after the pages."""
    (rule,) = rules(out)
    done("decide", "not-duplicate", KEPT, "--state", out)
    done("decide", "not-duplicate", "http://shop.example/buy?id=5&sid=s5", "--state", out)
    done("decide", "undo", "http://shop.example/buy?id=5&sid=s5", "--state", out)
    done("decide", "rule", "reject", "shop.example", rule["id"], "--state", out)
    done("decide", "same", OTHER, ONE, "--state", out)
    log = tmp_path / "decisions.jsonl"
    log.write_text(done("decide", "list", "--state", out, "--json"))
    assert len(log.read_text().splitlines()) == 4
    done("run", log, shop, "--out", tmp_path / "before")
    done("run", shop, log, "--out", tmp_path / "after")
    done("run", log, shop, "--out", tmp_path / "once", "--once")
    before, after = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("before", "after"))
    assert before["state_hash"] == after["state_hash"]
    for name in ("before", "after", "once"):
        assert status(tmp_path / name, KEPT)["decided"] == "not_duplicate"
        assert status(tmp_path / name, OTHER)["relation"] == "decided"
        (replayed,) = rules(tmp_path / name)
        assert (replayed["stage"], replayed["decision"]) == ("shadow", "reject")
        assert (tmp_path / name / "keep.txt").read_bytes() == (out / "keep.txt").read_bytes()


def test_a_pinned_rule_from_the_log_is_applied_before_anything_is_known(shop: Path, tmp_path: Path) -> None:
    rewrite = {
        "type": "pattern",
        "tests": [
            {"key": "host_0", "test": "is", "value": "example"},
            {"key": "host_1", "test": "is", "value": "new"},
            {"key": "?sid=", "test": "some"},
        ],
        "writes": [{"key": "?sid=", "op": "drop"}],
        "open": True,
    }
    event = {"url": "http://new.example/", "fetched_at": "2024-06-01T00:00:00Z", "decision": "pin_rule"}
    log = tmp_path / "pin.jsonl"
    log.write_text(json.dumps(event | {"rule": rewrite}) + "\n")
    for name, more in (("run", ()), ("once", ("--once",))):
        done("run", shop, log, "--out", tmp_path / name, *more)
        assert normal_form(tmp_path / name, "http://new.example/a?sid=4&x=1") == "http://new.example/a?x=1"


def test_bad_decisions_are_refused_with_what_to_do(out: Path, shop: Path, tmp_path: Path) -> None:
    unknown = dustream("decide", "rule", "pin", "shop.example", "0123", "--state", out)
    assert unknown.returncode == 2 and "`dustream rules show` prints the ids" in unknown.stderr
    assert dustream("decide", "not-duplicate", "no url", "--state", out).returncode == 2
    assert dustream("decide", "list").returncode == 2
    one_page = dustream("decide", "same", ONE, f"{ONE}#here", "--state", out)
    assert one_page.returncode == 2 and "name two different ones" in one_page.stderr
    lines = [
        {"url": KEPT, "decision": "not_duplicate"},
        {"url": KEPT, "decision": "accept_rule", "fetched_at": 9},
        {"url": KEPT, "decision": "not_duplicate", "fetched_at": 9, "pass_from": 0.5},
        {"url": KEPT, "decision": "same", "fetched_at": 9},
        {"url": "http://10.0.0.1/", "decision": "pin_rule", "fetched_at": 9,
         "rule": {"type": "substring", "scope": "", "find": "", "put": ""}},
    ]  # fmt: skip
    log = tmp_path / "bad.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + shop.read_text())
    done("run", log, "--out", tmp_path / "refused")
    reasons = [
        json.loads(line)["reason"] for line in (tmp_path / "refused" / "rejected.jsonl").read_text().splitlines()
    ]
    expected = ("without fetched_at", "needs rule", "has no pass_from", "needs same_as", "the rule cannot be used")
    assert [words in reason for words, reason in zip(expected, reasons, strict=True)] == [True] * 5


def test_a_decision_on_a_page_not_known_yet_waits_for_it(shop: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.jsonl"
    first.write_text(shop.read_text().splitlines()[0] + "\n")
    out = tmp_path / "out"
    done("run", first, "--out", out)
    assert "not known yet, as before" in done("decide", "not-duplicate", KEPT, "--state", out)
    done("run", first, shop, "--out", out)
    assert status(out, KEPT)["role"] == "winner"
