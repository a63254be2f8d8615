"""What tests of several parts use."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests get their markers by where they are."""
    for item in items:
        for folder, marker in (("streams/kafka", "kafka"), ("model", "slow"), ("streams/embedded", "slow")):
            if item.path.is_relative_to(TESTS / folder):
                item.add_marker(marker)
