"""Bad input: what can be read is deduplicated, what cannot is named, and nothing is overwritten or lost."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import corpus_rows, dedupe, roles, text, tree, verdicts, write_lines, write_parquet

import dustream
from dustream.streams.cli.main import main
from dustream.streams.dedupe import rows as row_reader
from dustream.streams.folders import locked

ROWS = corpus_rows(20)
SOME_UNREAD = 3


def errors(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_damaged_shards_are_named_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, out = tmp_path / "in", tmp_path / "out"
    good = write_parquet(corpus / "a-good.parquet", ROWS)
    whole = good.read_bytes()
    (corpus / "b-no-footer.parquet").write_bytes(whole[: len(whole) // 2])
    (corpus / "c-damaged.parquet").write_bytes(whole[:60] + b"\xff" * 900 + whole[960:])
    packed = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
    (corpus / "d-cut.jsonl.gz").write_bytes(packed[: len(packed) - 40])
    write_lines(corpus / "e-good.jsonl", [{"text": text(100)}])
    write_parquet(corpus / "f-other-columns.parquet", [{"body": "no text here"}])
    (corpus / "g-text.jsonl").write_text("not JSON at all\n")
    assert dedupe(corpus, "--out", out, "--write-kept") == SOME_UNREAD
    said = errors(capsys)
    for name in ("b-no-footer.parquet", "c-damaged.parquet", "d-cut.jsonl.gz", "f-other-columns.parquet"):
        assert f"left out: {corpus / name}" in said
    assert "no column text; there are body" in said and "nothing could be read of" in said
    assert {row["file"] for row in verdicts(out)} == {"a-good.parquet", "e-good.jsonl", "g-text.jsonl"}
    assert {path.name for path in (out / "kept").iterdir()} == {"a-good.parquet", "e-good.jsonl", "g-text.jsonl"}
    unread = json.loads((out / "summary.json").read_bytes())["unread"]
    assert [Path(each["path"]).name[0] for each in unread] == ["b", "c", "d", "f"]


def test_nothing_usable_is_a_failure_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lines(tmp_path / "a.jsonl", [{"body": text(1)}, {"body": text(2)}])
    assert dedupe(source, "--out", tmp_path / "out") == 1
    assert "2 no_text" in (said := errors(capsys)) and "--text" in said
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    assert dedupe(tmp_path / "b.parquet", "--out", tmp_path / "b") == 1
    assert "no input could be read" in errors(capsys)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert dedupe(tmp_path / "empty.jsonl", "--out", tmp_path / "c") == 1
    assert "no rows" in errors(capsys)
    assert dedupe(tmp_path / "nowhere.jsonl", "--out", tmp_path / "d") == 1
    assert dedupe(write_parquet(tmp_path / "n.parquet", [{"text": 5}]), "--out", tmp_path / "e") == 1
    assert "has the type int64, not text" in errors(capsys)


def test_a_column_that_no_row_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, table = write_lines(tmp_path / "a.jsonl", ROWS), write_parquet(tmp_path / "a.parquet", ROWS)
    for options in (["--id", "key"], ["--prefer", "key:asc"]):
        assert dedupe(lines, "--out", tmp_path / "out", *options) == 2
        assert "no row has a value for key" in errors(capsys)
        assert dedupe(table, "--out", tmp_path / "out", *options) == 1
        assert "no column key; there are id, text, meta: name one of them" in errors(capsys)
    assert not (tmp_path / "out").exists()
    write_lines(tmp_path / "b.jsonl", [{"key": 1, "text": text(1)}])
    assert dedupe(lines, tmp_path / "b.jsonl", "--out", tmp_path / "out", "--prefer", "key:asc") == 0


def test_an_index_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lines(tmp_path / "a.jsonl", ROWS)
    assert dedupe(source, "--out", tmp_path / "out", "--save-index", source) == 2
    assert "is a file, not a folder" in errors(capsys) and not (tmp_path / "out").exists()
    assert dedupe("sign", source, "--out", tmp_path / "work") == 0 and dedupe("match", tmp_path / "work") == 0
    assert dedupe("resolve", tmp_path / "work", "--out", tmp_path / "out", "--save-index", source) == 2
    assert dedupe("match", tmp_path / "work", "--against-state", tmp_path / "nowhere") == 2


def test_shards_without_rows(tmp_path: Path) -> None:
    corpus, out = tmp_path / "in", tmp_path / "out"
    (corpus / "x").mkdir(parents=True)
    (corpus / "a.jsonl").write_bytes(b"\n\n")
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())}), corpus / "b.parquet")
    write_parquet(corpus / "x" / "c.parquet", [{"id": number, "text": text(number // 2)} for number in range(4)])
    (corpus / "z.jsonl").write_bytes(b"")
    assert dedupe(corpus, "--out", out, "--id", "id", "--write-kept", "--jobs", "2") == 0
    assert roles(out) == ["winner", "duplicate"] * 2
    assert {path: len(data) > 0 for path, data in tree(out / "kept").items()} == {
        "a.jsonl": False, "b.parquet": True, "x/c.parquet": True, "z.jsonl": False,
    }  # fmt: skip
    assert pq.read_table(out / "kept" / "b.parquet").schema == pq.read_schema(corpus / "b.parquet")


def test_an_empty_file_is_no_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_parquet(tmp_path / "in" / "a.parquet", ROWS)
    for name in ("b.parquet", "c.arrow"):
        good.with_name(name).write_bytes(b"")
    assert dedupe(tmp_path / "in", "--out", tmp_path / "out") == SOME_UNREAD
    said = errors(capsys)
    assert "b.parquet: the file is empty" in said and "c.arrow: the file is empty" in said


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user for whom the modes of files count."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder for any user: those of pytest are for one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_files_that_cannot_be_opened_or_read_are_left_out(
    open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out = open_folder / "in", open_folder / "out"
    write_lines(corpus / "a.jsonl", ROWS)
    for name in ("b.jsonl", "c.parquet", "d.csv", "e.arrow"):
        (corpus / name).write_bytes(b"secret")
        (corpus / name).chmod(0)
    (corpus / "f.jsonl").symlink_to("/proc/self/mem")  # opens, and fails when it is read
    (corpus / "g.jsonl").symlink_to("nowhere")
    with without_rights():
        assert dedupe(corpus, "--out", out, "--write-kept") == SOME_UNREAD
    said = errors(capsys)
    for name in ("b.jsonl", "c.parquet", "d.csv", "e.arrow"):
        assert f"left out: {corpus / name}: Permission denied" in said
    assert f"left out: {corpus / 'f.jsonl'}" in said and f"left out: {corpus / 'g.jsonl'}" in said
    assert {row["file"] for row in verdicts(out)} == {"a.jsonl"}


def test_the_folder_of_an_index_is_checked_before_the_work(
    open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, closed = write_lines(open_folder / "a.jsonl", ROWS), open_folder / "out", open_folder / "closed"
    for index in (out, open_folder, out / "kept" / "index"):
        assert dedupe(source, "--out", out, "--save-index", index) == 2
        said = errors(capsys)
        assert "need a folder each" in said or "other files than those of an index" in said
    closed.mkdir(mode=0o555)
    with without_rights():
        for index in (closed, closed / "index"):
            assert dedupe(source, "--out", out, "--save-index", index) == 2
            assert f"the folder {index} cannot be" in (said := errors(capsys)) and "Permission denied" in said
    assert not out.exists()
    assert dedupe(source, "--out", out, "--save-index", open_folder / "deep" / "index") == 0
    assert dedupe("sign", source, "--out", open_folder / "work") == 0
    assert dedupe("match", open_folder / "work") == 0
    assert dedupe("resolve", open_folder / "work", "--out", out, "--save-index", out, "--force") == 2


def test_halves_of_surrogate_pairs_differ(tmp_path: Path) -> None:
    halves = ["\\ud800", "\\ud801", "?", "\\ud800"]
    lines = [f'{{"id": "{half}", "text": "{text(1)} {half} {text(2)}"}}' for half in halves]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for tokens, relations in (
        ("words", [None, "same_tokens", "same_tokens", "exact"]),
        ("raw", [None, "near", "near", "exact"]),
    ):
        assert dedupe(tmp_path / "a.jsonl", "--out", tmp_path / tokens, "--id", "id", "--tokens", tokens) == 0
        found = verdicts(tmp_path / tokens)
        assert [row["relation"] for row in found] == relations
        assert [row["id"] for row in found] == ["\\ud800", "\\ud801", "?", "\\ud800"]
    in_memory = dustream.dedupe([json.loads(line)["text"] for line in lines])
    assert [each.relation for each in in_memory.verdicts] == [None, "same_tokens", "same_tokens", "exact"]
    assert in_memory.why(0, 1).words == "the same tokens"


def test_bytes_of_csv_that_are_no_text_differ(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_bytes(b"text\n" + b"".join(text(1).encode() + each + b"\n" for each in (b" \xff", b" \xfe", b" ?")))
    assert dedupe(source, "--out", tmp_path / "out") == 0
    assert [row["relation"] for row in verdicts(tmp_path / "out")] == [None, "same_tokens", "same_tokens"]


def test_archives_of_pages_are_for_another_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.warc").write_bytes(b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n")
    assert dedupe(tmp_path / "a.warc", "--out", tmp_path / "out") == 1
    assert "`dustream run`" in errors(capsys)


def test_every_line_is_a_row_with_a_reason(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": 1, "text": text(1)}),
        "",
        "{broken",
        json.dumps(["a", "list"]),
        json.dumps({"id": 2, "text": 17}),
        json.dumps({"id": 3, "text": None}),
        json.dumps({"id": 4}),
        json.dumps({"id": 5, "text": " \n"}),
        json.dumps({"id": 6, "text": "?!"}),
        '{"id": 7, "text": "half of a pair \\ud800 in a text"}',
        '{"id": 8, "text": "half of a pair \\ud800 in a text"}',
        json.dumps({"id": 9, "text": text(1)}),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"
    assert dedupe(tmp_path / "a.jsonl", "--out", out, "--id", "id", "--write-kept", "--annotate") == 0
    assert [(row["id"], row["reason"]) for row in verdicts(out)] == [
        (1, None), (None, "not_json"), (None, "not_json"), (2, "not_text"), (3, "no_text"), (4, "no_text"),
        (5, "too_short"), (6, "too_short"), (7, None), (8, None), (9, None),
    ]  # fmt: skip
    assert [row["id"] for row in verdicts(out) if row["role"] == "duplicate"] == [8, 9]
    kept = (out / "kept" / "a.jsonl").read_text().splitlines()
    assert kept == [line for number, line in enumerate(lines) if number not in (1, 10, 11)]
    annotated = (out / "annotated" / "a.jsonl").read_text().splitlines()
    assert annotated[1] == "{broken" and json.loads(annotated[0])["dedupe_role"] == "winner"


def test_records_of_csv_that_break_its_rules_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        b"\xef\xbb\xbfid,text",
        f"1,{text(1)}".encode(),
        b"",
        f"2,{text(1)},more".encode(),
        b"3",
        b'4,"a" b',
        b"5,",
        b"6,\xff\xfe no UTF-8 in these words",
        f"7,{text(1)}".encode(),
    ]
    source, out = tmp_path / "a.csv", tmp_path / "out"
    source.write_bytes(b"\n".join(records))
    assert dedupe(source, "--out", out, "--id", "id", "--write-kept", "--annotate") == 0
    assert [(row["id"], row["reason"]) for row in verdicts(out)] == [
        ("1", None), (None, "not_csv"), (None, "not_csv"), (None, "not_csv"), ("5", "no_text"), ("6", None),
        ("7", None),
    ]  # fmt: skip
    kept = (out / "kept" / "a.csv").read_bytes().splitlines()
    assert kept == [record for number, record in enumerate(records) if number not in (2, 8)]
    annotated = (out / "annotated" / "a.csv").read_bytes().splitlines()
    assert annotated[2] == records[3] and annotated[0].startswith(records[0] + b",dedupe_role")
    source.write_bytes(b'id,text\n1,"no end\n2,b\n')
    assert dedupe(source, "--out", out, "--force") == 1
    assert "at byte 8 has no end" in errors(capsys)
    source.write_bytes(b"id,body\n1,b\n")
    assert dedupe(source, "--out", out, "--force") == 1
    assert "no column text; there are id, body" in errors(capsys)
    source.write_bytes(b"")
    assert dedupe(source, "--out", out, "--force") == 1
    assert "no header" in errors(capsys)


def test_ids_of_mixed_types_are_text(tmp_path: Path) -> None:
    ids: list[Any] = [1, "two", 3.5, {"four": 4}, None, 10**30, "half \ud800"]
    rows = [{"id": each, "text": text(number)} for number, each in enumerate(ids)]
    assert dedupe(write_lines(tmp_path / "in" / "a.jsonl", rows), "--out", tmp_path / "a", "--id", "id") == 0
    found = [row["id"] for row in verdicts(tmp_path / "a")]
    assert found[:5] == ["1", "two", "3.5", '{"four":4}', None] and found[6] == "half \\ud800"
    write_parquet(tmp_path / "in" / "b.parquet", [{"id": 7, "text": text(50)}, {"id": 7, "text": text(0)}])
    assert dedupe(tmp_path / "in", "--out", tmp_path / "b", "--id", "id") == 0
    last = verdicts(tmp_path / "b")[-1]
    assert (last["id"], last["winner"], last["role"]) == ("7", "1", "duplicate")


def test_scores_of_mixed_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"score": score, "text": text(1)} for score in (1, 2.5, None, 2)]
    out = tmp_path / "out"
    assert dedupe(write_lines(tmp_path / "a.jsonl", rows), "--out", out, "--prefer", "score:desc") == 0
    assert {row["winner_row"] for row in verdicts(out)} == {1}
    listed = write_parquet(tmp_path / "b.parquet", [{"score": [1], "text": text(1)}])
    assert dedupe(listed, "--out", tmp_path / "b", "--prefer", "score:desc") == 2
    assert "cannot be ordered by score (list<element: int64>): prefer columns of numbers" in errors(capsys)


def test_large_row_groups_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_reader, "BATCH_BYTES_MAX", 4_096)
    source = write_parquet(tmp_path / "a.parquet", corpus_rows(200))
    assert pq.read_metadata(source).num_row_groups == 1
    batches = list(row_reader.read_batches(str(source), "text", []))
    assert len(batches) > 10 and max(len(batch.data) for batch in batches) < 4 * 4_096
    assert dedupe(source, "--out", tmp_path / "out", "--write-kept") == 0
    assert pq.read_metadata(tmp_path / "out" / "kept" / "a.parquet").num_row_groups == 1


@pytest.mark.slow
def test_a_text_of_200_megabytes(tmp_path: Path) -> None:
    word_bytes = 32
    long = " ".join(f"{number:0{word_bytes - 1}}" for number in range(200_000_000 // word_bytes))
    table = pa.table({"id": [1, 2, 3], "text": pa.array([long, "short", long[:-word_bytes]], pa.large_string())})
    pq.write_table(table, tmp_path / "a.parquet")
    out = tmp_path / "out"
    assert dedupe(tmp_path / "a.parquet", "--out", out, "--id", "id", "--write-kept") == 0
    last = verdicts(out)[2]
    assert (last["role"], last["winner"], last["relation"]) == ("duplicate", 1, "near")
    assert pq.read_table(out / "kept" / "a.parquet")["id"].to_pylist() == [1, 2]


def test_longer_texts_than_the_limit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_reader, "TEXT_BYTES_MAX", 1_000)
    source = write_parquet(tmp_path / "a.parquet", [{"text": text(1, 400)}] * 2)
    assert dedupe(source, "--out", tmp_path / "out") == 1
    assert [row["reason"] for row in verdicts(tmp_path / "out")] == ["too_long"] * 2


def test_results_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "a.jsonl", ROWS), tmp_path / "out"
    assert dedupe(source, "--out", out, "--write-kept") == 0
    before = tree(out)
    assert dedupe(source, "--out", out, "--threshold", "0.5") == 2
    assert "--force" in errors(capsys) and tree(out) == before
    assert dedupe(source, "--out", out, "--force", "--write-dropped") == 0
    assert not (out / "kept").exists() and (out / "dropped" / "a.jsonl").exists()
    assert dedupe(source, "--out", out, "--force", "--json-lines") == 0
    assert (out / "verdicts.jsonl").exists()
    assert dedupe(source, "--out", out, "--force") == 0
    assert not (out / "verdicts.jsonl").exists()


def test_results_do_not_go_among_the_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", ROWS)
    assert dedupe(tmp_path / "in", "--out", tmp_path / "in" / "out") == 2
    assert "is inside the input" in errors(capsys)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert dedupe(tmp_path / "in", "--out", tmp_path / "link" / "out") == 2
    assert dedupe(tmp_path / "in", "--out", tmp_path / "out", "--write-kept") == 0
    assert dedupe(tmp_path / "out" / "kept", "--out", tmp_path / "out", "--force") == 2
    assert "is inside the output" in errors(capsys)
    assert roles(tmp_path / "out")
    (tmp_path / "link").unlink()
    pattern = tmp_path / "**" / "*.jsonl"
    assert dedupe(pattern, "--out", tmp_path / "out", "--force") == 2
    assert "is inside the output" in errors(capsys)
    assert dedupe(tmp_path / "in", tmp_path / "in" / "a.jsonl", "--out", tmp_path / "b") == 2
    assert "named twice" in errors(capsys)


def test_files_of_one_name_keep_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_lines(tmp_path / folder / "a.jsonl", [{"text": text(1 if folder == "one" else 2)}])
    assert dedupe(tmp_path / "one", tmp_path / "two", "--out", tmp_path / "out", "--write-kept") == 0
    assert [row["file"] for row in verdicts(tmp_path / "out")] == ["one/a.jsonl", "two/a.jsonl"]
    assert (tmp_path / "out" / "kept" / "two" / "a.jsonl").exists()


def test_a_full_disk_ends_with_one_line(tmp_path: Path) -> None:
    """A limit on the size of files is what a full disk looks like, to a test without a disk of its own."""
    source = write_parquet(tmp_path / "a.parquet", [{"text": text(number, 400)} for number in range(2_000)])
    command = [sys.executable, "-m", "dustream.streams.cli.main", "dedupe", str(source), "--out", str(tmp_path / "out")]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run([*command, "--jobs", "1"], preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no room left" in done.stderr and "Traceback" not in done.stderr and "kept" not in done.stderr
    assert not (tmp_path / "out" / "work").exists()
    assert subprocess.run([*command, "--jobs", "1"], check=True, capture_output=True)


@pytest.mark.parametrize(
    "options",
    [["--threshold", "0"], ["--threshold", "1.1"], ["--ngram", "99"], ["--prefer", "best"], ["--min-tokens", "0"]],
)
def test_wrong_settings(tmp_path: Path, options: list[str]) -> None:
    assert dedupe(write_lines(tmp_path / "a.jsonl", ROWS), "--out", tmp_path / "out", *options) == 2
    assert not (tmp_path / "out").exists()


def test_one_run_at_a_time_writes_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_lines(tmp_path / "a.jsonl", ROWS), tmp_path / "out"
    out.mkdir()
    with locked(out):
        assert dedupe(source, "--out", out) == 2
        assert f"another run writes to {out}" in errors(capsys)
    (out / "work").rmdir()
    assert dedupe(source, "--out", out) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.jsonl", "--ouut", "x"], "usage: dustream dedupe"),
        (["sign", "a.jsonl", "--out", "w", "--rot", "x"], "usage: dustream dedupe sign"),
        (["a.jsonl", "--out", "x", "--ngram", "0"], "0 is no number from 1"),
    ],
)
def test_mistyped_options(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["dedupe", *arguments])
    assert stopped.value.code == 2 and said in errors(capsys)


def test_standard_input_is_no_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedupe(write_lines(tmp_path / "a.jsonl", ROWS), "--against", "-", "--out", tmp_path / "out") == 2
    assert "standard input can be an input" in errors(capsys)


def test_formats_that_are_read_are_those_of_this_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    assert dedupe(tmp_path / "a.bin", "--out", tmp_path / "out") == 1
    said = errors(capsys)
    assert "Formats read: Parquet, Arrow, JSON lines and CSV" in said and "WARC" not in said


def test_no_folder_for_results_is_named(tmp_path: Path) -> None:
    assert dedupe(write_lines(tmp_path / "a.jsonl", ROWS)) == 2
    assert dedupe(tmp_path / "a.jsonl", "--dry-run", "--write-kept") == 2
