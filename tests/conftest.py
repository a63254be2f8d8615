"""What tests of several parts use."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def command_seconds() -> Callable[..., float]:
    """How long a command takes, the fastest of some runs, in processor seconds: the clock also tells what else the
    machine does."""

    def fastest(*arguments: object, runs: int = 3) -> float:
        return min(_child_seconds(arguments) for _ in range(runs))

    return fastest


def _child_seconds(arguments: tuple[object, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
