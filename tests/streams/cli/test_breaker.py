"""The circuit breaker as people meet it: `dustream run` raises alarms, `dustream breaker` answers them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dustream.core.errors import BadSetting
from dustream.streams.cli.breaker import decision_event

PAGES = 110


def dustream(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def words(topic: int, first: int = 0, count: int = 200) -> str:
    return " ".join(f"word{topic}x{n}" for n in range(first, first + count))


def event(url: str, text: str, **more: object) -> str:
    return json.dumps({"url": url, "fetched_at": "2024-05-01T00:00:00Z", "text": text, **more}) + "\n"


def write_wiped_out_source(path: Path) -> Path:
    """Every page of a site is a near copy of a page of another site; each verdict is true, the outcome a disaster."""
    source = (event(f"http://big.example/{n}", words(n), popularity=1e6) for n in range(PAGES))
    copies = (event(f"http://small.example/{n}", words(n, first=2)) for n in range(PAGES))
    path.write_text("".join([*source, *copies]))
    return path


def roles_on(out: Path, site: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in (out / "status.jsonl").read_text().splitlines():
        status = json.loads(line)
        if f"//{site}/" in status["url"]:
            found[status["role"]] = found.get(status["role"], 0) + 1
    return found


def check_that_all_is_kept(web: Path, out: Path, folder: Path) -> None:
    """Held pages are on every list of what to keep; none of these names a page that the others drop."""
    everything = sorted(f"http://{site}.example/{n}" for site in ("big", "small") for n in range(PAGES))
    assert (out / "keep.txt").read_text().splitlines() == everything
    for group in lines_of(out / "groups.jsonl"):
        assert [page["url"] for page in group["members"]] == group["kept"]
        assert group["winners"] == [url for url in group["kept"] if "//big." in url]
    assert json.loads((out / "summary.json").read_text())["kept"] == 2 * PAGES
    compared = dustream("compare", out, out, "--json")
    assert json.loads(compared.stdout) | {"kept_before": 220, "kept_after": 220} == json.loads(compared.stdout)
    assert "role        held (kept)" in dustream("status", "http://small.example/1", "--state", out).stdout
    once = dustream("run", web, "--out", folder / "once", "--once")
    assert "220 to keep: 0 unique, 110 winners, 110 held" in once.stdout, once.stderr
    assert (folder / "once" / "keep.txt").read_bytes() == (out / "keep.txt").read_bytes()


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_source_wiped_out_is_held_released_and_replayed(tmp_path: Path) -> None:
    web, out = write_wiped_out_source(tmp_path / "web.jsonl"), tmp_path / "out"
    done = dustream("run", web, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "ALARM: 0 groups and 1 site held" in done.stdout
    assert "110 of 110 pages would go to winners elsewhere" in done.stdout
    assert roles_on(out, "small.example") == {"held": PAGES}
    assert roles_on(out, "big.example") == {"winner": PAGES}
    expected = {"kind": "site_held", "name": "small.example", "pages": PAGES, "held": PAGES, "lost": PAGES}
    assert lines_of(out / "alarms.jsonl") == [expected]
    check_that_all_is_kept(web, out, tmp_path)
    listed = dustream("breaker", "list", "--state", out, "--json")
    assert json.loads(listed.stdout) == expected

    released = dustream("breaker", "release", "small.example", "--state", out)
    assert released.returncode == 0, released.stderr
    assert "110 pages of it were held, now 0" in released.stdout
    assert roles_on(out, "small.example") == {"duplicate": PAGES}
    assert (out / "alarms.jsonl").read_text() == ""
    assert dustream("breaker", "list", "--state", out).stdout == "nothing is held\n"

    log = tmp_path / "decisions.jsonl"
    log.write_text(dustream("breaker", "log", "--state", out).stdout)
    assert [line["decision"] for line in lines_of(log)] == ["release_site"]
    again = dustream("run", log, web, "--out", tmp_path / "again", "--partitions", 3)
    assert again.returncode == 0, again.stderr
    hashes = [json.loads((folder / "summary.json").read_text())["state_hash"] for folder in (out, tmp_path / "again")]
    assert hashes[0] == hashes[1]

    assert dustream("breaker", "hold", "small.example", "--state", out / "state").returncode == 0
    assert dustream("run", web, "--out", out).returncode == 0
    assert roles_on(out, "small.example") == {"held": PAGES}


def test_a_chain_of_weak_links_is_held_as_a_group_and_split(tmp_path: Path) -> None:
    """Each page of the site matches the next, the first one a page elsewhere: one group, linked by chains alone."""
    chain = [event(f"http://small.example/{n:02d}", words(0, first=5 + 5 * n)) for n in range(30)]
    web, config, out = tmp_path / "web.jsonl", tmp_path / "config.toml", tmp_path / "out"
    web.write_text("".join([event("http://big.example/", words(0), popularity=1e6), *chain]))
    config.write_text("group_size_max = 30\n")
    done = dustream("run", web, "--out", out, "--config", config)
    assert done.returncode == 0 and "ALARM: 1 group and 0 sites held" in done.stdout, done.stderr
    roles = roles_on(out, "small.example")
    assert roles["held"] > 0 and roles["held"] + roles["winner"] == 30
    [alarm] = lines_of(out / "alarms.jsonl")
    assert (alarm["kind"], alarm["pages"], alarm["held"]) == ("group_held", 31, roles["held"])
    split = dustream("breaker", "split", alarm["name"], "--pass-from", 0.99, "--state", out)
    assert split.returncode == 0, split.stderr
    assert f"{roles['held']:,} held → {roles['held']:,} winner" in split.stdout and split.stderr == ""
    assert roles_on(out, "small.example") == {"winner": 30}  # none is that similar to its winner
    assert dustream("breaker", "release", alarm["name"], "--state", out).returncode == 0
    assert roles_on(out, "small.example") == {"winner": roles["winner"], "duplicate": roles["held"]}


def test_a_decision_on_what_is_not_known_stands_and_is_remarked_on(tmp_path: Path) -> None:
    web, out = tmp_path / "web.jsonl", tmp_path / "out"
    web.write_text("".join(event(f"http://a.example/{n}", words(0)) for n in range(3)))
    assert dustream("run", web, "--out", out).returncode == 0
    typo = dustream("breaker", "release", "nosuch.example", "--state", out)
    assert typo.returncode == 0 and "no site nosuch.example is known" in typo.stderr
    again = dustream("breaker", "release", "nosuch.example", "--state", out)
    assert "no site nosuch.example is known" in again.stderr  # the decision does not make it known
    assert dustream("breaker", "release", "a.example", "--state", out).stderr == ""
    group = json.loads((out / "groups.jsonl").read_text())["group"]
    member = next(url for url in (f"http://a.example/{n}" for n in range(3)) if url != group)
    other = dustream("breaker", "release", member, "--state", out)
    assert f"is in the group {group}" in other.stderr
    split = dustream("breaker", "split", group, "--pass-from", "0.99", "--state", out)
    assert "no role changed" in split.stdout and split.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("release",), "name what to release"),
        (("release", "www.small.example"), "did you mean 'small.example'"),
        (("split", "small.example", "--pass-from", "0.9"), "only a group can be split"),
        (("split", "http://a.example/"), "split_group needs pass_from"),
        (("split", "http://a.example/", "--pass-from", "1.5"), "not a similarity"),
        (("release", "http://a.example/", "--pass-from", "0.9"), "release_group has no pass_from"),
        (("release", "ftp://a.example/"), "only http and https"),
        (("list", "a.example"), "takes no NAME"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    done = dustream("breaker", *arguments, "--state", tmp_path)
    assert done.returncode == 2 and complaint in done.stderr


def test_no_state_is_said_so(tmp_path: Path) -> None:
    done = dustream("breaker", "release", "a.example", "--state", tmp_path / "nowhere")
    assert done.returncode == 1 and "there is no state" in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_decision_carries_its_time() -> None:
    decision = decision_event("release", "a.example", None)
    assert decision.url == "http://a.example/" and decision.decision == "release_site"
    assert isinstance(decision.fetched_at, str) and decision.fetched_at.endswith("+00:00")
    with pytest.raises(BadSetting):
        decision_event("split", "a.example", 0.9)
