"""`dustream watch`: follow the statuses as they are written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.schemas.status import DuplicateStatus

DESCRIPTION = """\
Print every status as the workers write it, until interrupted. A later status of a URL replaces an earlier one.
"""

EXAMPLES = """\
examples:
  dustream watch
  dustream watch --from-beginning --until-end --json > statuses.jsonl
  kcat -b 127.0.0.1:9092 -C -t dustream.duplicate.status -X isolation.level=read_committed
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "watch",
        help="follow the statuses on Kafka",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser)
    parser.add_argument("--from-beginning", action="store_true", help="begin with the statuses that are already there")
    parser.add_argument("--until-end", action="store_true", help="stop at the end, do not wait for more")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.schemas.wire import encode
    from dustream.streams.cli.terminal import end_with_reader
    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.client import Client

    read_application(args)
    end_with_reader()
    client = Client(args.bootstrap, args.name)
    try:
        for status in client.statuses(from_beginning=args.from_beginning or args.until_end, follow=not args.until_end):
            print(encode(status).decode() if args.json else line(status), flush=not args.until_end)
    except KeyboardInterrupt:
        return 0  # that is how one stops watching
    return 0


def line(status: DuplicateStatus) -> str:
    """A status in one line."""
    from dustream.streams.cli.terminal import shown

    text = f"{status.role:<9} {shown(status.url)}"
    if status.winner is not None and status.winner != status.url:
        similarity = "" if status.similarity is None else f" ({status.similarity:.4f})"
        text += f"  of {shown(status.winner)}{similarity}"
    return text
