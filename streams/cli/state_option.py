"""--state, for the commands that read what a run knows."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dustream.streams.questions.state import EmbeddedState


def add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        metavar="DIR",
        help="state or result (--out) folder of a run; may be in use by a run",
    )


def open_state(path: Path) -> EmbeddedState:
    """The state to be asked; a word of caution if a run is writing it."""
    from dustream.streams.questions.state import EmbeddedState

    state = EmbeddedState(path)
    if state.in_use:
        print(
            f"dustream: a run is writing {path}: this is what it had committed a moment ago; ask again when it is done",
            file=sys.stderr,
        )
    return state
