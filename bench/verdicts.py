"""Verdicts on every collection of real pages: python bench/verdicts.py OUT [--before FOLDER] [--sample 10]

Runs `dustream run --once` on each collection, with results in OUT/COLLECTION; results that are there already are used
as they are. For each collection the script counts exact and near duplicates, those whose visible text has little in
common with their winner's, and on sites of one template those whose body elements differ: less than .7 in common,
and neither within the other. With --before, a folder with results of another version of the code, it also counts the
verdicts that changed. Samples of both are printed for reading.

A page that was fetched several times is compared as it was in the fetch that its verdict is about. Pages come from the
folder DUSTREAM_DATA; the figures go to bench/results/verdicts.json.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from extractors import COLLECTIONS, DUSTREAM, TIMES
from main_text_truth import BODIES, body_range
from pages import data_folder, read_jsonl_zst
from result_files import Table, write_result

from dustream.core.text.scan import scan
from dustream.core.text.shingles import common_shingles, distinct_shingles, jaccard
from dustream.core.text.tokens import token_hashes

LITTLE = 0.3  # of the visible text in common
BODY_LITTLE = 0.7  # of the body elements in common
BODY_WITHIN = 0.95  # of the smaller body element in the larger one
DUPLICATE = ("exact", "near")


class Verdict(NamedTuple):
    relation: str
    winner: str
    fetched_ms: int


Verdicts = dict[str, Verdict]


def results_in(folder: Path, name: str, pages: Path) -> Path:
    """The results of a collection, computed unless they are there."""
    out = folder / name
    if not (out / "summary.json").exists():
        mapped = ["--map", f"fetched_at={TIMES[pages.name]}"] if pages.name in TIMES else []
        subprocess.run([DUSTREAM, "run", str(pages), "--once", "--quiet", "--out", str(out), *mapped], check=True)
    return out


def verdicts(folder: Path) -> Verdicts:
    """The relation and winner of each duplicate; other URLs are `kept` and their own winner."""
    rows = (msgspec.json.decode(line) for line in (folder / "status.jsonl").read_bytes().splitlines())
    return {
        row["url"]: Verdict(row["relation"] or "kept", row["winner"] or row["url"], row["version"])
        for row in rows
        if row["role"] in ("duplicate", "winner", "unique", "held")
    }


def _fetched_ms(row: dict[str, Any]) -> int:
    time = row.get("t") or row.get("fetched_at")
    return round(datetime.fromisoformat(time).timestamp() * 1000) if time else 0


class Visible:
    """The shingles of pages' visible texts, each computed once."""

    def __init__(self, path: Path, found: list[Verdicts]) -> None:
        wanted = {(url, each[url].fetched_ms) for each in found for url in each}
        self._pages: dict[tuple[str, int], str] = {}
        for row in map(msgspec.json.decode, read_jsonl_zst(path)):
            if row.get("html") and (key := (row["url"], _fetched_ms(row))) in wanted:
                self._pages[key] = row["html"]
        self._sets: dict[tuple[str, int], Any] = {}

    def similarity(self, found: Verdicts, first: str, second: str) -> float:
        return jaccard(self._shingles(first, found), self._shingles(second, found))

    def _shingles(self, url: str, found: Verdicts) -> Any:
        key = (url, found[url].fetched_ms)
        if key not in self._sets:
            self._sets[key] = _visible_shingles(self._pages[key])
        return self._sets[key]

    def bodies(self, name: str, found: Verdicts, pair: tuple[str, str]) -> list[Any]:
        """The shingles of the body elements of the pages that have one."""
        pages = [self._pages[url, found[url].fetched_ms] for url in pair]
        ranges = [body_range(page, name) for page in pages]
        markups = [page[span[0] : span[1]] for page, span in zip(pages, ranges, strict=True) if span is not None]
        return [_visible_shingles(f"<body>{markup}</body>") for markup in markups]


def _visible_shingles(markup: str) -> Any:
    return distinct_shingles(token_hashes(scan(markup, mode="full").utf8))


def differ(one: Any, other: Any) -> bool:
    """Whether two body elements have little in common and neither is within the other."""
    within = common_shingles(one, other) / max(1, min(one.size, other.size))
    return jaccard(one, other) < BODY_LITTLE and within < BODY_WITHIN


def file_name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def judged(name: str, found: Verdicts, visible: Visible, sample: int) -> list[Any]:
    """The row of a collection: duplicates, and how many have little visible text in common with their winner."""
    pairs = [(url, each.winner) for url, each in found.items() if each.relation in DUPLICATE]
    apart = [pair for pair in pairs if visible.similarity(found, *pair) < LITTLE]
    print(f"{name}: {len(pairs)} exact or near, {len(apart)} with less than {LITTLE} of the visible text in common")
    for url, winner in random.Random(1).sample(apart, min(sample, len(apart))):
        print(f"  {visible.similarity(found, url, winner):.2f} {url} = {winner}")
    counts = Counter(each.relation for each in found.values())
    elsewhere = sum(file_name(url) != file_name(winner) for url, winner in apart)
    by_body = judged_by_body(name, found, visible, pairs, sample) if name in BODIES else ["", "", ""]
    return [name, len(found), counts["exact"], counts["near"], len(apart), elsewhere, *by_body]


def judged_by_body(
    name: str, found: Verdicts, visible: Visible, pairs: list[tuple[str, str]], sample: int
) -> list[int]:
    """How many of the pairs have two body elements, how many of these differ, and of those another file name."""
    bodies = {pair: both for pair in pairs if len(both := visible.bodies(name, found, pair)) == 2}
    different = [pair for pair, both in bodies.items() if differ(*both)]
    elsewhere = [(url, winner) for url, winner in different if file_name(url) != file_name(winner)]
    for url, winner in random.Random(3).sample(elsewhere, min(sample, len(elsewhere))):
        print(f"  body {jaccard(*bodies[url, winner]):.2f} {url} = {winner}")
    return [len(bodies), len(different), len(elsewhere)]


def changes(name: str, before: Verdicts, after: Verdicts, visible: Visible, sample: int) -> list[list[Any]]:
    """A row for each kind of change between two results."""
    changed = [url for url in after if url in before and before[url].relation != after[url].relation]
    for url in random.Random(2).sample(changed, min(sample, len(changed))):
        was, now = before[url], after[url]
        found, winner = (before, was.winner) if was.relation in DUPLICATE else (after, now.winner)
        print(
            f"  {was.relation} → {now.relation}, visible {visible.similarity(found, url, winner):.2f}: {url} / {winner}"
        )
    kinds = Counter((before[url].relation, after[url].relation) for url in changed)
    return [[name, was, now, count] for (was, now), count in kinds.most_common()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--before", type=Path, help="folder with results of another version of the code")
    parser.add_argument("--sample", type=int, default=10, help="how many verdicts of each kind are shown (default 10)")
    args = parser.parse_args()
    data = data_folder()
    if data is None:
        raise SystemExit("no real pages: set DUSTREAM_DATA to their folder")
    rows, changed = list[list[Any]](), list[list[Any]]()
    for name in COLLECTIONS.values():
        path = data / f"{name}.jsonl.zst"
        after = verdicts(results_in(args.out, name, path))
        before = verdicts(args.before / name) if args.before and (args.before / name).exists() else {}
        visible = Visible(path, [before, after])
        rows.append(judged(name, after, visible, args.sample))
        changed += changes(name, before, after, visible, args.sample)
    columns = ["pages", "URLs", "exact", "near", f"below {LITTLE} of the visible text", "of these another file name"]
    columns += ["pairs with body elements", "of these different", "of these another file name"]
    tables = [Table("exact and near verdicts, and how little of the visible text they share", columns, rows)]
    if changed:
        tables.append(Table("changed verdicts", ["pages", "before", "after", "URLs"], changed))
    print(*(table.markdown() for table in tables), sep="\n\n")
    write_result("verdicts", tables, "python bench/verdicts.py OUT" + (" --before FOLDER" if args.before else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
