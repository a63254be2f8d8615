"""Python examples and commands in the documentation work as they are written."""

from __future__ import annotations

import doctest
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from dustream.streams.cli.main import build_parser

ROOT = Path(__file__).parents[2]
READERS_PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for kind in ("tutorial", "howto", "explanation") for path in (ROOT / "docs" / kind).glob("*.md")),
]
WITH_EXAMPLES = [path for path in READERS_PAGES if path.exists() and ">>> " in path.read_text()]


def commands() -> list[str]:
    found = []
    for path in READERS_PAGES:
        text = path.read_text().replace("\\\n", " ")
        found += re.findall(r"^    (?:\$ |\.venv/bin/)?dustream ((?!\.).*)", text, re.M)
    found += re.findall(r"^    command: (.*)", (ROOT / "docker-compose.yml").read_text(), re.M)
    for block in re.findall(r"```text\nexamples:\n(.*?)```", (ROOT / "docs/reference/commands.md").read_text(), re.S):
        found += [line for each in block.splitlines() for line in re.findall(r"(?:^  |; )dustream ([^;|]*)", each)]
    return [line.removesuffix("&") for line in found]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_examples_run_as_shown(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed


def test_examples_and_commands_are_found() -> None:
    assert ROOT / "README.md" in WITH_EXAMPLES and ROOT / "docs/tutorial/corpus.md" in WITH_EXAMPLES
    assert {line.split()[0] for line in commands()} >= {"broker", "topics", "worker", "publish", "replay", "run", "why"}


@pytest.mark.parametrize("line", commands())
def test_command_is_understood(line: str) -> None:
    words = [word for word in shlex.split(line, comments=True) if word != "…"]
    for end in ("|", "<", ">", ";", "&&"):
        words = words[: words.index(end)] if end in words else words
    assert callable(build_parser().parse_args(words).run)


def test_image_has_every_package() -> None:
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].values()
    copied = re.findall(r"^COPY (\S+) \1$", (ROOT / "Dockerfile").read_text(), re.M)
    assert sorted(copied) == sorted(folders)
