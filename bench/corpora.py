"""`dustream dedupe` beside rensa, datasketch, text-dedup and datatrove: time, memory and quality on one Parquet file.

    python bench/corpora.py --corpus real --rows 10000 --peers ~/peers/bin/python --datatrove ~/peers2/bin/python
    python bench/corpora.py --corpus real --peers ~/peers/bin/python [--leave-out datasketch text-dedup]
    python bench/corpora.py --corpus generated --rows 183355 …
    python bench/corpora.py --memory 100000 1000000 5000000

Whole commands by the clock, one after the other, each in a process of its own; memory is the peak of its processes'
resident memory, read every 50 ms. Peers run in Python environments of their own (`pip install rensa datasketch pyarrow
text-dedup`, `pip install datatrove[processing] pyarrow spacy`); one that is not there, or takes longer than --limit, is
left out and named. The real corpus is the main text of the pages in DUSTREAM_DATA; the other one is `dustream
generate`. All compare 5-word shingles at .9, rensa also bare words, as its README does. A row that a tool drops is
compared with the rows that it keeps by exact Jaccard of 5-word shingles, on a sample.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpora_peers import SHINGLE_WORDS, THRESHOLD, WORD
from numpy.typing import NDArray
from random_words import ROW_BYTES, ROW_WORDS, random_rows
from result_files import Table, write_result
from text import DATA, rows
from watched import watched

import dustream

REAL = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en", "B_recrawl_flink", "C_pages_multisite")
SAMPLE = 20_000
SMALL = 10_000  # rows on which all tools run, also those that take minutes for them
SHARD_ROWS = 100_000
PEERS = Path(__file__).resolve().parent / "corpora_peers.py"


class Measured(NamedTuple):
    """One command: seconds by the clock, processor seconds, peak memory, and the rows that it keeps."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_mb: int
    anonymous_mb: int
    kept: list[int]


def real_texts() -> Iterator[str]:
    """Of every page that has HTML, also if its main text is empty."""
    for name in REAL:
        for row in rows(name):
            if row.get("html"):
                yield dustream.extract(row["html"]).text


def generated_texts(folder: Path, count: int) -> Iterator[str]:
    events = folder / "web.jsonl"
    dustream_command = [sys.executable, "-m", "dustream.streams.cli.main"]
    pages = str(count * 6 // 5)  # some have no text
    subprocess.run([*dustream_command, "generate", "--pages", pages, "--out", str(events)], check=True)
    with events.open() as file:
        for event in map(json.loads, file):
            if event.get("html") and isinstance(event["html"], str):
                yield dustream.extract(event["html"]).text
    events.unlink()


def write_corpus(path: Path, texts: Iterator[str], count: int | None) -> None:
    """All texts, or so many of them, evenly spaced."""
    found = list(texts)
    if count is not None and count < len(found):
        found = [found[number * len(found) // count] for number in range(count)]
    pq.write_table(
        pa.table({"id": pa.array(range(len(found)), pa.int64()), "text": found}), path, row_group_size=10_000
    )


def measured(name: str, command: list[str], folder: Path, limit_s: float | None = None) -> Measured | None:
    """Run a command that writes the ids it keeps, one a line, to its last argument; None if it fails, or takes longer
    than a limit."""
    kept = folder / "kept.txt"
    found = watched([*command, str(kept)], limit_s)
    if found.output is None or found.status:
        why = f"took over {limit_s:,} s" if found.output is None else f"failed: {found.output[-600:]}"
        print(f"{name} {why}", file=sys.stderr)
        return None
    ids = [int(line) for line in kept.read_text().split()]
    return Measured(name, found.seconds, found.cpu_seconds, found.peak_mb, found.anonymous_mb, ids)


def stored(name: str, command: list[str], args: argparse.Namespace) -> Measured | None:
    """What a command took: measured now, or with --reuse by an earlier call on this corpus."""
    path = args.folder / f"{args.corpus}-{args.rows or 'all'}-{name.replace(' ', '')}.json"
    if args.reuse and path.exists():
        return Measured(*json.loads(path.read_bytes()))
    shutil.rmtree(args.folder / "out", ignore_errors=True)
    found = measured(name, command, args.folder, args.limit)
    if found is not None:
        path.write_text(json.dumps(found))
        print(found[:-1], flush=True)
    return found


def commands(corpus: Path, folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    own = [sys.executable, str(PEERS), "dustream", str(corpus), str(folder / "out")]
    yield "dustream, 1 job", [*own, "1"]
    yield "dustream, 2 jobs", [*own, "2"]
    for name in ("rensa-words", "rensa-shingles", "datasketch", "text-dedup"):
        if args.peers and name not in args.leave_out:
            yield name, [args.peers, str(PEERS), name, str(corpus), str(folder / "out"), "1"]
    if args.datatrove and "datatrove" not in args.leave_out:
        yield "datatrove", [args.datatrove, str(PEERS), "datatrove", str(corpus), str(folder / "out"), "1"]


def shingles(text: str) -> NDArray[np.int64]:
    words = WORD.findall(text.lower())
    found = [hash(tuple(words[at : at + SHINGLE_WORDS])) for at in range(max(1, len(words) - SHINGLE_WORDS + 1))]
    return np.unique(np.array(found, dtype=np.int64))


class Judge:
    """Exact similarities of sampled rows to the kept rows, found by shingles that few rows have. Rows without a word
    are not judged."""

    def __init__(self, texts: list[str]) -> None:
        by_text: dict[str, NDArray[np.int64]] = {}
        for text in texts:
            if text not in by_text:
                by_text[text] = shingles(text)
        self._sets = [by_text[text] for text in texts]
        self._judged = {row for row, text in enumerate(texts) if WORD.search(text)}
        self._all, self._rows_with = np.unique(np.concatenate(list(by_text.values())), return_counts=True)

    def quality(self, kept: set[int]) -> list[Any]:
        """Of sampled dropped rows: the share with a kept one at .9, the number whose best is below .85; of sampled kept
        rows: the number beside another kept one at .95."""
        dropped, held = sorted(self._judged - kept), sorted(self._judged & kept)
        prefixes = [self._prefix(row) for row in held]
        terms, rows = np.concatenate(prefixes), np.repeat(held, [len(each) for each in prefixes])
        order = np.argsort(terms, kind="stable")
        index = terms[order], rows[order]
        chosen = random.Random(1)
        best = [self._best(row, *index) for row in chosen.sample(dropped, min(SAMPLE, len(dropped)))]
        beside = [self._best(row, *index) for row in chosen.sample(held, min(SAMPLE, len(held)))]
        return [
            sum(each >= THRESHOLD for each in best) / max(1, len(best)),
            sum(each < 0.85 for each in best),
            sum(each >= 0.95 for each in beside),
        ]

    def _prefix(self, row: int) -> NDArray[np.int64]:
        """Two sets at .85 share one of the rarest 15 % of either (prefix filtering)."""
        own = self._sets[row]
        rarest = np.argsort(self._rows_with[np.searchsorted(self._all, own)], kind="stable")
        return own[rarest[: len(own) - int(0.85 * len(own)) + 1]]

    def _best(self, row: int, terms: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
        prefix = self._prefix(row)
        ranges = zip(np.searchsorted(terms, prefix), np.searchsorted(terms, prefix, "right"), strict=True)
        near = {other for start, end in ranges for other in rows[start:end].tolist()} - {row}
        own, best = self._sets[row], 0.0
        for other in sorted(near, key=lambda other: abs(len(self._sets[other]) - len(own))):
            theirs = self._sets[other]
            if min(len(own), len(theirs)) <= best * max(len(own), len(theirs)):
                break
            common = len(np.intersect1d(own, theirs, assume_unique=True))
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
    draws = np.random.default_rng(1)
    for start in range(0, count, SHARD_ROWS):
        size = min(SHARD_ROWS, count - start)
        data = random_rows(draws, size)
        offsets = np.arange(size + 1, dtype=np.int64) * ROW_BYTES
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
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="tools that take longer are left out, and named")
    parser.add_argument("--measure-only", action="store_true", help="run the tools; the next call with --reuse judges")
    parser.add_argument("--reuse", action="store_true", help="do not run again what was measured on this corpus")
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
    found = [each for name, command in commands(corpus, args.folder, args) if (each := stored(name, command, args))]
    if args.measure_only:
        return
    judge = Judge(texts_of)
    lines = []
    for each in found:
        per_row = round(each.peak_mb * (1 << 20) / len(texts_of))
        measures = [each.name, each.seconds, each.cpu_seconds, each.peak_mb, per_row, len(each.kept)]
        lines.append([*measures, *judge.quality(set(each.kept))])
        print(lines[-1], flush=True)
    columns = [
        "tool", "seconds", "processor s", "peak MB", "bytes a row", "kept", "dropped with a kept one ≥ .9",
        "dropped, best < .85", "kept beside a kept one ≥ .95",
    ]  # fmt: skip
    title = f"{len(texts_of):,} texts, {args.corpus}"
    tables = [Table(title, columns, lines), *([dummies_table(texts_of)] if args.rows == SMALL else [])]
    rows_asked = f" --rows {args.rows}" if args.rows else ""
    without = f" --leave-out {' '.join(args.leave_out)}" if args.leave_out else ""
    without += f" --limit {args.limit:g}" if args.limit else ""
    peers = " --peers PYTHON" + (" --datatrove PYTHON" if args.datatrove else "")
    command = f"python bench/corpora.py --corpus {args.corpus}{rows_asked}{peers}{without}"
    print(write_result(f"corpora_{args.corpus}" if args.rows != SMALL else "corpora", tables, command))


if __name__ == "__main__":
    main()
