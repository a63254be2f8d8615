"""`dustream compile`: machine code ahead of time."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

DESCRIPTION = """\
Compile what reads pages, compares them and learns rules into machine code, so that no later run has to. This takes less
than a minute on two cores; what is compiled already is checked in a few seconds. Other commands compile what they need
when they are first used; with --all, that is compiled, too.

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
    parser.add_argument("--all", action="store_true", help="also compile what only other commands than run need")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    say = partial(print, file=sys.stderr, flush=True)
    from dustream.streams.warm_up import MORE_PARTS, PARTS, warm_up

    parts = PARTS | MORE_PARTS if args.all else PARTS
    say(f"compiling, once, with all cores: {', '.join(parts)} ...")
    print(f"done in {warm_up(lambda part: say(f'  {part}'), all_commands=args.all):.0f} s")
    return 0
