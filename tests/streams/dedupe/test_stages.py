"""The stages as commands: restartable, in any order, and with the same outcome as in one process, to the byte."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpora import corpus_rows, dedupe, roles, text, tree, verdicts, write_lines, write_parquet

import dustream
from dustream.core.errors import UnreadableInput
from dustream.streams.cli.main import main
from dustream.streams.dedupe import filtered, job, shards, signatures
from dustream.streams.dedupe.job import filter_shards
from dustream.streams.dedupe.stages import read_summary, shards_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "dedupe_stages.sh"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = corpus_rows(120)
    for number in range(4):
        write_parquet(tmp_path / "corpus" / f"{number}.parquet", rows[number * 30 : number * 30 + 30])
    return tmp_path / "corpus"


def run_stages(corpus: Path, work: Path, out: Path, parts: int, *order: int) -> None:
    files = sorted(corpus.iterdir())
    for number in order or range(len(files)):
        assert dedupe("sign", files[number], "--out", work, "--id", "id") == 0
    for part in reversed(range(1, parts + 1)):
        assert dedupe("match", work, "--partition", f"{part}/{parts}") == 0
    assert dedupe("resolve", work, "--out", out, "--quiet") == 0
    for part in range(1, parts + 1):
        assert dedupe("filter", out, "--partition", f"{part}/{parts}", "--write-kept", "--annotate") == 0


@pytest.mark.parametrize("parts", [1, 3])
def test_stages_give_what_one_process_gives_to_the_byte(corpus: Path, tmp_path: Path, parts: int) -> None:
    assert dedupe(corpus, "--out", tmp_path / "one", "--id", "id", "--write-kept", "--annotate") == 0
    run_stages(corpus, tmp_path / "work", tmp_path / "staged", parts, 2, 0, 3, 1)
    one, staged = tree(tmp_path / "one"), tree(tmp_path / "staged")
    assert {"duplicate", "winner"} < set(roles(tmp_path / "one"))
    assert one == staged


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_several_jobs_give_what_one_gives(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Lines are read by processes if there are enough of them."""
    write_lines(corpus / "lines.jsonl", corpus_rows(40))
    used: list[int] = []
    run = getattr(job, f"in_{name}")

    def counted(work: object, tasks: object, jobs: int) -> object:
        used.append(jobs)
        return run(work, tasks, jobs)

    monkeypatch.setattr(job, f"in_{name}", counted)
    if name == "processes":
        monkeypatch.setattr(job, "PROCESSES_MIN", 2)
        monkeypatch.setattr(job, "PROCESSES_BYTES_MIN", 0)
    assert dedupe(corpus, "--out", tmp_path / "two", "--id", "id", "--write-kept", "--jobs", "2") == 0
    assert used == [2, 2]
    assert dedupe(corpus, "--out", tmp_path / "one", "--id", "id", "--write-kept") == 0
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.parametrize("part_bytes", [1, 50, 1_000, 40_000])
def test_a_large_file_of_lines_is_signed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    """Wherever the parts begin, every line is in one of them."""
    few = [{"text": text(number // 2, 6)} for number in range(8)]
    source = write_lines(tmp_path / "a.jsonl", corpus_rows(60) if part_bytes > 50 else few)
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes().replace(b"\n", b"\n\n", 3) + b'{"text": "no end"}')
    assert dedupe(source, "--out", tmp_path / "whole", "--write-kept") == 0
    monkeypatch.setattr(shards, "PART_BYTES_MIN", part_bytes)
    parts = shards.parts_of(shards.Shard(str(source), "a.jsonl"))
    assert len(parts) == source.stat().st_size // part_bytes or len(parts) == 1
    assert dedupe(source, "--out", tmp_path / "parts", "--write-kept", "--jobs", "3") == 0
    assert verdicts(tmp_path / "whole") == verdicts(tmp_path / "parts")
    assert (tmp_path / "whole" / "summary.json").read_bytes() == (tmp_path / "parts" / "summary.json").read_bytes()


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_one_file_is_read_in_another_thread_than_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows = corpus_rows(120)
    if name == "a.parquet":
        source = write_parquet(tmp_path / name, rows, row_group_size=16)
    else:
        source = write_lines(tmp_path / name, rows)
    monkeypatch.setattr(filtered, "BLOCK_ROWS", 7)
    readers: set[str] = set()
    writers: set[str] = set()
    watch(monkeypatch, "record_batches" if name == "a.parquet" else "json_lines", readers)
    watch(monkeypatch, "ahead", writers)
    everything = "--write-kept", "--write-dropped", "--quiet"
    assert dedupe(source, "--out", tmp_path / "one", *everything) == 0
    assert readers == writers == {threading.current_thread().name}
    readers.clear()
    writers.clear()
    assert dedupe(source, "--out", tmp_path / "four", *everything, "--jobs", "4") == 0
    assert readers and writers and readers.isdisjoint(writers)
    assert tree(tmp_path / "one") == tree(tmp_path / "four")


def watch(monkeypatch: pytest.MonkeyPatch, name: str, threads: set[str]) -> None:
    """Note in which threads items of an iterator are made."""
    original = getattr(filtered, name)

    def watched(*arguments: object) -> Iterator[object]:
        for item in original(*arguments):
            threads.add(threading.current_thread().name)
            yield item

    monkeypatch.setattr(filtered, name, watched)


def test_a_file_that_changed_is_not_filtered_by_several_jobs_either(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", corpus_rows(60))
    assert dedupe("sign", source, "--out", tmp_path / "work") == 0
    assert dedupe("match", tmp_path / "work") == 0
    assert dedupe("resolve", tmp_path / "work", "--out", tmp_path / "out", "--quiet") == 0
    write_lines(source, corpus_rows(61))
    with pytest.raises(UnreadableInput, match="has changed"):
        list(filter_shards(shards_of(read_summary(tmp_path / "out")), tmp_path / "out", ["kept"], 4))
    assert [*(tmp_path / "out" / "kept").iterdir()] == []


def test_a_large_file_is_signed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_parquet(tmp_path / "a.parquet", corpus_rows(120), row_group_size=16)
    assert dedupe(source, "--out", tmp_path / "whole", "--write-kept") == 0
    monkeypatch.setattr(shards, "PART_BYTES_MIN", 20_000)
    parts = shards.parts_of(shards.Shard(str(source), "a.parquet"))
    assert len(parts) > 2 and [part.part for part in parts][-1] == (7, 8)
    assert dedupe(source, "--out", tmp_path / "parts", "--write-kept") == 0
    assert verdicts(tmp_path / "whole") == verdicts(tmp_path / "parts")
    assert tree(tmp_path / "whole" / "kept") == tree(tmp_path / "parts" / "kept")
    assert (tmp_path / "whole" / "summary.json").read_bytes() == (tmp_path / "parts" / "summary.json").read_bytes()
    damaged = bytearray(source.read_bytes())
    damaged[-20_000:-18_000] = bytes(2_000)
    (tmp_path / "b.parquet").write_bytes(damaged)
    assert dedupe(source, tmp_path / "b.parquet", "--out", tmp_path / "damaged") == 3
    assert {row["file"] for row in verdicts(tmp_path / "damaged")} == {"a.parquet"}


def test_the_example_script(corpus: Path, tmp_path: Path) -> None:
    for number in (2, 3):
        (corpus / f"{number}.parquet").unlink()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(EXAMPLE), str(corpus), str(tmp_path / "work"), str(tmp_path / "out"), "2"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert dedupe(corpus, "--out", tmp_path / "one", "--write-kept") == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "one")


def test_shards_of_the_same_name_are_signed_by_separate_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = corpus_rows(60)
    files = [
        write_parquet(tmp_path / "co" / name, rows[number * 20 : number * 20 + 20])
        for number, name in enumerate(("de/000.parquet", "en/000.parquet", "en/001.parquet"))
    ]
    assert dedupe(tmp_path / "co", "--out", tmp_path / "one", "--write-kept") == 0
    for number, root in enumerate((["--root", tmp_path / "co"], [])):
        work, out = tmp_path / f"work{number}", tmp_path / f"out{number}"
        for file in files:
            assert dedupe("sign", file, "--out", work, *root) == 0
        assert dedupe("match", work) == 0 and dedupe("resolve", work, "--out", out) == 0
        assert dedupe("filter", out, "--write-kept") == 0
    assert tree(tmp_path / "out0") == tree(tmp_path / "one")
    assert sorted(tree(tmp_path / "out1" / "kept")) == ["001.parquet", "de/000.parquet", "en/000.parquet"]
    assert roles(tmp_path / "out1") == roles(tmp_path / "one")
    assert dedupe("sign", files[0], "--out", tmp_path / "work", "--root", tmp_path / "co" / "en") == 2
    assert "is not below" in capsys.readouterr().err


def test_the_example_script_on_folders(tmp_path: Path) -> None:
    for number, name in enumerate(("de/000.parquet", "en/000.parquet", "fr/001.parquet")):
        write_parquet(tmp_path / "co" / name, corpus_rows(60)[number * 20 : number * 20 + 20])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(EXAMPLE), str(tmp_path / "co"), str(tmp_path / "work"), str(tmp_path / "out"), "1"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert dedupe(tmp_path / "co", "--out", tmp_path / "one", "--write-kept") == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "one")


def test_stages_do_again_only_what_changed(corpus: Path, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "out"
    run_stages(corpus, work, out, 1)
    times = {path: path.stat().st_mtime_ns for path in work.rglob("*.u64")}
    matches = (work / "matches" / "1-of-1.npz").stat().st_mtime_ns
    write_parquet(corpus / "3.parquet", corpus_rows(10))
    shutil.rmtree(out)
    run_stages(corpus, work, out, 1)
    again = {path: path.stat().st_mtime_ns for path in work.rglob("*.u64")}
    assert {path.parent.name[:9] for path, time_ns in again.items() if times[path] != time_ns} == {"3.parquet"}
    assert (work / "matches" / "1-of-1.npz").stat().st_mtime_ns != matches
    assert len(verdicts(out)) == 100


def test_missing_shares_and_other_settings_are_told(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    assert dedupe("match", work) == 2
    assert "run `dustream dedupe sign`" in capsys.readouterr().err
    assert dedupe("sign", corpus, "--out", work) == 0
    assert dedupe("resolve", work, "--out", tmp_path / "out") == 1
    assert dedupe("match", work, "--partition", "1/2") == 0
    assert dedupe("resolve", work, "--out", tmp_path / "out") == 1
    assert "2/2" in capsys.readouterr().err
    assert dedupe("match", work, "--partition", "3/2") == 2
    write_lines(tmp_path / "late.jsonl", [{"text": text(1)}])
    assert dedupe("sign", tmp_path / "late.jsonl", "--out", work, "--threshold", "0.8") == 0
    assert dedupe("match", work) == 1
    assert "other settings" in capsys.readouterr().err


def test_filter_notices_that_a_shard_has_changed(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dedupe(corpus, "--out", tmp_path / "out") == 0
    write_parquet(corpus / "1.parquet", corpus_rows(7))
    assert dedupe("filter", tmp_path / "out", "--write-kept") == 1
    assert "it has changed" in capsys.readouterr().err
    assert not (tmp_path / "out" / "kept" / "1.parquet").exists()
    assert dedupe("filter", tmp_path / "out") == 2


def test_signed_shards_are_used_again(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A work folder that was named stays after a failure; the next run signs only what is missing."""
    signed: list[str] = []
    read = signatures.read_batches

    def failing(path: str, *arguments: object) -> object:
        signed.append(Path(path).name)
        if len(signed) == 3:
            raise KeyboardInterrupt
        return read(path, *arguments)

    monkeypatch.setattr(signatures, "read_batches", failing)
    options = ("--out", tmp_path / "out", "--work-dir", tmp_path / "work", "--id", "id", "--write-kept")
    assert dedupe(corpus, *options) == 130
    assert not (tmp_path / "out").exists() and len(list((tmp_path / "work" / "signatures").iterdir())) == 2
    assert dedupe(corpus, *options) == 0
    assert signed == ["0.parquet", "1.parquet", "2.parquet", "2.parquet", "3.parquet"]
    assert not (tmp_path / "work").exists()
    assert dedupe(corpus, "--out", tmp_path / "one", "--id", "id", "--write-kept") == 0
    assert tree(tmp_path / "one") == tree(tmp_path / "out")


@pytest.mark.parametrize("is_named", [False, True])
def test_an_interrupt_tells_what_is_left(tmp_path: Path, is_named: bool) -> None:
    first = write_lines(tmp_path / "in" / "000.jsonl", [{"text": text(each, 400)} for each in range(400)])
    for number in range(1, 60):
        shutil.copyfile(first, first.with_name(f"{number:03}.jsonl"))
    out, work = tmp_path / "out", tmp_path / "named" if is_named else tmp_path / "out" / "work"
    command = [sys.executable, "-m", "dustream.streams.cli.main", "dedupe", str(tmp_path / "in"), "--out", str(out)]
    command += ["--jobs", "2", *(["--work-dir", str(work)] if is_named else [])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not list(work.glob("signatures/*/shard.json")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert work.exists() == is_named
    assert ("goes on from there" if is_named else "work files were removed") in said
    assert not (out / "verdicts.parquet").exists()


def test_rows_are_compared_with_others(tmp_path: Path) -> None:
    old = write_lines(tmp_path / "old.jsonl", [{"id": each, "text": text(each)} for each in (1, 1, 2)])
    rows = [(10, text(1) + " more"), (11, text(3)), (12, text(3)), (13, text(4))]
    new = write_lines(tmp_path / "new.jsonl", [{"id": number, "text": own} for number, own in rows])
    out = tmp_path / "out"
    assert dedupe(new, "--against", old, "--out", out, "--id", "id", "--write-kept") == 0
    assert roles(out) == ["duplicate", "winner", "duplicate", "unique"]
    first = verdicts(out)[0]
    assert (first["winner"], first["winner_file"], first["winner_row"]) == (1, "old.jsonl", 0)
    assert sorted(path.name for path in (out / "kept").iterdir()) == ["new.jsonl"]
    assert dedupe(new, "--against", old, "--only-against", "--out", out, "--force") == 0
    assert roles(out) == ["duplicate", "unique", "unique", "unique"]
    assert dedupe(new, "--only-against", "--out", out, "--force") == 2
    assert dedupe(new, "--against", new, "--out", out, "--force") == 2
    work = tmp_path / "work"
    assert dedupe("sign", new, "--out", work, "--id", "id") == 0
    assert dedupe("sign", old, "--out", work, "--id", "id", "--reference") == 0
    assert dedupe("match", work) == 0 and dedupe("resolve", work, "--out", tmp_path / "staged") == 0
    assert roles(tmp_path / "staged") == ["duplicate", "winner", "duplicate", "unique"]


def test_what_another_corpus_has_goes_even_if_it_has_near_copies_itself(tmp_path: Path) -> None:
    """A row that matches a dropped row of the other corpus only is dropped, too: that corpus stays as it is."""
    old = write_lines(tmp_path / "old.jsonl", [{"text": text(1, 60)}, {"text": text(1, 64)}])
    new = write_lines(tmp_path / "new.jsonl", [{"text": text(1, 68)}])
    assert dedupe(new, "--against", old, "--out", tmp_path / "out", "--threshold", "0.92") == 0
    assert verdicts(tmp_path / "out")[0]["winner_row"] == 1


def test_an_index_grows_from_month_to_month(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "index"
    months = [[1, 2, 2], [2, 3, 4], [1, 4, 5, 5]]
    found = []
    for month, numbers in enumerate(months):
        rows = [{"id": f"{month}-{place}", "text": text(number)} for place, number in enumerate(numbers)]
        source = write_lines(tmp_path / f"{month}.jsonl", rows)
        before = ["--against-state", index] if month else []
        options = ("--out", tmp_path / f"out{month}", "--id", "id", "--save-index", index)
        assert dedupe(source, *before, *options) == 0
        found.append([row["winner"] for row in verdicts(tmp_path / f"out{month}")])
    assert found == [["0-0", "0-1", "0-1"], ["0-1", "1-1", "1-2"], ["0-0", "1-2", "2-2", "2-2"]]
    assert dedupe(source, "--against-state", index, "--dry-run", "--threshold", "0.7") == 2
    assert "other settings" in capsys.readouterr().err
    assert dedupe(source, "--against-state", tmp_path / "nothing", "--dry-run") == 2


def test_a_run_that_made_a_part_of_an_index_can_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compared with its own rows, all of them would be dropped."""
    index, sources = tmp_path / "index", []
    for month, numbers in enumerate([[1, 2], [2, 3], [4, 5]]):
        rows = [{"id": f"{month}-{place}", "text": text(number)} for place, number in enumerate(numbers)]
        sources.append(write_lines(tmp_path / f"{month}.jsonl", rows))
    options = ("--out", tmp_path / "out", "--id", "id", "--save-index", index, "--force")
    for _ in range(2):
        assert dedupe(sources[0], *options) == 0
    assert [path.name for path in index.iterdir()] == ["000000"]
    for source in sources[1:]:
        assert dedupe(source, "--against-state", index, *options) == 0
    assert dedupe(sources[1], "--against-state", index, *options) == 2
    assert f"remove {index / '000001'} to repeat" in capsys.readouterr().err
    assert [row["id"] for row in verdicts(tmp_path / "out")] == ["2-0", "2-1"]
    shutil.rmtree(index / "000001")
    (index / "000009.part").mkdir()  # a run was killed
    assert dedupe(sources[1], "--against-state", index, *options) == 0
    assert [row["winner"] for row in verdicts(tmp_path / "out")] == ["0-1", "1-1"]
    assert sorted(path.name for path in index.iterdir()) == ["000000", "000002", "000003", "000009.part"]
    assert dedupe(sources[1], sources[2], "--against-state", index, "--dry-run") == 0


def test_results_are_incomplete_until_the_index_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_lines(tmp_path / "a.jsonl", corpus_rows(20))
    options = ("--out", tmp_path / "out", "--save-index", tmp_path / "index")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(job, "save_index", interrupted)
        assert dedupe(source, *options) == 130
    assert dedupe(source, *options) == 0
    assert len(list((tmp_path / "index").iterdir())) == 1 and not (tmp_path / "out" / ".incomplete").exists()


def test_other_corpora_need_no_column_that_ranks_rows_and_may_have_other_ids(tmp_path: Path) -> None:
    old = write_parquet(tmp_path / "old.parquet", [{"id": "old", "text": text(1)}])
    rows = [{"id": number, "score": number, "text": text(each)} for number, each in enumerate((1, 2, 2))]
    new = write_parquet(tmp_path / "new.parquet", rows)
    assert dedupe(new, "--against", old, "--out", tmp_path / "out", "--id", "id", "--prefer", "score:desc") == 0
    found = verdicts(tmp_path / "out")
    assert [row["id"] for row in found] == [0, 1, 2]
    assert [row["winner"] for row in found] == ["old", "2", "2"]


def test_rows_are_compared_with_what_a_run_has_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the similarity of pages, whose ends count: a changed end weighs more."""
    pages = [{"url": f"https://e.x/{name}", "text": text(*own)} for name, own in (("a", (1, 200)), ("b", (1, 201)))]
    crawl = write_lines(tmp_path / "pages.jsonl", [*pages, {"url": "https://e.x/c", "text": text(2)}])
    assert main(["run", str(crawl), "--out", str(tmp_path / "run"), "--quiet", "--jobs", "1"]) == 0
    (kept,) = {"https://e.x/a", "https://e.x/b"} & set((tmp_path / "run" / "keep.txt").read_text().split())
    rows = [text(2).upper(), text(1, 200) + " more", text(3), text(3), text(2, 60, 10)]
    new = write_lines(tmp_path / "new.jsonl", [{"id": str(place), "text": own} for place, own in enumerate(rows)])
    out = tmp_path / "out"
    for folder in (tmp_path / "run", tmp_path / "run" / "state"):
        assert dedupe(new, "--against-state", folder, "--out", out, "--id", "id", "--force", "--write-kept") == 0
        found = [(row["role"], row["winner"], row["relation"]) for row in verdicts(out)]
        assert found == [
            ("duplicate", "https://e.x/c", "same_tokens"), ("duplicate", kept, "near"), ("winner", "2", None),
            ("duplicate", "2", "exact"), ("unique", "4", None),
        ]  # fmt: skip
    ours, theirs = dustream.sign(rows[1]), dustream.sign(next(page["text"] for page in pages if page["url"] == kept))
    assert verdicts(out)[1]["similarity"] == ours.jaccard(theirs)
    assert main(["examples", str(out), "--between", "0.5", "1"]) == 0
    assert dedupe(new, "--against-state", tmp_path / "run", "--dry-run", "--tokens", "code") == 2
    assert "compared by words" in capsys.readouterr().err


def test_a_share_of_files_keeps_its_layout(corpus: Path, tmp_path: Path) -> None:
    assert dedupe(corpus, "--out", tmp_path / "out", "--id", "id") == 0
    assert dedupe("filter", tmp_path / "out", "--write-kept", "--partition", "2/2") == 0
    assert sorted(path.name for path in (tmp_path / "out" / "kept").iterdir()) == ["1.parquet", "3.parquet"]
    assert pq.read_metadata(tmp_path / "out" / "kept" / "1.parquet").num_rows
