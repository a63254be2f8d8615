"""Whole commands by the clock: what a user waits for, with start-up, reading, rules and writing, beside other tools.

    python bench/clock.py [--rounds 3] [--generated 100000,1000000] [--no-beautifulsoup]
    python bench/clock.py [--only start,real,archive,generated,texts] [--jobs 1,2] [--texts 200000] [--result clock]

All commands of a collection run one after the other, `--rounds` times; the best round of each counts. *Times* is how
many times as long as our command with as many jobs. Commands with one job run on one core (`taskset`).
A run on a busy machine is refused without --busy.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import data_folder, read_jsonl_zst
from result_files import Table, write_result

import dustream

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
REAL = ("A_kafka_site", "C_pages_multisite")
RUN = ("dustream run --once", "dustream run")
DEDUPE = "dustream dedupe"
PEERS = {"rensa": "resiliparse + rensa", "datasketch": "BeautifulSoup + datasketch"}
LOAD_MAX = 0.7
ROW_GROUP_ROWS = 10_000
IN_WORKERS = ("read", "sign")
BESIDE = ("tier2", "containment")  # without --once
ONE_PAGE = {"url": "http://a.example/", "html": "<html><title>One</title><p>" + "some words of a page " * 20}


class Ran(NamedTuple):
    """One command: seconds by the clock, processor seconds; of ours also peak MB of the main process, and stages."""

    seconds: float
    processor: float
    peak_mb: float
    stages: dict[str, float]


def ours(pages: Path, out: Path, jobs: int, *options: str) -> Ran:
    """Stages of other processes overlap with those of the main one, so they are left out: what it waits for them is a
    part of everything else."""
    shutil.rmtree(out, ignore_errors=True)
    command = [str(BIN / "dustream"), "run", str(pages), "--out", str(out), "--quiet", "--jobs", str(jobs), *options]
    ran = timed([*_cores(jobs), *command])
    summary = json.loads((out / "summary.json").read_text())
    elsewhere = () if jobs == 1 else IN_WORKERS if "--once" in options else IN_WORKERS + BESIDE
    stages = {name: took for name, took in summary["seconds_per_stage"].items() if name not in elsewhere}
    stages = {"start and end": ran.seconds - summary["seconds"], **stages}
    return ran._replace(peak_mb=summary["peak_memory_mb"], stages=stages)


def dedupe(texts: Path, out: Path, jobs: int) -> Ran:
    shutil.rmtree(out, ignore_errors=True)
    command = [str(BIN / "dustream"), "dedupe", str(texts), "--out", str(out), "--quiet", "--jobs", str(jobs)]
    return timed([*_cores(jobs), *command])


def peer(name: str, pages: Path, out: Path, jobs: int) -> Ran:
    command = [sys.executable, str(HERE / "crawl_peers.py"), name, str(pages), str(out), "--jobs", str(jobs)]
    return timed([*_cores(jobs), *command])


def _cores(jobs: int) -> list[str]:
    return ["taskset", "-c", "0"] if jobs == 1 else []


def timed(command: list[str]) -> Ran:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(seconds, processor, 0.0, {})


def best(runs: list[Ran]) -> Ran:
    return min(runs)


def compared(
    name: str,
    pages: Path,
    count: int,
    rounds: int,
    peers: list[str],
    work: Path,
    all_jobs: list[int],
    our_commands: tuple[str, ...] = RUN,
) -> list[Table]:
    """The table of a collection, and those of where the time and the memory go."""
    commands: dict[tuple[str, int], Callable[[], Ran]] = {}
    for jobs in all_jobs:
        for command in our_commands:
            if command == DEDUPE:
                commands[command, jobs] = partial(dedupe, pages, work / "out", jobs)
            else:
                commands[command, jobs] = partial(ours, pages, work / "out", jobs, *command.split()[2:])
        for each in peers:
            commands[PEERS[each], jobs] = partial(peer, each, pages, work / "keep.txt", jobs)
    runs: dict[tuple[str, int], list[Ran]] = {}
    for number in range(rounds):
        for key, run in commands.items():
            if number and key[0].startswith("BeautifulSoup"):
                continue  # takes minutes: one round will do
            runs.setdefault(key, []).append(run())
            print(f"{name}, round {number + 1}: {key[0]}, {key[1]} jobs: {runs[key][-1].seconds:.1f} s", flush=True)
    found = {key: best(each) for key, each in runs.items()}
    times = [f"times {command.split()[-1]}" for command in our_commands]
    columns = ["", "jobs", "s", *times, "times as fast as 1 job", "µs a page"]
    rows: list[list[Any]] = []
    for (label, jobs), ran in found.items():
        to_ours = [ran.seconds / found[command, jobs].seconds for command in our_commands]
        to_one_job = found[label, 1].seconds / ran.seconds if 1 in all_jobs else ""
        rows.append([label, jobs, ran.seconds, *to_ours, to_one_job, 1e6 * ran.seconds / count])
    return [
        Table(f"{name}: {count:,} pages, {pages.stat().st_size / 1e6:,.0f} MB", columns, rows),
        _where(name, found),
        _memory(name, found, count, work),
    ]


def _memory(name: str, found: dict[tuple[str, int], Ran], count: int, work: Path) -> Table:
    rows: list[list[Any]] = []
    for (command, jobs), ran in found.items():
        if ran.stages:
            fixed_mb = _fixed_mb(work, *command.split()[2:])
            rows.append([command, jobs, ran.peak_mb, fixed_mb, 1024 * (ran.peak_mb - fixed_mb) / count])
    columns = ["", "jobs", "peak MB", "of these fixed", "KB a page"]
    return Table(f"{name}: memory, without workers that read", columns, rows)


@cache
def _fixed_mb(work: Path, *options: str) -> float:
    """The peak of a run on one page. To be called before this process needs memory: the system counts what a process
    has as the peak of those that it starts."""
    return ours(_one_page(work), work / "out", 1, *options).peak_mb


def _one_page(work: Path) -> Path:
    page = work / "one.jsonl"
    page.write_text(json.dumps(ONE_PAGE) + "\n")
    return page


def _where(name: str, found: dict[tuple[str, int], Ran]) -> Table:
    """Where the time goes: rows that add up to the last one."""
    runs = {key: ran for key, ran in found.items() if ran.stages}
    most: dict[str, float] = {}
    for ran in runs.values():
        for stage, took in ran.stages.items():
            most[stage] = max(most.get(stage, 0.0), took)
    rows: list[list[Any]] = [
        [stage, *(ran.stages.get(stage, "") for ran in runs.values())]
        for stage in sorted(most, key=most.__getitem__, reverse=True)
    ]
    rest = "everything else; with 2 jobs, waiting for other processes"
    rows.append([rest, *(ran.seconds - sum(ran.stages.values()) for ran in runs.values())])
    rows.append(["by the clock", *(ran.seconds for ran in runs.values())])
    columns = ["stage", *(f"{command}, {jobs} job{'s' * (jobs > 1)}" for command, jobs in runs)]
    return Table(f"{name}: where the time goes, s", columns, rows)


def start_up(work: Path, rounds: int) -> Table:
    """A run on one page: beside Python itself."""
    page = _one_page(work)
    rows = []
    bare = best([timed([sys.executable, "-c", "pass"]) for _ in range(rounds)])
    rows.append(["python -c pass", bare.seconds, bare.processor])
    for label, options in (("dustream run", ()), ("dustream run --once", ("--once",))):
        ran = best([ours(page, work / "one", 1, *options) for _ in range(rounds)])
        rows.append([label, ran.seconds, ran.processor, ran.peak_mb])
    rows[0].append("")
    return Table("One page", ["command", "s", "processor s", "peak MB"], rows)


def write_real(path: Path, folder: Path) -> int:
    """The pages as JSON lines; how many there are."""
    with path.open("wb") as file:
        return sum(1 for name in REAL for line in read_jsonl_zst(folder / f"{name}.jsonl.zst") if file.write(line))


def write_archive(path: Path, folder: Path) -> int:
    """The pages that have an address as an archive, as crawlers write it; how many there are."""
    count = 0
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for name in REAL:
            for page in map(json.loads, read_jsonl_zst(folder / f"{name}.jsonl.zst")):
                if not str(page.get("url")).startswith("http") or not page.get("html"):
                    continue
                head = StatusAndHeaders("200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1")
                body = BytesIO(page["html"].encode("utf-8", "replace"))
                record = writer.create_warc_record(page["url"], "response", payload=body, http_headers=head)
                writer.write_record(record)
                count += 1
    return count


def write_generated(path: Path, pages: int) -> int:
    subprocess.run(
        [str(BIN / "dustream"), "generate", "--pages", str(pages), "--seed", "5", "--out", str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with path.open("rb") as file:
        return sum(1 for _ in file)


def write_texts(path: Path, work: Path, count: int) -> int:
    """The main text of the pages of a generated web; how many there are."""
    web, urls, texts = work / "web.jsonl", list[str](), list[str]()
    write_generated(web, count * 6 // 5)  # some have no text
    with web.open("rb") as lines:
        for page in map(json.loads, lines):
            text = dustream.extract(page["html"]).text if isinstance(page.get("html"), str) else ""
            if text and len(texts) < count:
                urls.append(page["url"])
                texts.append(text)
    web.unlink()
    pq.write_table(pa.table({"url": urls, "text": texts}), path, row_group_size=ROW_GROUP_ROWS)
    return len(texts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--generated", default="100000,1000000")
    parser.add_argument("--only", default="start,real,archive,generated,texts")
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--result", default="clock", help="the file in bench/results, without its ending")
    parser.add_argument("--no-beautifulsoup", action="store_true")
    parser.add_argument("--busy", action="store_true")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"load before the run: {load:.2f}")
    if load > LOAD_MAX and not args.busy:
        sys.exit(f"the machine is busy (load {load:.2f}): clock times would mean nothing; --busy measures anyway")
    tables: list[Table] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        only, jobs = args.only.split(","), [int(each) for each in args.jobs.split(",")]
        for options in ((), ("--once",)):
            _fixed_mb(work, *options)
        if "start" in only:
            tables.append(start_up(work, max(args.rounds, 5)))
        data, peers = data_folder(), ["rensa"] if args.no_beautifulsoup else ["rensa", "datasketch"]
        if "real" in only and data is not None:
            pages = work / "real.jsonl"
            tables += compared("Real pages, JSON lines", pages, write_real(pages, data), args.rounds, peers, work, jobs)
            pages.unlink()
        if "archive" in only and data is not None:
            pages = work / "real.warc.gz"
            tables += compared("Real pages, WARC", pages, write_archive(pages, data), args.rounds, [], work, jobs)
            pages.unlink()
        for count in map(int, args.generated.split(",")) if "generated" in only else ():
            pages = work / f"generated-{count}.jsonl"
            found = write_generated(pages, count)
            tables += compared(f"Generated web of {count:,}, JSON lines", pages, found, 1, ["rensa"], work, jobs)
            pages.unlink()
        if "texts" in only:
            texts = work / "texts.parquet"
            with ProcessPoolExecutor(1) as apart:  # its memory would count as that of the processes started later
                found = apart.submit(write_texts, texts, work, args.texts).result()
            tables += compared("Texts, Parquet", texts, found, 1, peers, work, jobs, (DEDUPE, *RUN))
    for table in tables:
        print(f"\n{table.title}\n\n{table.markdown()}")
    write_result(args.result, tables)


if __name__ == "__main__":
    main()
