"""`dustream dedupe` on every kind of input: one verdict for every row, and the data back as it was."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import datasets
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from corpora import corpus_rows, dedupe, roles, text, verdicts, write_lines, write_parquet

import dustream

ROWS = corpus_rows()


def expected() -> list[dustream.RecordVerdict]:
    return dustream.dedupe(ROWS, id="id").verdicts


def check(out: Path) -> None:
    """The verdicts are those of the Python function."""
    found = [(row["id"], row["role"], row["winner"], row["similarity"], row["relation"]) for row in verdicts(out)]
    assert found == [(each.id, each.role, each.winner, each.similarity, each.relation) for each in expected()]
    assert {"unique", "winner", "duplicate", "not_compared"} == {row[1] for row in found}


def test_parquet_shards(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    for number in range(3):
        write_parquet(corpus / "deep" / f"{number}.parquet", ROWS[number * 20 : number * 20 + 20], row_group_size=7)
    (corpus / "README.md").write_text("about it")
    assert dedupe(corpus, "--out", out, "--id", "id", "--write-kept", "--write-dropped", "--annotate") == 0
    check(out)
    parts: dict[str, list[dict[str, Any]]] = {}
    for output in ("kept", "dropped", "annotated"):
        tables = [pq.read_table(out / output / "deep" / f"{number}.parquet") for number in range(3)]
        parts[output] = [row for table in tables for row in table.to_pylist()]
        if output != "annotated":
            assert tables[0].schema == pq.read_schema(corpus / "deep" / "0.parquet")
    dropped = {each.id for each in expected() if each.role == "duplicate"}
    assert parts["kept"] == [row for row in ROWS if row["id"] not in dropped]
    assert parts["dropped"] == [row for row in ROWS if row["id"] in dropped]
    assert [row["dedupe_role"] for row in parts["annotated"]] == roles(out)
    assert [{name: row[name] for name in ROWS[0]} for row in parts["annotated"]] == ROWS
    assert not (out / "work").exists() and not (out / ".incomplete").exists()


@pytest.mark.parametrize("id_type", [polars.String, polars.Categorical])
def test_arrow_files_of_polars(tmp_path: Path, id_type: Any) -> None:
    """polars writes texts as views, which Arrow cannot filter."""
    rows = [{**row, "tags": [row["id"], "x"], "raw": row["id"].encode()} for row in ROWS]
    frame = polars.DataFrame(rows).cast({"id": id_type})
    source, out = tmp_path / "rows.arrow", tmp_path / "out"
    frame.write_ipc(source)
    assert dedupe(source, "--out", out, "--id", "id", "--write-kept", "--annotate") == 0
    check(out)
    kept = [row for row, role in zip(frame.to_dicts(), roles(out), strict=True) if role != "duplicate"]
    assert polars.read_ipc(out / "kept" / "rows.arrow").to_dicts() == kept
    annotated = polars.read_ipc(out / "annotated" / "rows.arrow")
    assert annotated["dedupe_role"].to_list() == roles(out)
    with pa.memory_map(str(source)) as before, pa.memory_map(str(out / "kept" / "rows.arrow")) as after:
        assert pa.ipc.open_file(before).schema == pa.ipc.open_file(after).schema


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_json_lines_come_back_byte_by_byte(tmp_path: Path, name: str) -> None:
    source, out = write_lines(tmp_path / name, ROWS), tmp_path / "out"
    assert dedupe(source, "--out", out, "--id", "id", "--write-kept", "--annotate", "--json-lines") == 0
    check(out)
    unpack = {".gz": gzip.decompress, ".zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data).read()}
    read = unpack.get(source.suffix, lambda data: data)
    lines = read(source.read_bytes()).splitlines()
    kept = read((out / "kept" / name).read_bytes()).splitlines()
    assert kept == [line for line, role in zip(lines, roles(out), strict=True) if role != "duplicate"]
    annotated = [json.loads(line) for line in read((out / "annotated" / name).read_bytes()).splitlines()]
    assert [row["dedupe_winner"] for row in annotated] == [row["winner"] for row in verdicts(out)]
    assert [json.loads(line) for line in (out / "verdicts.jsonl").read_bytes().splitlines()] == verdicts(out)


def test_annotations_are_replaced(tmp_path: Path) -> None:
    """Wherever they are in a row; the others stay as they are."""
    lines = [
        f'{{"id":1.50,"text":"{text(1)}", "own": {{"dedupe_role": 1}}}}',
        f'{{"dedupe_role": "old", "text": "{text(1)}", "half": "\\ud800", "dedupe_reason": [1, 2]}}',
        '{"dedupe_role": "old"}',
        "{}",
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for source, out in (("a.jsonl", "one"), ("one/annotated/a.jsonl", "two")):
        assert dedupe(tmp_path / source, "--out", tmp_path / out, "--annotate") == 0
    one, two = ((tmp_path / out / "annotated" / "a.jsonl").read_text().splitlines() for out in ("one", "two"))
    assert one[0].startswith(lines[0][:-1] + ', "dedupe_role":"winner",')
    assert all(line.count('"dedupe_role":"') == 1 and line.count('"dedupe_reason"') == 1 for line in one + two)
    assert '"half": "\\ud800", "dedupe_role":"duplicate"' in one[1]
    assert one[2].startswith('{"dedupe_role":"not_compared"') and one[2].replace("2", "3") == one[3]
    for line, again in zip(one, two, strict=True):
        assert json.loads(line) | {"dedupe_winner": 0} == json.loads(again) | {"dedupe_winner": 0}


def write_csv(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    target = io.StringIO()
    writer = csv.DictWriter(target, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    data = target.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(("name", "delimiter"), [("rows.csv", ","), ("rows.tsv", "\t"), ("rows.csv.gz", ";")])
def test_csv_comes_back_byte_by_byte(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = [{"id": row["id"], "note": 'a "note",\nof two; lines', "text": row["text"]} for row in ROWS]
    source, out = write_csv(tmp_path / name, rows, delimiter), tmp_path / "out"
    assert dedupe(source, "--out", out, "--id", "id", "--write-kept", "--write-dropped", "--annotate") == 0
    check(out)
    unpack = gzip.decompress if name.endswith(".gz") else bytes
    head, *records = unpack(source.read_bytes()).split(b"\r\n")[:-1]
    for output, is_dropped in (("kept", False), ("dropped", True)):
        wanted = [each for each, role in zip(records, roles(out), strict=True) if (role == "duplicate") == is_dropped]
        assert unpack((out / output / name).read_bytes()) == b"\r\n".join([head, *wanted, b""])
    again = tmp_path / "again"
    assert dedupe(out / "annotated" / name, "--out", again, "--id", "id", "--annotate") == 0
    for folder in (out, again):
        lines = io.StringIO(unpack((folder / "annotated" / name).read_bytes()).decode(), newline="")
        read = list(csv.DictReader(lines, delimiter=delimiter))
        assert [{key: row[key] for key in rows[0]} for row in read] == rows
        assert [row["dedupe_winner"] for row in read] == [row["winner"] for row in verdicts(out)]
        assert len(read[0]) == len(rows[0]) + 6


def test_numbers_in_csv_are_ordered_as_numbers(tmp_path: Path) -> None:
    rows = [{"id": f"00{score}", "score": score, "text": text(1)} for score in (9, 10.5, "", 2)]
    assert (
        dedupe(write_csv(tmp_path / "a.csv", rows), "--out", tmp_path / "out", "--id", "id", "--prefer", "score:desc")
        == 0
    )
    assert {row["winner"] for row in verdicts(tmp_path / "out")} == {"0010.5"}


def test_hugging_face_folders_load_again(tmp_path: Path) -> None:
    splits = {"train": datasets.Dataset.from_list(ROWS[:40]), "test": datasets.Dataset.from_list(ROWS[40:])}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "data"), num_shards={"train": 2, "test": 1})
    out = tmp_path / "out"
    assert dedupe(tmp_path / "data", "--out", out, "--id", "id", "--write-kept", "--annotate") == 0
    by_id = {row["id"]: row["role"] for row in verdicts(out)}
    kept, annotated = (datasets.load_from_disk(str(out / name)) for name in ("kept", "annotated"))
    assert {split: list(kept[split]["id"]) for split in kept} == {
        split: [row["id"] for row in data if by_id[row["id"]] != "duplicate"] for split, data in splits.items()
    }
    assert kept["train"].features == splits["train"].features
    assert kept["train"]._fingerprint != datasets.load_from_disk(str(tmp_path / "data"))["train"]._fingerprint
    assert list(annotated["test"]["dedupe_role"]) == [by_id[row["id"]] for row in splits["test"]]


def test_arrow_files(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=17)
    out = tmp_path / "out"
    assert dedupe(tmp_path / "rows.arrow", "--out", out, "--id", "id", "--write-dropped") == 0
    check(out)
    with pa.memory_map(str(out / "dropped" / "rows.arrow")) as file:
        dropped = pa.ipc.open_file(file).read_all()
    assert dropped["id"].to_pylist() == [each.id for each in expected() if each.role == "duplicate"]


def test_patterns_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        write_lines(tmp_path / f"part-{number}.jsonl", ROWS[number * 30 : number * 30 + 30])
    assert dedupe(tmp_path / "part-*.jsonl", "--out", tmp_path / "a", "--id", "id") == 0
    check(tmp_path / "a")
    data = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert dedupe("-", "--out", tmp_path / "b", "--id", "id", "--write-kept") == 0
    check(tmp_path / "b")
    assert (tmp_path / "b" / "kept" / "stdin.jsonl").exists()


def test_nested_names(tmp_path: Path) -> None:
    rows = [{"meta": {"body": row["text"], "key": {"id": number}}} for number, row in enumerate(ROWS)]
    options = ("--text", "meta.body", "--id", "meta.key.id")
    for source in (write_parquet(tmp_path / "a.parquet", rows), write_lines(tmp_path / "a.jsonl", rows)):
        out = tmp_path / source.suffix
        assert dedupe(source, "--out", out, *options) == 0
        assert [row["id"] for row in verdicts(out)] == list(range(len(ROWS)))
        assert roles(out) == [each.role for each in expected()]


def test_ids_of_any_type(tmp_path: Path) -> None:
    ids = {
        "binary": pa.array([uuid.UUID(int=number).bytes for number in range(60)], pa.binary(16)),
        "dictionary": pa.array([f"id {number}" for number in range(60)]).dictionary_encode(),
        "time": pa.array(range(60), pa.timestamp("s")),
        "repeated": pa.array([number // 2 for number in range(60)], pa.uint32()),
    }
    for name, column in ids.items():
        table = pa.table({"id": column, "text": [row["text"] for row in ROWS]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        out = tmp_path / name
        assert dedupe(tmp_path / f"{name}.parquet", "--out", out, "--id", "id") == 0
        assert [row["id"] for row in verdicts(out)] == column.to_pylist()
        assert roles(out) == [each.role for each in expected()]


def test_rows_without_an_id_are_known_by_file_and_row(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", [{"text": text(1)}])
    write_lines(tmp_path / "in" / "b.jsonl", [{"text": text(2)}, {"text": text(1)}])
    assert dedupe(tmp_path / "in", "--out", tmp_path / "out") == 0
    last = verdicts(tmp_path / "out")[2]
    assert (last["id"], last["winner"], last["winner_file"], last["winner_row"]) == (
        "b.jsonl:1",
        "a.jsonl:0",
        "a.jsonl",
        0,
    )


@pytest.mark.parametrize(
    ("prefer", "kept"),
    [(["first"], "a"), (["last"], "d"), (["longest"], "c"), (["score:desc"], "b"), (["meta.s:asc", "last"], "d")],
)
def test_which_row_wins(tmp_path: Path, prefer: list[str], kept: str) -> None:
    sizes, scores, lows = (60, 60, 61, 60), (1, 9, None, 9), (2, 2, 2, 2)
    rows = [
        {"id": name, "text": text(1, size), "score": score, "meta": {"s": low}}
        for name, size, score, low in zip("abcd", sizes, scores, lows, strict=True)
    ]
    options = [word for each in prefer for word in ("--prefer", each)]
    for source in (write_parquet(tmp_path / "a.parquet", rows), write_lines(tmp_path / "a.jsonl", rows)):
        assert dedupe(source, "--out", tmp_path / "out", "--id", "id", "--force", *options) == 0
        assert {row["winner"] for row in verdicts(tmp_path / "out")} == {kept}


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lines(tmp_path / "a.jsonl", ROWS)
    assert dedupe(source, "--dry-run") == 0
    dropped = sum(each.role == "duplicate" for each in expected())
    printed = capsys.readouterr().out
    assert f"dropped   {dropped:>12,}" in printed and "nothing was written" in printed
    assert list(tmp_path.iterdir()) == [source]


def test_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedupe(write_lines(tmp_path / "a.jsonl", ROWS), "--out", tmp_path / "out", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert printed["rows"] == 60 == printed["kept"] + printed["dropped"]
    assert printed["roles"]["not_compared"] == printed["reasons"]["no_text"]
