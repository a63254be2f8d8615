"""`dustream groups`, typed by somebody who wants to know."""

from __future__ import annotations

import json
from pathlib import Path

from planted_pages import CHAIN, MARKETS, event, prose, write_events

A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"


def listed(said) -> list[dict]:
    assert said.code == 0
    return [json.loads(line) for line in said.out.splitlines()]


def test_largest_first(ask, web) -> None:
    first, *rest = listed(ask("groups", "--state", web, "--json"))
    assert first["group"] == A and first["size"] == 3 and first["redirects"] == 1
    assert first["winners"] == [A, C] and first["winner_count"] == 2
    assert first["sites"] == {"a.example": 1, "b.example": 1, "c.example": 1}
    assert round(first["weakest_link"], 4) == 0.9048
    assert [group["size"] for group in rest] == [2, 2]
    assert len(listed(ask("groups", "--state", web, "--top", 1, "--json"))) == 1


def test_changed_last_by_the_times_in_the_log(ask, tmp_path: Path) -> None:
    late = [event("z.example/1", prose("late"), day=7), event("z.example/22", prose("late"), day=8)]
    given = write_events(tmp_path / "web.jsonl", [*late, *CHAIN, *MARKETS])
    ask("run", given, "--out", tmp_path, "--jobs", 1, "--quiet")
    groups = listed(ask("groups", "--state", tmp_path, "--by", "changed", "--json"))
    assert [group["group"] for group in groups] == ["https://z.example/1", A, "https://www.example/p"]
    assert groups[0]["changed"] == 1715126400000


def test_of_a_site(ask, web) -> None:
    [group] = listed(ask("groups", "--state", web, "--site", "https://b.example/whatever", "--json"))
    assert group["group"] == A
    assert ask("groups", "--state", web, "--site", "nobody.example").out == "no such groups\n"


def test_winners_of_a_market(ask, web) -> None:
    [group] = listed(ask("groups", "--state", web, "--site", "m.example", "--market", "mobile", "--json"))
    assert group["winners"] == ["https://m.example/some/longer/path"]


def test_held_groups(ask, tmp_path: Path) -> None:
    config = tmp_path / "dustream.toml"
    config.write_text("group_size_max = 2\n")
    given = write_events(tmp_path / "web.jsonl", [*CHAIN, *MARKETS])
    ask("run", given, "--out", tmp_path, "--config", config, "--jobs", 1, "--quiet")
    [group] = listed(ask("groups", "--state", tmp_path, "--held", "--json"))
    assert group["group"] == A and group["held"] is True
    said = ask("groups", "--state", tmp_path)
    assert f"{A}  HELD" in said.out and "size 3 pages" in said.lines
    why = ask("why", B, "--state", tmp_path, "--no-text", "--json").json
    assert why["role"] == "held" and why["words"].startswith(f"held: it would be a duplicate of {A}, but its group is")
    assert ask("breaker", "split", A, "--pass-from", "0.95", "--state", tmp_path).code == 0
    why = ask("why", B, "--state", tmp_path, "--no-text", "--json").json
    assert why["role"] == "winner" and why["words"].startswith(f"kept: it is 0.9048 similar to {A}, but an operator")


def test_same_list_for_every_number_of_partitions(ask, tmp_path: Path) -> None:
    given = tmp_path / "web.jsonl"
    ask("generate", "--pages", 250, "--seed", 3, "--out", given)
    lists = []
    for partitions in (1, 5):
        out = tmp_path / str(partitions)
        ask("run", given, "--out", out, "--partitions", partitions, "--jobs", 1, "--quiet")
        said = listed(ask("groups", "--state", out, "--top", 1000, "--json"))
        lists.append([(group["group"], group["size"], group["winners"], group["changed"]) for group in said])
    assert len(lists[0]) > 5
    assert lists[0] == lists[1]


def test_absurd_top_is_refused(ask, web) -> None:
    said = ask("groups", "--state", web, "--top", 0)
    assert said.code == 2 and "--top 0" in said.err
