"""`dustream settled`: whether all that was published is in the statuses."""

from __future__ import annotations

import argparse
import time
from typing import Any

from dustream.streams.cli.arguments import seconds

POLL_S = 0.5

DESCRIPTION = """\
Tell whether everything published so far has been worked through to the last status, the work that workers do when they
come to rest included. A lag of 0 does not say that: the last statuses of a crawl are written after it.

Exit status 0: it has. 1: not yet. Printed is, by topic, how many records are not handled yet (transaction markers
included), or how many tasks have work left. --wait waits until it has.
"""

EXAMPLES = """\
examples:
  dustream settled
  dustream publish crawl.warc.gz && dustream settled --wait && dustream watch --from-beginning
  dustream settled --wait --timeout 600 --json
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "settled",
        help="tell whether all that was published is in the statuses",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser)
    parser.add_argument("--wait", action="store_true", help="wait until it is so")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="with --wait: give up after so many seconds")
    parser.add_argument("--json", action="store_true", help="print what is left as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import json

    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.assembly import planned_topology
    from dustream.streams.kafka.maps import read_settings_of
    from dustream.streams.kafka.settled import unsettled

    cluster, application = read_application(args)
    topology = planned_topology(read_settings_of(cluster, application), cluster, application)
    deadline_s = None if args.timeout is None else time.monotonic() + args.timeout
    left = unsettled(cluster, application, topology)
    while left and args.wait and (deadline_s is None or time.monotonic() < deadline_s):
        time.sleep(POLL_S)
        left = unsettled(cluster, application, topology)
    if args.json:
        print(json.dumps({"settled": not left, "left": left}))
    else:
        print(f"not settled: {_described(left)}" if left else "settled: all that was published is in the statuses")
    return 1 if left else 0


def _described(left: dict[str, int]) -> str:
    return ", ".join(f"{count:,} in {topic}" for topic, count in sorted(left.items()))
