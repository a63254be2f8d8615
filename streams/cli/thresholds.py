"""`dustream thresholds`: how many rows go at which threshold."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Tabulate how many rows would go at thresholds from .50 to .95, by the similarities that a run has stored.

DIR is the --out folder of `dustream dedupe` or `dustream run`. A row counts at a threshold if the similarity to its
winner is at least that. Below the threshold of the run nothing is stored: deduplicate with --threshold 0.5 to see all.
At another threshold some rows have another winner, so a run with it may differ by a few rows.
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "thresholds",
        help="tabulate how many rows go at which threshold",
        description=DESCRIPTION,
        epilog="examples:\n  dustream thresholds result\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="--out folder of `dedupe` or `run`")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.streams.cli.terminal import print_json
    from dustream.streams.dedupe.pairs import StoredOutcome

    outcome = StoredOutcome(args.folder)
    rows = outcome.thresholds()
    if args.json:
        print_json({"rows": outcome.rows, "threshold": outcome.threshold, "thresholds": rows})
        return 0
    print(f"{'threshold':>9}  {'dropped':>12}  {'of all':>6}")
    for row in rows:
        known = "not stored" if row.dropped is None else f"{row.dropped:,}"
        print(f"{row.threshold:>9.2f}  {known:>12}  {'' if row.share is None else f'{row.share:.1%}':>6}")
    return 0
