"""`dustream settled`: whether everything published is in the statuses."""

from __future__ import annotations

import argparse
import time
from typing import Any

from dustream.streams.cli.arguments import seconds

POLL_S = 0.5

DESCRIPTION = """\
Check whether everything published so far is in the statuses, including work that workers do at rest. A lag of 0 does
not mean that: the last statuses of a crawl are written after it.

Exit status 0: it is. 1: not yet. Prints, by topic, the records not handled yet (transaction markers included) and the
tasks with work left. --wait waits until nothing is left.
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
        help="check whether everything published is in the statuses",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser)
    parser.add_argument("--wait", action="store_true", help="wait until everything is in the statuses")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="with --wait: give up after this many seconds")
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
        print(f"not settled: {_described(left)}" if left else "settled: everything published is in the statuses")
    return 1 if left else 0


def _described(left: dict[str, int]) -> str:
    return ", ".join(f"{count:,} in {topic}" for topic, count in sorted(left.items()))
