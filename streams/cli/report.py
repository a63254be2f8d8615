"""`dustream report`: a state as one static page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dustream.streams.cli.state_option import add_state

DESCRIPTION = """\
Write what a state knows as one HTML file that works offline: the overview, the first 20 groups by size, by change, by
lowest inner similarity and by most different URLs, the threshold, and the URL rules. For 20 groups, the texts are read
again from the inputs and compared. The result of `run --once` has neither matches nor texts.

`dustream serve` shows the same for all groups and URLs, and can be searched.
"""

EXAMPLES = """\
examples:
  dustream report --state result --out report.html
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="write a state as one HTML file that works offline",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_state(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import os

    from dustream.streams.serve.lookups import Lookups
    from dustream.streams.serve.opening import open_source
    from dustream.streams.serve.report import write_report

    source = open_source(args.state)
    try:
        text = write_report(Lookups(source))
    finally:
        source.close()
    part = args.out.with_name(args.out.name + ".part")
    part.write_bytes(text.encode(errors="replace"))
    os.replace(part, args.out)
    print(f"{args.out} ({len(text) / 1e6:.1f} MB)")
    return 0
