"""`dustream why` and `dustream status`, typed by somebody who wants to know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planted_pages import SHORT, write_events

A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"


def test_duplicate_is_explained_with_winner_criterion_group_evidence_and_text(ask, web) -> None:
    said = ask("why", B, "--state", web, "--json")
    answer = said.json
    assert said.code == 0
    assert answer["role"] == "duplicate" and answer["winner"] == A
    assert answer["similarity"] == pytest.approx(380 / 420)
    assert answer["decision"] == {
        "criterion": "static",
        "better": A,
        "better_value": "no query",
        "worse": B,
        "worse_value": "a query",
    }
    assert answer["group"]["size"] == 3 and answer["group"]["id"] == A
    assert answer["evidence"]["path"] == [{"one": B, "other": A, "similarity": pytest.approx(380 / 420)}]
    assert answer["decided_by"]["position"] == 1 and answer["decided_by"]["source"].endswith("web.jsonl")
    diff = answer["text"]["diff"]
    assert (diff["words_removed"], diff["words_added"], diff["words_same"]) == (4, 4, 396)
    runs = [(run["kind"], run["text"]) for passage in diff["passages"] for run in passage if run["kind"] != "same"]
    assert runs[:2] == [("removed", "changed0"), ("added", "chain20")] and len(runs) == 8


def test_same_for_people(ask, web) -> None:
    said = ask("why", B, "--state", web)
    assert f"is a duplicate of {A}" in said.lines
    assert "similarity 0.9048 to the winner" in said.lines
    assert "decided by static: no query before a query (market default)" in said.lines
    assert f"0.9048 {B} ~ {A}" in said.lines
    assert any("chain19 [-changed0-] {+chain20+} chain21" in line for line in said.lines)
    assert any(line.startswith("since 2024-05-02T00:00:00Z, record 1 of ") for line in said.lines)


def test_ends_of_a_chain_are_in_one_group_but_no_duplicates(ask, web) -> None:
    answer = ask("why", A, C, "--state", web, "--json").json
    assert answer["same_group"] is True
    assert answer["words"] == "in one group, but neither is a duplicate of the other"
    assert answer["measures"]["similarity"] == pytest.approx(360 / 440)
    assert [(link["one"], link["other"]) for link in answer["evidence"]["path"]] == [(A, B), (B, C)]
    assert answer["evidence"]["weakest"]["similarity"] == pytest.approx(380 / 420)
    [first, *_] = answer["reasons"]
    assert first["code"] == "similarity" and "0.8182, below the threshold 0.9" in first["words"]


def test_two_duplicates_say_which_is_which(ask, web) -> None:
    assert ask("why", A, B, "--state", web, "--json").json["words"] == f"{B} is a duplicate of {A}"
    assert ask("why", B, A, "--state", web, "--json").json["words"] == f"{B} is a duplicate of {A}"


def test_too_short_a_page_is_excluded_by_length_and_bounds(ask, web) -> None:
    met = []
    for size in SHORT:
        answer = ask("why", A, f"https://f.example/short/{size}", "--state", web, "--json").json
        words = {reason["code"]: reason["words"] for reason in answer["reasons"]}
        assert f"400 and {size} shingles allow at most {size / 400:.4f}" in words["length"]
        assert answer["measures"]["common"] == size - 4  # its last four shingles run over its end
        met.append(bool(answer["measures"]["meet_in"]))
        assert met[-1] or "they were never compared" in words["partitions"]
        assert not met[-1] or "partitions" not in words
    assert not all(met)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("a.example/old", f"a redirect to {A}"),
        ("a.example/older", f"a redirect to {A}"),
        (
            "a.example/nowhere",
            "a redirect that leads to no page: the page it leads to was never seen, or its content is not known",
        ),
        ("a.example/round", "a redirect that leads to no page: its redirects run in a circle, or on for too long"),
        ("d.example/dead", "gone: the last fetch did not find it"),
        ("f.example/Page/", "unique: no other known page is similar enough"),
        ("a.example/chain", "a winner: the page to keep among those like it"),
        ("a.example/never-seen", "never fetched: other pages redirect to it"),
    ],
)
def test_every_role_in_words(url: str, words: str, ask, web) -> None:
    assert ask("why", f"https://{url}", "--state", web, "--no-text", "--json").json["words"] == words


def test_redirect_to_a_duplicate_is_explained_by_its_target(ask, web, tmp_path: Path) -> None:
    said = ask("why", "https://a.example/older", "--state", web, "--json").json
    assert said["way"] == ["https://a.example/old", A] and said["winner"] == A


def test_redirect_to_an_unknown_page_suggests_what_may_be_meant(ask, web) -> None:
    answer = ask("why", "https://f.example/slip", "--state", web, "--json").json
    assert answer["problem"] == "target_unknown" and answer["way"] == ["https://f.example/page"]
    assert answer["near_urls"][0] == "https://f.example/Page/"


def test_nothing_to_compare_says_why(ask, web) -> None:
    gone = ask("why", A, "https://d.example/dead", "--state", web, "--json").json
    assert gone["words"] == "not comparable" and "is gone" in gone["reasons"][0]["words"]
    same = ask("why", A, "https://a.example/older", "--state", web, "--json").json
    assert same["words"] == "one and the same page"
    empty = ask("why", A, "https://f.example/empty", "--state", web, "--json").json
    assert empty["reasons"][0]["code"] == "no_text"
    missing = ask("why", A, "https://x.example/", "--state", web, "--json")
    assert missing.code == 1 and "not known" in missing.json["reasons"][0]["words"]


def test_changed_page_is_known_by_the_version_compared(ask, web) -> None:
    answer = ask("why", "https://e.example/first", A, "--state", web, "--json").json
    [changed, unchanged] = [reason["words"] for reason in answer["reasons"] if reason["code"] == "versions"]
    assert "as fetched 2024-05-08T00:00:00Z, when it had changed" in changed
    assert "when it had changed" not in unchanged
    assert answer["text"]["diff"]["words_removed"] == 400
    removed = answer["text"]["diff"]["passages"][0][0]["text"]
    assert removed.startswith("new0 new1") and "old0" not in removed


def test_rejected_page_says_what_was_wrong(ask, web) -> None:
    said = ask("why", "https://f.example/absurd", "--state", web)
    assert said.code == 1
    assert "is rejected: no fetch of it could be used" in said.lines
    assert any(line.startswith("rejected record ") and "after the year 2100" in line for line in said.lines)
    assert ask("why", "https://f.example/absur", "--state", web, "--json").json["rejected"] == []


@pytest.mark.parametrize("meant", ["f.example/Page", "f.example/page/", "www.f.example/Page/", "f.example/Page/?x=1"])
def test_slips_are_suggested(meant: str, ask, web) -> None:
    assert "https://f.example/Page/" in ask("why", f"http://{meant}", "--state", web, "--json").json["near_urls"]
    said = ask("status", f"https://{meant}", "--state", web)
    assert said.code == 1 and "known are https://f.example/Page/" in said.err


def test_markets_have_their_own_verdicts(ask, web) -> None:
    www, mobile = "https://www.example/p", "https://m.example/some/longer/path"
    assert ask("why", www, "--state", web, "--no-text", "--json").json["role"] == "winner"
    answer = ask("why", www, "--state", web, "--market", "mobile", "--no-text", "--json").json
    assert answer["role"] == "duplicate" and answer["winner"] == mobile
    assert answer["decision"]["criterion"] == "preferred_host"
    assert answer["decision"]["better_value"] == "m.example (preference 1)"
    status = ask("status", www, "--state", web)
    assert "in market default: winner" in status.lines
    assert f"in market mobile: duplicate, winner {mobile} (near, similarity 0.9753)" in status.lines
    unknown = ask("why", www, "--state", web, "--market", "moon")
    assert unknown.code == 2 and "choose one of default, mobile" in unknown.err


def test_hostile_text_never_reaches_the_terminal(ask, web) -> None:
    plain = ask("why", "https://h.example/evil?2", "--state", web)
    assert plain.code == 0 and "\\x1b]0;owned" not in plain.out.split("text")[0]
    assert "owned\\x07" in plain.out and "\\u202e" in plain.out and "\\x9b" in plain.out
    for said in (plain, ask("why", "https://h.example/evil?2", "--state", web, "--json")):
        assert not set("\x1b\x07\x9b\u202e") & set(said.out)


def test_on_a_terminal_differences_have_colours_and_nothing_else_has(ask, web, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    said = ask("why", "https://h.example/evil?2", "--state", web).out
    assert "\x1b[31m[-0;owned" in said and "\x1b[32m{+hostile50+}\x1b[0m" in said
    assert "\x1b" not in re.sub(r"\x1b\[(1|31|32|0)m", "", said)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ask("why", "https://h.example/evil?2", "--state", web).out


def test_source_that_is_gone_leaves_the_evidence(ask, web, tmp_path: Path) -> None:
    given = tmp_path / "moved.jsonl"
    shutil.copy(web.parent / "web.jsonl", given)
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet").code == 0
    given.rename(tmp_path / "away.jsonl")
    said = ask("why", B, "--state", tmp_path / "out")
    assert said.code == 0 and "similarity 0.9048 to the winner" in said.lines
    assert any(line.endswith("moved.jsonl is not there any more") for line in said.lines)
    assert "known of it: 400 and 400 words, 400 and 400 shingles, 380 in common" in said.lines
    given.write_text("".join(reversed((tmp_path / "away.jsonl").read_text().splitlines(keepends=True))))
    said = ask("why", B, "--state", tmp_path / "out")
    assert "cannot be shown" in said.out and "380 in common" in said.out


def test_standard_input_cannot_be_read_again(web, tmp_path: Path, ask) -> None:
    command = [sys.executable, "-m", "dustream.streams.cli.main"]
    lines = (web.parent / "web.jsonl").read_bytes()
    run = [*command, "run", "-", "--out", str(tmp_path), "--jobs", "1"]
    assert subprocess.run(run, input=lines, capture_output=True).returncode == 0
    said = ask("why", B, "--state", tmp_path)
    assert "came from standard input" in said.out and "380 in common" in said.out


def test_state_in_use_is_read_with_a_word_of_caution(web, ask, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(web / "state", state)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_STATE, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"open\n"
    said = ask("status", A, "--state", state, "--json")
    assert json.loads(said.out)["role"] == "winner" and "a run is writing" in said.err
    holder.communicate(b"\n")
    assert "a run is writing" not in ask("status", A, "--state", state).err


HOLD_STATE = """
import sys
from pathlib import Path
from dustream.streams.store.rocks import RocksStore
store = RocksStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
"""


MENU = "".join(f'<li><a href="/{n}">entry {n} of the menu</a></li>' for n in range(300))


def test_pages_with_little_main_text_say_by_what_they_are_compared(ask, tmp_path: Path) -> None:
    def small(name: str, url: str) -> dict[str, object]:
        body = f"<h1>{name}</h1><p>Returns the graph of the {name}, with its nodes and edges.</p>"
        html = f"<html lang=en><body><nav><ul>{MENU}</ul></nav><div class=body>{body}</div></body>"
        return {"url": url, "fetched_at": "2024-01-01T00:00:00Z", "html": html}

    house, tower, copy = (f"https://a.example/{name}" for name in ("house", "tower", "house?copy"))
    given = write_events(tmp_path / "web.jsonl", [small("house", house), small("tower", tower), small("house", copy)])
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet").code == 0
    other = ask("why", house, tower, "--state", tmp_path / "out", "--json").json
    assert other["measures"]["similarity"] == 0.0 and "menus included" in other["text"]["note"]
    assert "These differ: “house Returns the graph of the house" in other["text"]["note"]
    same = ask("why", house, copy, "--state", tmp_path / "out", "--json").json
    assert same["measures"]["similarity"] == 1.0 and "Both have the same: “house Returns" in same["text"]["note"]
    assert "menus included" in ask("why", house, tower, "--state", tmp_path / "out").out
