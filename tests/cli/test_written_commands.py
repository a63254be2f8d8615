"""The commands that the runbook and the compose file name are understood as they are written there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dustream.streams.cli.main import build_parser

ROOT = Path(__file__).parents[2]


def written_commands() -> list[str]:
    runbook = re.findall(r"^    dustream (.*)", (ROOT / "docs/howto/run-workers.md").read_text(), re.M)
    compose = re.findall(r"/bin/dustream (.*)", (ROOT / "docker-compose.yml").read_text())
    return [line.removesuffix("&") for line in (*runbook, *compose)]


def test_some_are_found() -> None:
    assert {line.split()[0] for line in written_commands()} >= {"broker", "topics", "worker", "publish", "replay"}


@pytest.mark.parametrize("line", written_commands())
def test_command_is_understood(line: str) -> None:
    words = [word for word in shlex.split(line, comments=True) if word != "…"]
    assert callable(build_parser().parse_args(words).run)
