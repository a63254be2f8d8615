"""`dustream status`: what a URL is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.schemas.status import DuplicateStatus

PROBLEMS = {
    "redirect_cut": "the redirects run in a circle, or on for too long",
    "target_gone": "the page it leads to is gone",
    "target_unknown": "the page it leads to was never seen",
}

DESCRIPTION = """\
Tell what a run knows about URLs: their role, group, winner, and the similarity to the winner.
--state is the folder of the state, or the --out folder of a run.
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "status",
        help="tell what a URL is: unique, winner, duplicate, redirect or gone",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="state or result folder of a run")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def state_folder(path: Path) -> Path:
    """The state itself, whether its folder or the result folder around it was named."""
    return path / "state" if (path / "state" / "CURRENT").exists() else path


def run(args: argparse.Namespace) -> int:
    from dustream.core.events import page_identity
    from dustream.schemas.wire import encode
    from dustream.streams.embedded.results import find_status
    from dustream.streams.store.rocks import RocksStore

    store = RocksStore(state_folder(args.state), read_only=True)
    unknown = 0
    for url in args.urls:
        status = find_status(store, page_identity(url))
        if status is None:
            unknown += 1
            print(f"dustream: {url} is not known in {args.state}", file=sys.stderr)
        else:
            print(encode(status).decode() if args.json else describe(status))
    store.close()
    return 1 if unknown else 0


def describe(status: DuplicateStatus) -> str:
    """A status for people."""
    lines = [status.url, f"  role        {status.role}"]
    if status.target is not None:
        lines.append(f"  leads to    {status.target}")
    if status.problem is not None:
        lines.append(f"  problem     {PROBLEMS[status.problem]}")
    if status.winner is not None and status.winner != status.url:
        similarity = "" if status.similarity is None else f", similarity {status.similarity:.4f}"
        lines.append(f"  winner      {status.winner} ({status.relation}{similarity})")
    if status.group is not None:
        lines.append(f"  group       {status.group}")
    lines.append(f"  since       {_time(status.since)}")
    return "\n".join(lines)


def _time(version_ms: int) -> str:
    from datetime import UTC, datetime

    return "unknown" if version_ms == 0 else datetime.fromtimestamp(version_ms / 1000, UTC).isoformat()
