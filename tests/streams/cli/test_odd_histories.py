"""Odd histories (docs/reference/inputs.md): every one has a defined outcome, whatever the partitions."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HOPS = 16
LONG = 1_000


def fetch(url: str, day: int = 1, text: str | None = None, **more: object) -> dict[str, object]:
    return {"url": url, "fetched_at": f"2024-05-{day:02d}T00:00:00Z", **({"text": text} if text else {}), **more}


def redirect(url: str, target: str, day: int = 1) -> dict[str, object]:
    return fetch(url, day, status=301, redirect_to=target)


def words(topic: str) -> str:
    return " ".join(f"{topic}{n}" for n in range(60))


EVENTS = [
    redirect("http://self.example/", "http://self.example/"),
    *(redirect(f"http://ring2.example/{n}", f"/{(n + 1) % 2}") for n in range(2)),
    *(redirect(f"http://ring50.example/{n}", f"/{(n + 1) % 50}") for n in range(50)),
    redirect("http://nowhere.example/", "http://never-seen.example/"),
    *(redirect(f"http://long.example/{n}", f"/{n + 1}") for n in range(LONG)),
    fetch(f"http://long.example/{LONG}", text=words("long")),
    fetch("http://twice.example/", 5, words("first")),
    fetch("http://twice.example/", 5, words("second")),
    fetch("http://first.example/", 1, words("first")),
    *(fetch("http://reverse.example/", day, words(f"version{day}")) for day in (9, 8, 7)),
    fetch("http://reversed-death.example/", 9, status=404),
    fetch("http://reversed-death.example/", 8, words("alive")),
    fetch("http://unknown-death.example/", 1, status=410),
    fetch("http://confirmed.example/", 2, status=304),
    fetch("http://confirmed.example/", 1, words("confirmed")),
    fetch("http://only-confirmed.example/", 2, status=304),
    fetch("http://original.example/", 3, words("later")),
    fetch("http://revisit.example/", 2, revisit_of="http://original.example/"),
    fetch("http://original.example/", 1, words("earlier")),
    fetch("http://earlier.example/", 1, words("earlier")),
    fetch("http://revisit-of-nothing.example/", 2, revisit_of="http://never-fetched.example/"),
    fetch("HTTP://Case.Example:80", 1, words("root")),
    fetch("http://case.example/#top", 2, words("root")),
    fetch("http://case.example/Path", 1, words("upper")),
    fetch("http://case.example/path", 1, words("lower")),
    fetch("http://case.example/%7Euser", 1, words("tilde")),
    fetch("http://case.example/~user", 1, words("other")),
]


@pytest.fixture(scope="module", params=[1, 8])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    out = tmp_path_factory.mktemp("odd") / "out"
    source = out.with_suffix(".jsonl")
    source.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    command = [sys.executable, "-m", "dustream.streams.cli.main", "run", str(source), "--out", str(out), "--json"]
    done = subprocess.run([*command, "--partitions", str(request.param)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    found = {line["url"]: line for line in map(json.loads, (out / "status.jsonl").read_text().splitlines())}
    return found | {"summary": json.loads(done.stdout)}


def under(outcome: dict[str, dict], host: str) -> list[dict]:
    return [status for url, status in outcome.items() if url.startswith(f"http://{host}/")]


def test_a_redirect_to_itself_tells_nothing_and_is_counted(outcome: dict[str, dict]) -> None:
    assert "http://self.example/" not in outcome
    assert outcome["summary"]["ignored"] == {"redirect to itself": 1}


@pytest.mark.parametrize(("host", "length"), [("ring2.example", 2), ("ring50.example", 50)])
def test_rings_are_cut(outcome: dict[str, dict], host: str, length: int) -> None:
    ring = under(outcome, host)
    assert len(ring) == length
    assert {(status["role"], status["problem"], status["target"]) for status in ring} == {
        ("redirect", "redirect_cut", None)
    }


def test_a_redirect_to_a_page_never_seen_names_it(outcome: dict[str, dict]) -> None:
    status = outcome["http://nowhere.example/"]
    assert (status["problem"], status["target"]) == ("target_unknown", "http://never-seen.example/")
    assert "http://never-seen.example/" not in outcome


def test_a_chain_of_a_thousand_is_followed_for_sixteen_hops(outcome: dict[str, dict]) -> None:
    end = f"http://long.example/{LONG}"
    assert outcome[end]["role"] == "unique"
    reached = [status for status in under(outcome, "long.example") if status["target"] == end]
    cut = [status for status in under(outcome, "long.example") if status["problem"] == "redirect_cut"]
    assert (len(reached), len(cut)) == (HOPS, LONG - HOPS)


def test_of_two_contents_of_one_time_the_first_counts(outcome: dict[str, dict]) -> None:
    roles = {outcome[url]["role"] for url in ("http://twice.example/", "http://first.example/")}
    assert roles == {"winner", "duplicate"}
    assert outcome["summary"]["fetches"]["conflicting"] == 1


def test_what_comes_in_reverse_ends_like_the_newest(outcome: dict[str, dict]) -> None:
    assert outcome["http://reverse.example/"]["version"] == 1_715_212_800_000  # 2024-05-09
    assert outcome["http://reversed-death.example/"]["role"] == "gone"
    assert outcome["summary"]["fetches"]["late"] == 3 + 1


def test_a_death_of_an_unknown_page_is_a_death(outcome: dict[str, dict]) -> None:
    assert outcome["http://unknown-death.example/"]["role"] == "gone"


def test_a_confirmation_before_what_it_confirms_erases_nothing(outcome: dict[str, dict]) -> None:
    assert outcome["http://confirmed.example/"]["problem"] is None
    status = outcome["http://only-confirmed.example/"]
    assert (status["role"], status["problem"]) == ("unique", "content_unknown")


def test_a_revisit_keeps_what_it_found(outcome: dict[str, dict]) -> None:
    found, same = outcome["http://revisit.example/"], outcome["http://earlier.example/"]
    assert found["group"] == same["group"] != outcome["http://original.example/"]["group"]
    status = outcome["http://revisit-of-nothing.example/"]
    assert (status["role"], status["problem"]) == ("unique", "content_unknown")
    assert "http://never-fetched.example/" not in outcome


def test_case_counts_in_the_path_alone_and_escapes_are_left_as_they_are(outcome: dict[str, dict]) -> None:
    urls = {status["url"] for status in under(outcome, "case.example")}
    assert urls == {f"http://case.example/{path}" for path in ("", "Path", "path", "%7Euser", "~user")}
    assert {outcome[url]["role"] for url in urls} == {"unique"}
