"""`dustream status`: what a URL is."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.state_option import add_state, open_state
from dustream.streams.cli.terminal import print_json, shown

if TYPE_CHECKING:
    from dustream.schemas.status import DuplicateStatus, MarketStatus
    from dustream.streams.questions.state import State

DESCRIPTION = """\
Tell what a run knows about URLs: their role, group, winner, and the similarity to the winner; with several markets,
for each of them. `dustream why URL` tells the reasons.
"""

EXAMPLES = """\
examples:
  dustream status https://example.com/page --state result
  dustream status https://example.com/a https://example.com/b --state result --json
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "status",
        help="tell what a URL is: unique, winner, duplicate, redirect or gone",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", nargs="+", metavar="URL")
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.events import page_identity

    unknown = 0
    with open_state(args.state) as state:
        for url in map(page_identity, args.urls):
            status = state.status(url)
            if status is None:
                unknown += 1
                print(_unknown(state, url, str(args.state)), file=sys.stderr)
            elif args.json:
                print_json(status)
            else:
                print(describe(status))
    return 1 if unknown else 0


def _unknown(state: State, url: str, folder: str) -> str:
    from dustream.streams.questions.near_urls import near_urls

    near = near_urls(state, url)
    meant = f"; known are {shown(', '.join(near))}" if near else ""
    return f"dustream: {shown(url)} is not known in {folder}{meant}"


def describe(status: DuplicateStatus) -> str:
    """A status for people."""
    from dustream.streams.questions.criteria import time_shown
    from dustream.streams.questions.one_page import PROBLEMS

    lines = [shown(status.url), f"  role        {status.role}"]
    if status.target is not None:
        lines.append(f"  leads to    {shown(status.target)}")
    if status.problem is not None:
        lines.append(f"  problem     {PROBLEMS[status.problem]}")
    if status.markets is not None:
        lines += [f"  in market   {shown(name)}: {_verdict(status.url, each)}" for name, each in status.markets.items()]
    elif status.winner is not None and status.winner != status.url:
        lines.append(f"  winner      {_winner(status)}")
    if status.group is not None:
        lines.append(f"  group       {shown(status.group)}")
    lines.append(f"  since       {time_shown(status.since)}")
    return "\n".join(lines)


def _verdict(url: str, verdict: MarketStatus) -> str:
    if verdict.winner is None or verdict.winner == url:
        return verdict.role
    return f"{verdict.role}, winner {_winner(verdict)}"


def _winner(verdict: DuplicateStatus | MarketStatus) -> str:
    similarity = "" if verdict.similarity is None else f", similarity {verdict.similarity:.4f}"
    return f"{shown(verdict.winner or '')} ({verdict.relation}{similarity})"
