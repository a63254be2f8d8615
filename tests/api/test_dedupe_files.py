"""`dustream.dedupe_files`: the same outcome as the command with the same options, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpora import corpus_rows, dedupe, text, tree, write_lines, write_parquet

import dustream


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_parquet(tmp_path / "corpus" / "a.parquet", corpus_rows(60)[:30])
    write_lines(tmp_path / "corpus" / "b.jsonl", corpus_rows(60)[30:])
    return tmp_path / "corpus"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"id": "id", "write": ["kept", "annotated"]}, ["--id", "id", "--write-kept", "--annotate"]),
        (
            {"threshold": 0.7, "prefer": ["meta.score:desc", "longest"], "json_lines": True, "jobs": 2},
            ["--threshold", "0.7", "--prefer", "meta.score:desc", "--prefer", "longest", "--json-lines"],
        ),
        (
            {"tokens": "characters", "ngram": 7, "min_tokens": 3, "keep_case": True, "write": ["dropped"]},
            ["--tokens", "characters", "--ngram", "7", "--min-tokens", "3", "--keep-case", "--write-dropped"],
        ),
    ],
)
def test_files_give_what_the_command_gives(
    corpus: Path, tmp_path: Path, options: dict[str, Any], arguments: list[str]
) -> None:
    found = dustream.dedupe_files(corpus, tmp_path / "function", **options)
    assert dedupe(corpus, "--out", tmp_path / "command", *arguments) == 0
    assert tree(tmp_path / "function") == tree(tmp_path / "command")
    assert found.verdicts.num_rows == found.summary.rows == 60 and found.summary.dropped > 5
    for output in options.get("write", ()):
        assert found.files(output) == [tmp_path / "function" / output / name for name in ("a.parquet", "b.jsonl")]


def test_other_corpora(corpus: Path, tmp_path: Path) -> None:
    new = write_lines(tmp_path / "new.jsonl", [{"id": "x", "text": text(1)}, {"id": "y", "text": text(99)}])
    index = tmp_path / "index"
    dustream.dedupe_files([corpus], tmp_path / "one", id="id", save_index=index)
    by_index = dustream.dedupe_files([new], tmp_path / "two", id="id", against_state=index, only_against=True)
    by_files = dustream.dedupe_files(str(new), tmp_path / "three", id="id", against=corpus)
    assert by_index.verdicts["winner"].to_pylist() == by_files.verdicts["winner"].to_pylist() == ["row 1", "y"]


def test_without_a_folder_nothing_is_written(corpus: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    found = dustream.dedupe_files(str(corpus / "*"))
    assert repr(found) == f"<DedupedFiles 60 rows: {found.summary.kept} kept>" and tree(tmp_path) == before
    with pytest.raises(dustream.UnreadableInput, match="nothing was written"):
        _ = found.verdicts
    with pytest.raises(dustream.BadSetting, match="without a folder"):
        dustream.dedupe_files(corpus, write=["kept"])


def test_bad_files(corpus: Path, tmp_path: Path) -> None:
    (corpus / "c.parquet").write_bytes(b"PAR1 and no more")
    found = dustream.dedupe_files(corpus, tmp_path / "out")
    assert [Path(each.path).name for each in found.summary.unread] == ["c.parquet"] and "1 inputs left" in repr(found)
    with pytest.raises(dustream.BadSetting, match="exists"):
        dustream.dedupe_files(corpus, tmp_path / "out")
    with pytest.raises(dustream.UnreadableInput, match="no row could be compared"):
        dustream.dedupe_files(corpus / "b.jsonl", text="body")
    with pytest.raises(dustream.UnreadableInput, match="no such file"):
        dustream.dedupe_files("-")


@pytest.mark.parametrize("write", ["kept", ["keep"], ["kept", "k"]])
def test_outputs_that_are_not_known(corpus: Path, tmp_path: Path, write: Any) -> None:
    with pytest.raises(dustream.BadSetting, match=r"list|choose among kept, dropped, annotated"):
        dustream.dedupe_files(corpus, tmp_path / "out", write=write)
    assert not (tmp_path / "out").exists()


def test_errors_name_parameters(corpus: Path, tmp_path: Path) -> None:
    dustream.dedupe_files(corpus, tmp_path / "out")
    with pytest.raises(dustream.BadSetting, match="name another out, or overwrite it with force"):
        dustream.dedupe_files(corpus, tmp_path / "out")
    with pytest.raises(dustream.UnreadableInput, match="is text right"):
        dustream.dedupe_files(corpus / "b.jsonl", text="body")
