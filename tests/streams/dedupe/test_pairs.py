"""`dustream examples` and `dustream thresholds`, on results of `dedupe` and of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpora import dedupe, text, verdicts, write_lines

from dustream.streams.cli.main import main

CHANGED = (0, 1, 2, 4, 6, 8, 10)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A text each, and one in which some words at the end are others."""
    lines = [
        {"id": f"{name}{changed}", "text": text(changed, 100, changed if name == "b" else 0)}
        for changed in CHANGED
        for name in "ab"
    ]
    return write_lines(tmp_path / "rows.jsonl", lines)


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


def test_thresholds_count_stored_similarities(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedupe(rows, "--out", tmp_path / "out", "--threshold", "0.7", "--id", "id") == 0
    capsys.readouterr()
    table = json.loads(printed(capsys, "thresholds", tmp_path / "out", "--json"))
    similarities = [row["similarity"] for row in verdicts(tmp_path / "out") if row["role"] == "duplicate"]
    assert len(similarities) == len(CHANGED)
    by_threshold = {row["threshold"]: row["dropped"] for row in table["thresholds"]}
    assert by_threshold[0.65] is None
    for threshold in (0.7, 0.8, 0.9, 0.95):
        assert by_threshold[threshold] == sum(each >= threshold for each in similarities)
        assert dedupe(rows, "--out", tmp_path / "other", "--threshold", threshold, "--force") == 0
        dropped = sum(row["role"] == "duplicate" for row in verdicts(tmp_path / "other"))
        assert dropped == by_threshold[threshold]
    capsys.readouterr()
    assert "not stored" in printed(capsys, "thresholds", tmp_path / "out")


def test_examples_show_the_words_that_differ(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedupe(rows, "--out", tmp_path / "out", "--threshold", "0.7", "--id", "id") == 0
    capsys.readouterr()
    lines = printed(capsys, "examples", tmp_path / "out", "--between", ".9", ".97", "--json", "-n", "5").splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["duplicate"] for each in found] == ["b4", "b2"]
    assert found[0]["diff"]["words_removed"] == 4
    shown = printed(capsys, "examples", tmp_path / "out", "--between", ".9", ".94", "-n", "1")
    assert "b4  ~  a4" in shown and "[t4x0 t4x1 t4x2 t4x3]" in shown and "[t4w96 t4w97 t4w98 t4w99]" in shown
    assert main(["examples", str(tmp_path / "out"), "--between", ".2", ".3"]) == 1
    assert "below 0.7 none are stored" in capsys.readouterr().out
    assert main(["examples", str(tmp_path / "out"), "--between", ".3", ".2"]) == 2


def test_results_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [{"url": f"https://e.x/{name}", "text": text(1, 200, changed)} for name, changed in (("a", 0), ("b", 1))]
    source = write_lines(tmp_path / "pages.jsonl", pages)
    assert main(["run", str(source), "--once", "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1"]) == 0
    capsys.readouterr()
    (line,) = printed(capsys, "examples", tmp_path / "out", source, "--json").splitlines()
    assert json.loads(line)["diff"]["words_removed"] == 1
    table = json.loads(printed(capsys, "thresholds", tmp_path / "out", "--json"))["thresholds"]
    assert [row["dropped"] for row in table[-3:]] == [None, 1, 1]
    assert main(["examples", str(tmp_path / "out")]) == 2
    assert main(["examples", str(tmp_path)]) == 2
