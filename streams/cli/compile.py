"""`dustream compile`: machine code ahead of time."""

from __future__ import annotations

import argparse
import sys
from typing import Any

DESCRIPTION = """\
Compile what reads pages, compares them and learns rules into machine code, so that no later command has to. This takes
a minute or two; what is compiled already is checked in a few seconds.

The code is kept beside the source if that can be written, else in the user's cache folder, else in a private temporary
one. NUMBA_CACHE_DIR names another folder.
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compile",
        help="compile machine code ahead of time",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    print("compiling the hot loops, once (a minute or two) ...", file=sys.stderr, flush=True)
    from dustream.streams.warm_up import warm_up

    print(f"done in {warm_up():.0f} s")
    return 0
