"""Deduplicate a text corpus in Parquet.

    python examples/dedupe_parquet.py corpus.parquet kept.parquet

Needs a column `text`. Writes the rows to keep, and prints the largest groups of near-duplicates.
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

import dustream


def main(corpus: str, kept: str) -> None:
    table = pq.read_table(corpus)
    found = dustream.dedupe(table, text="text", threshold=0.9, prefer="longest")
    pq.write_table(found.kept(), kept)
    print(f"{len(found)} texts, {found.kept().num_rows} kept")
    largest = sorted(found.clusters(), key=lambda cluster: -len(cluster.members))[:5]
    for cluster in largest:
        print(f"{len(cluster.members)} texts like row {cluster.group}, kept: {cluster.winners}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
