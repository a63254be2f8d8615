"""`dustream.open`: the embedded engine under a Python program, on the state of the command."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dustream
from dustream.streams.cli.main import main
from dustream.streams.generate import generate

PAGES = 300


def events() -> list[dict[str, Any]]:
    return [msgspec.to_builtins(event) for event in generate(pages=PAGES, seed=3)]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    return str(path)


def test_events_from_a_program_have_the_outcome_of_the_command(tmp_path: Path) -> None:
    main(["run", write_lines(tmp_path / "web.jsonl", events()), "--out", str(tmp_path / "command"), "--quiet"])
    some = events()
    with dustream.open(tmp_path / "program") as state:
        assert state.add(some[: PAGES // 2]).events == PAGES // 2
    with dustream.open(tmp_path / "program") as state:  # goes on where it was
        state.add(list(generate(pages=PAGES, seed=3))[PAGES // 2 :])
        with dustream.open(tmp_path / "command", read_only=True) as other:
            by_program, by_command = list(state.statuses()), list(other.statuses())
            assert [(each.url, each.role, each.winner, each.similarity) for each in by_program] == [
                (each.url, each.role, each.winner, each.similarity) for each in by_command
            ]
            assert [each.url for each in by_program if dustream.is_kept(each.role)] == list(state.keep())
            assert state.groups(top=3) == other.groups(top=3)
            assert state.rules() == other.rules()
    assert (tmp_path / "command" / "keep.txt").read_text().splitlines() == [
        each.url for each in by_command if dustream.is_kept(each.role)
    ]


def test_the_command_goes_on_where_a_program_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = events()
    with dustream.open(tmp_path / "result") as state:
        state.add(some[:100])
    assert main(["run", write_lines(tmp_path / "rest", some[100:]), "--out", str(tmp_path / "result"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["status", some[0]["url"], "--state", str(tmp_path / "result"), "--json"]) == 0
    with dustream.open(tmp_path / "result", read_only=True) as state:
        status = state.status(some[0]["url"])
        assert status is not None
        assert msgspec.json.decode(capsys.readouterr().out)["role"] == status.role


def test_bad_events_are_told_and_the_others_count(tmp_path: Path) -> None:
    with dustream.open(tmp_path) as state:
        added = state.add(
            [
                {"url": "https://a.example/", "text": "a text"},
                {"url": 7},
                {"url": "nowhere", "text": "a text"},
                {"url": "https://b.example/", "text": "a text"},
            ]
        )
        assert added.events == 4
        assert [each.index for each in added.rejected] == [1, 2]
        assert "relative URL" in added.rejected[1].reason
        assert len(list(state.statuses())) == 2


def test_bytes_and_datetimes_are_taken(tmp_path: Path) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with dustream.open(tmp_path) as state:
        state.add([{"url": "https://a.example/", "fetched_at": noon, "body": "<p>größer".encode("latin-1")}])
        status = state.status("https://a.example/")
        assert status is not None and status.since == noon.timestamp() * 1000


def test_reasons(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(50))
    with dustream.open(tmp_path) as state:
        state.add({"url": f"https://{name}.example/", "fetched_at": 1, "text": words} for name in "ab")
        page = state.why("https://b.example/")
        pair = state.why("https://a.example/", "https://b.example/")
        assert {page.role, state.why("https://a.example/").role} == {"winner", "duplicate"}
        assert pair.same_group and pair.measures is not None and pair.measures.similarity == 1.0
        assert state.why("https://c.example/").role == "unknown"
        assert state.status("https://c.example/") is None


def test_settings_are_those_of_the_state(tmp_path: Path) -> None:
    with dustream.open(tmp_path, threshold=0.7) as state:
        assert state.settings.threshold == 0.7
    with dustream.open(tmp_path) as state:
        assert state.settings.threshold == 0.7
    with pytest.raises(dustream.StateMismatch, match="other settings"):
        dustream.open(tmp_path, threshold=0.8)
    with pytest.raises(dustream.BadSetting, match="Known settings"):
        dustream.open(tmp_path, treshold=0.8)


def test_a_read_only_state_takes_nothing_and_must_be_there(tmp_path: Path) -> None:
    dustream.open(tmp_path / "one").close()
    with (
        dustream.open(tmp_path / "one", read_only=True) as state,
        pytest.raises(dustream.StateMismatch, match="read-only"),
    ):
        state.add([])
    with pytest.raises(dustream.DustreamError):
        dustream.open(tmp_path / "none", read_only=True)
