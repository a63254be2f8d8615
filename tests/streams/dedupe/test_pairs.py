"""`dustream examples` and `dustream thresholds`, on results of `dedupe` and of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpora import dedupe, text, verdicts, write_lines, write_parquet

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
    with pytest.raises(SystemExit):
        main(["examples", str(tmp_path / "out"), "-n", "0"])


@pytest.mark.parametrize(
    ("options", "removed", "added"),
    [
        (["--tokens", "code"], "=", "!"),
        (["--tokens", "raw"], "=", "!"),
        (["--tokens", "characters"], "=", "!"),
        (["--keep-case"], "Value", "value"),
    ],
)
def test_examples_differ_in_what_was_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], removed: str, added: str
) -> None:
    """Symbols and case, if they count."""
    code = text(1, 100) + "\nif (left {}= right) return {};\n" + text(2, 100)
    names = ("Value", "value") if "--keep-case" in options else ("value", "value")
    rows = [{"id": "b", "text": code.format("!", names[1])}, {"id": "a", "text": code.format("=", names[0])}]
    source = write_lines(tmp_path / "rows.jsonl", rows)
    assert dedupe(source, "--out", tmp_path / "out", "--id", "id", *options) == 0
    capsys.readouterr()
    (line,) = printed(capsys, "examples", tmp_path / "out", "--json").splitlines()
    diff = json.loads(line)["diff"]
    runs = [(run["kind"], run["text"]) for passage in diff["passages"] for run in passage if run["kind"] != "same"]
    assert [diff["words_removed"], diff["words_added"]] == [1, 1]
    assert [text.rstrip(";") for _, text in runs] == [removed, added]


def test_examples_beside_an_index_without_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the tutorial: the index is a folder below the one in which the command runs."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "may.jsonl", [{"id": "may", "text": text(1, 100)}])
    rows = [("june", text(1, 100, 1)), ("a", text(2, 100)), ("b", text(2, 100, 2))]
    write_lines(tmp_path / "june.jsonl", [{"id": name, "text": own} for name, own in rows])
    assert dedupe("may.jsonl", "--out", "may", "--id", "id", "--save-index", "index") == 0
    assert dedupe("june.jsonl", "--against-state", "index", "--out", "june", "--id", "id") == 0
    capsys.readouterr()
    assert main(["examples", "june", "--json", "-n", "1"]) == 0
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    assert json.loads(line)["duplicate"] == "b" and json.loads(line)["diff"]["words_removed"] == 2
    assert "1 more pair cannot be shown" in shown.err


@pytest.mark.parametrize("is_staged", [False, True])
def test_references_of_the_same_name_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_staged: bool
) -> None:
    old = write_parquet(tmp_path / "old" / "part-0.parquet", [{"text": text(1, 100)}, {"text": text(3, 100)}])
    rows = [{"text": text(9, 100)}, {"text": text(3, 100, 1)}]
    new = write_parquet(tmp_path / "new" / "part-0.parquet", rows)
    out, work = tmp_path / "out", tmp_path / "work"
    if is_staged:
        assert dedupe("sign", new, "--out", work) == 0 and dedupe("sign", old, "--out", work, "--reference") == 0
        assert dedupe("match", work) == 0 and dedupe("resolve", work, "--out", out, "--json-lines") == 0
        assert dedupe("filter", out, "--annotate") == 0
    else:
        assert dedupe(new, "--against", old, "--out", out, "--annotate", "--json-lines") == 0
    found = verdicts(out)[1]
    assert (found["file"], found["winner_file"], found["winner_row"]) == ("part-0.parquet", "old/part-0.parquet", 1)
    assert found["winner"] == "old/part-0.parquet:1"
    assert json.loads((out / "verdicts.jsonl").read_text().splitlines()[1]) == found
    annotated = pq.read_table(out / "annotated" / "part-0.parquet")
    assert annotated["dedupe_winner"].to_pylist() == ["part-0.parquet:0", "old/part-0.parquet:1"]
    capsys.readouterr()
    (line,) = printed(capsys, "examples", out, "--json").splitlines()
    assert json.loads(line)["diff"]["words_removed"] == 1


def test_examples_from_another_folder(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dedupe(rows.name, "--out", "out", "--id", "id") == 0
    capsys.readouterr()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert '"words_removed": 1,' in printed(capsys, "examples", tmp_path / "out", "--json")
    assert dedupe("filter", tmp_path / "out", "--write-kept") == 0
    rows.unlink()
    assert f"cannot be read again: there is no {rows}" in printed(capsys, "examples", tmp_path / "out")


def test_rows_of_two_indexes_of_one_name(tmp_path: Path) -> None:
    for number in (1, 2):
        source = write_lines(tmp_path / f"{number}.jsonl", [{"text": text(number)}, {"text": text(10 * number)}])
        index = tmp_path / str(number) / "index"
        assert dedupe(source, "--out", tmp_path / f"out{number}", "--save-index", index) == 0
    new = write_lines(tmp_path / "new.jsonl", [{"text": text(20)}])
    states = [option for number in (1, 2) for option in ("--against-state", tmp_path / str(number) / "index")]
    assert dedupe(new, *states, "--out", tmp_path / "out") == 0
    (found,) = verdicts(tmp_path / "out")
    assert (found["winner_file"], found["winner_row"]) == ("2/index/000000", 1)


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
