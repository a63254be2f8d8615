"""`dustream compare`: which URLs changed their status between two outcomes, and why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.streams.compare import Comparison

DESCRIPTION = """\
Compare two outcomes: which URLs changed their status, and why. Use it before you switch to other settings.

BEFORE and AFTER are each a status.jsonl, the --out folder of a run, or the name of an application on Kafka.
Exit status: 0 if they are equal, 1 if not, 2 if they could not be compared.
"""

EXAMPLES = """\
examples:
  dustream compare dustream trial
  dustream compare result-main result-full --json | head
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compare",
        help="compare two outcomes: which URLs changed their status, and why",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", metavar="BEFORE")
    parser.add_argument("after", metavar="AFTER")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="the Kafka cluster (default: DUSTREAM_BOOTSTRAP, or 127.0.0.1:9092)"
    )
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="changes to print as text (default 50; 0: all)"
    )
    parser.add_argument("--json", action="store_true", help="every change as a JSON line, then the counts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.core.errors import DustreamError
    from dustream.streams.cli.terminal import shown
    from dustream.streams.compare import compare, read_outcome

    try:
        before, after = read_outcome(args.before, args.bootstrap), read_outcome(args.after, args.bootstrap)
    except DustreamError as error:
        print(f"dustream: {error}", file=sys.stderr)
        return 2
    counts, changes = compare(before, after)
    if args.json:
        for change in changes:
            print(msgspec.json.encode(change).decode())
        print(msgspec.json.encode(counts).decode())
        return 1 if changes else 0
    first = changes[: args.limit] if args.limit else changes
    for change in first:
        print(f"{change.kind:<11} {shown(change.url)}\n            {shown(change.why)}")
    if len(first) < len(changes):
        print(f"… and {len(changes) - len(first):,} more (--limit 0 shows all)")
    print(describe(counts))
    return 1 if changes else 0


def describe(counts: Comparison) -> str:
    changed = ", ".join(f"{count:,} {kind}" for kind, count in counts.changed.items()) or "none"
    return (
        f"{counts.same:,} URLs are the same; changed: {changed}\n"
        f"kept: {counts.kept_before:,} of {counts.before:,} before, {counts.kept_after:,} of {counts.after:,} after"
    )
