"""What a change does to verdicts: python bench/verdicts.py PAGES BEFORE AFTER [--sample 10]

BEFORE and AFTER are results of `dustream run --once PAGES`. Of each: how many URLs are exact or near duplicates, and
for how many of them the visible text has hardly anything in common with their winner's. Then the verdicts that changed,
by kind, and a sample of them to read.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from pages import read_jsonl_zst

from dustream.core.text.scan import scan
from dustream.core.text.shingles import distinct_shingles, jaccard
from dustream.core.text.tokens import token_hashes

LITTLE = 0.3  # of the visible text in common


def verdicts(folder: Path) -> dict[str, tuple[str, str]]:
    """Of each URL that is a duplicate, how and of which one; of the others that they are kept."""
    rows = (msgspec.json.decode(line) for line in (folder / "status.jsonl").read_bytes().splitlines())
    return {row["url"]: (row["relation"] or "kept", row["winner"] or row["url"]) for row in rows}


class Visible:
    """The shingles of pages' visible texts, each made once."""

    def __init__(self, path: Path, wanted: set[str]) -> None:
        rows = (msgspec.json.decode(line) for line in read_jsonl_zst(path))
        self._pages = {row["url"]: row["html"] for row in rows if row.get("url") in wanted and row.get("html")}
        self._sets: dict[str, Any] = {}

    def similarity(self, first: str, second: str) -> float:
        sets = []
        for url in (first, second):
            if url not in self._sets:
                text = scan(self._pages.get(url, ""), mode="full").utf8
                self._sets[url] = distinct_shingles(token_hashes(text))
            sets.append(self._sets[url])
        return jaccard(*sets)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--sample", type=int, default=10, help="how many changed verdicts are shown (default 10)")
    args = parser.parse_args()
    before, after = verdicts(args.before), verdicts(args.after)
    duplicates = {
        name: [(url, winner) for url, (relation, winner) in found.items() if relation in ("exact", "near")]
        for name, found in (("before", before), ("after", after))
    }
    wanted = {url for pairs in duplicates.values() for pair in pairs for url in pair}
    visible = Visible(args.pages, wanted)
    for name, pairs in duplicates.items():
        apart = [pair for pair in pairs if visible.similarity(*pair) < LITTLE]
        print(f"{name}: {len(pairs)} exact or near, visible text below {LITTLE} in common: {len(apart)}")
        for url, winner in random.Random(1).sample(apart, min(args.sample, len(apart))):
            print(f"  {visible.similarity(url, winner):.2f} {url} = {winner}")
    changed = [url for url in after if url in before and before[url][0] != after[url][0]]
    kinds = Counter((before[url][0], after[url][0]) for url in changed)
    others = sum(url in before and before[url][0] == after[url][0] and before[url] != after[url] for url in after)
    print(f"changed: {len(changed)} of {len(after)}; {others} others have another winner")
    for (was, now), count in kinds.most_common():
        print(f"  {was} → {now}: {count}")
    for url in random.Random(2).sample(changed, min(args.sample, len(changed))):
        was, now = before[url], after[url]
        winner = was[1] if was[0] in ("exact", "near") else now[1]
        print(f"  {was[0]} → {now[0]}, visible {visible.similarity(url, winner):.2f}: {url} / {winner}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
