"""`dustream dedupe` beside rensa, datasketch, text-dedup and datatrove: time, memory and quality on one Parquet file.

    python bench/corpora.py --corpus real --peers ~/peers/bin/python [--datatrove ~/peers2/bin/python] [--rows N]
    python bench/corpora.py --corpus generated --rows 183355 …
    python bench/corpora.py --memory 100000 1000000 5000000

Whole commands by the clock, one after the other, each in a process of its own; memory is the peak of its processes'
resident memory, read every 50 ms. Peers run in Python environments of their own (`pip install rensa datasketch pyarrow
text-dedup`, `pip install datatrove[processing]`); one that is not there is left out, and named. The real corpus is the
main text of the pages in DUSTREAM_DATA; the other one is `dustream generate`. All compare 5-word shingles at .9, rensa
also bare words, as its README does. A row that a tool drops is compared with the rows that it keeps by exact Jaccard of
5-word shingles, on a sample.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpora_peers import SHINGLE_WORDS, THRESHOLD, WORD
from result_files import Table, write_result
from text import DATA, rows

import dustream

REAL = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en", "B_recrawl_flink", "C_pages_multisite")
SAMPLE = 20_000
SHARD_ROWS = 100_000
ROW_WORDS = 120
PEERS = Path(__file__).resolve().parent / "corpora_peers.py"


class Measured(NamedTuple):
    """One command: seconds by the clock, processor seconds, peak memory, and the rows that it keeps."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_mb: int
    anonymous_mb: int
    kept: set[int]


def real_texts() -> Iterator[str]:
    for name in REAL:
        for row in rows(name):
            if row.get("html"):
                yield dustream.extract(row["html"]).text


def generated_texts(folder: Path, count: int) -> Iterator[str]:
    events = folder / "web.jsonl"
    dustream_command = [sys.executable, "-m", "dustream.streams.cli.main"]
    subprocess.run([*dustream_command, "generate", "--pages", str(count), "--out", str(events)], check=True)
    with events.open() as file:
        for event in map(json.loads, file):
            if event.get("html") and isinstance(event["html"], str):
                yield dustream.extract(event["html"]).text


def write_corpus(path: Path, texts: Iterator[str], count: int | None) -> None:
    """All texts, or so many of them, evenly spaced."""
    found = [text for text in texts if text.strip()]
    if count is not None and count < len(found):
        found = [found[number * len(found) // count] for number in range(count)]
    pq.write_table(
        pa.table({"id": pa.array(range(len(found)), pa.int64()), "text": found}), path, row_group_size=10_000
    )


def measured(name: str, command: list[str], folder: Path) -> Measured | None:
    """Run a command that writes the ids it keeps, one a line, to its last argument; None if it fails."""
    kept, peaks = folder / "kept.txt", [0, 0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen([*command, str(kept)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            now = [memory_kb(pid) for pid in descendants(process.pid)]
            peaks[:] = [max(peak, sum(each)) for peak, each in zip(peaks, zip(*now, strict=True), strict=True)]

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        print(f"{name} failed: {output.decode(errors='replace')[-600:]}", file=sys.stderr)
        return None
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Measured(
        name, seconds, cpu, peaks[0] >> 10, peaks[1] >> 10, {int(line) for line in kept.read_text().split()}
    )


def descendants(pid: int) -> list[int]:
    found, at = [pid], 0
    while at < len(found):
        with suppress(OSError):  # a process may end at any moment
            for task in Path(f"/proc/{found[at]}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        at += 1
    return found


def memory_kb(pid: int) -> tuple[int, int]:
    """Resident memory of a process, and how much of it is no mapped file."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(VmRSS|RssAnon):\s+(\d+)", status, re.M))
    return int(found.get("VmRSS", 0)), int(found.get("RssAnon", 0))


def commands(corpus: Path, folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    own = [sys.executable, str(PEERS), "dustream", str(corpus), str(folder / "out")]
    yield "dustream, 1 job", [*own, "1"]
    yield "dustream, 2 jobs", [*own, "2"]
    for name in ("rensa-words", "rensa-shingles", "datasketch", "text-dedup"):
        if args.peers and name not in args.leave_out:
            yield name, [args.peers, str(PEERS), name, str(corpus), str(folder / "out"), "1"]
    if args.datatrove and "datatrove" not in args.leave_out:
        yield "datatrove", [args.datatrove, str(PEERS), "datatrove", str(corpus), str(folder / "out"), "1"]


def shingles(text: str) -> frozenset[int]:
    words = WORD.findall(text.lower())
    return frozenset(
        hash(tuple(words[at : at + SHINGLE_WORDS])) for at in range(max(1, len(words) - SHINGLE_WORDS + 1))
    )


class Judge:
    """Exact similarities of sampled rows to the kept rows, found by shingles that few rows have."""

    def __init__(self, texts: list[str]) -> None:
        self._sets = [shingles(text) for text in texts]
        self._rows_with = Counter(shingle for each in self._sets for shingle in each)

    def quality(self, kept: set[int]) -> list[Any]:
        """Of sampled dropped rows: the share with a kept one at .9, the number whose best is below .85; of sampled kept
        rows: the number beside another kept one at .95."""
        by_shingle: dict[int, list[int]] = {}
        for row in sorted(kept):
            for shingle in self._prefix(row):
                by_shingle.setdefault(shingle, []).append(row)
        chosen = random.Random(1)
        dropped = sorted(set(range(len(self._sets))) - kept)
        some = chosen.sample(dropped, min(SAMPLE, len(dropped)))
        best = [self._best(row, by_shingle) for row in some]
        held = chosen.sample(sorted(kept), min(SAMPLE, len(kept)))
        beside = sum(self._best(row, by_shingle) >= 0.95 for row in held)
        return [
            sum(each >= THRESHOLD for each in best) / max(1, len(best)),
            sum(each < 0.85 for each in best),
            beside,
        ]

    def _prefix(self, row: int) -> list[int]:
        """Two sets at .85 share one of the rarest 15 % of either (prefix filtering)."""
        own = sorted(self._sets[row], key=lambda shingle: (self._rows_with[shingle], shingle))
        return own[: len(own) - int(0.85 * len(own)) + 1]

    def _best(self, row: int, by_shingle: dict[int, list[int]]) -> float:
        near = {other for shingle in self._prefix(row) for other in by_shingle.get(shingle, ())} - {row}
        own, best = self._sets[row], 0.0
        for other in near:
            theirs = self._sets[other]
            if min(len(own), len(theirs)) > best * max(len(own), len(theirs)):
                common = len(own & theirs)
                best = max(best, common / (len(own) + len(theirs) - common))
        return best


def dummies_table(texts: list[str]) -> Table:
    """How the dummies at the end of pages' shingles move similarities: pairs at .85 by plain shingles."""
    found = dustream.dedupe(texts, threshold=0.85)
    near = [number for number, each in enumerate(found.verdicts) if each.relation == "near"]
    chosen = random.Random(1).sample(near, min(SAMPLE, len(near)))
    counts: dict[str, list[int]] = {}
    for number in chosen:
        verdict = found.verdicts[number]
        one, other = dustream.sign(texts[number][:1_000_000]), dustream.sign(texts[verdict.winner][:1_000_000])
        similarity, size = one.jaccard(other), one.shingle_count
        name = "under 100" if size < 100 else "100 to 499" if size < 500 else "500 and more"
        row = counts.setdefault(name, [0, 0, 0, 0])
        row[0] += 1
        row[1] += verdict.similarity >= THRESHOLD > similarity
        row[2] += similarity >= THRESHOLD > verdict.similarity
        row[3] += abs(similarity - verdict.similarity) > 0.02
    order = ("under 100", "100 to 499", "500 and more")
    columns = [
        "shingles",
        "pairs",
        "plain ≥ .9, with dummies below",
        "plain < .9, with dummies above",
        "moved by > .02",
    ]
    return Table("Dummies at the end of texts", columns, [[name, *counts[name]] for name in order if name in counts])


def write_random_words(folder: Path, count: int) -> None:
    """Shards of 100,000 rows, 120 random words each; every fifth row is the one before with another word."""
    folder.mkdir(parents=True)
    words = np.array([f"w{number:05} " for number in range(50_000)], dtype="S7")
    draws = np.random.default_rng(1)
    for start in range(0, count, SHARD_ROWS):
        size = min(SHARD_ROWS, count - start)
        drawn = draws.integers(0, len(words), (size, ROW_WORDS))
        copies = np.arange(4, size, 5)
        drawn[copies] = drawn[copies - 1]
        drawn[copies, draws.integers(0, ROW_WORDS, len(copies))] = 0
        data, row_bytes = words[drawn].tobytes(), 7 * ROW_WORDS
        offsets = np.arange(size + 1, dtype=np.int64) * row_bytes
        texts = pa.LargeStringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(data))
        table = pa.table({"id": np.arange(start, start + size), "text": texts})
        pq.write_table(table, folder / f"{start:09}.parquet", use_dictionary=False)


def memory_table(folder: Path, counts: list[int]) -> Table:
    lines = []
    for count in counts:
        for name in ("words", "out"):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_random_words(folder / "words", count)
        command = [sys.executable, str(PEERS), "dustream", str(folder / "words"), str(folder / "out"), "1"]
        found = measured(f"{count:,} rows", command, folder)
        if found is None:
            sys.exit("dustream failed")
        peak, anonymous = found.peak_mb, found.anonymous_mb
        lines.append([count, found.seconds, found.cpu_seconds, peak, anonymous, (anonymous << 20) // count])
        print(lines[-1], flush=True)
    columns = ["rows", "seconds", "processor s", "peak MB", "of it not mapped MB", "not mapped, bytes a row"]
    return Table(f"Rows of {ROW_WORDS} words, one job", columns, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("real", "generated"), default="real")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--peers", help="a Python with rensa, datasketch and text-dedup")
    parser.add_argument("--datatrove", help="a Python with datatrove")
    parser.add_argument("--leave-out", nargs="*", default=[])
    parser.add_argument("--memory", type=int, nargs="+", metavar="ROWS", help="memory at these sizes, and nothing else")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/dustream-corpora"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.memory:
        print(write_result("corpora_memory", [memory_table(args.folder, args.memory)]))
        return
    corpus = args.folder / f"{args.corpus}-{args.rows or 'all'}.parquet"
    if not corpus.exists():
        texts = real_texts() if args.corpus == "real" else generated_texts(args.folder, args.rows or 100_000)
        if args.corpus == "real" and not DATA.exists():
            sys.exit(f"no data in {DATA}: set DUSTREAM_DATA")
        write_corpus(corpus, texts, args.rows)
    texts_of = pq.read_table(corpus)["text"].to_pylist()
    judge = Judge(texts_of)
    lines = []
    for name, command in commands(corpus, args.folder, args):
        shutil.rmtree(args.folder / "out", ignore_errors=True)
        found = measured(name, command, args.folder)
        if found is not None:
            per_row = round(found.peak_mb * (1 << 20) / len(texts_of))
            quality = judge.quality(found.kept)
            lines.append([name, found.seconds, found.cpu_seconds, found.peak_mb, per_row, len(found.kept), *quality])
            print(lines[-1], flush=True)
    columns = [
        "tool", "seconds", "processor s", "peak MB", "bytes a row", "kept", "dropped with a kept one ≥ .9",
        "dropped, best < .85", "kept beside a kept one ≥ .95",
    ]  # fmt: skip
    title = f"{len(texts_of):,} texts, {args.corpus}"
    tables = [Table(title, columns, lines), dummies_table(texts_of)]
    rows_asked = f" --rows {args.rows}" if args.rows else ""
    command = f"python bench/corpora.py --corpus {args.corpus}{rows_asked} --peers PYTHON --datatrove PYTHON"
    print(write_result("corpora" if args.corpus == "real" else "corpora_generated", tables, command))


if __name__ == "__main__":
    main()
