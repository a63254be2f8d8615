"""A planted web, run with a state and with --once, and servers for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from planted_pages import write_events
from served import Served
from served_web import WEB_SERVED

from dustream.streams.cli.main import main


def _run(folder: Path, *more: str) -> Path:
    given = write_events(folder / "web.jsonl", WEB_SERVED)
    assert main(["run", str(given), "--out", str(folder / "out"), "--jobs", "1", "--quiet", *more]) == 0
    return folder / "out"


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def once_result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("once"), "--once")


@pytest.fixture(scope="session")
def served(result: Path) -> Iterator[Served]:
    with Served(result) as server:
        yield server


@pytest.fixture(scope="session")
def once_served(once_result: Path) -> Iterator[Served]:
    with Served(once_result) as server:
        yield server


@pytest.fixture(scope="session", params=["state", "once"])
def either(request: pytest.FixtureRequest) -> Served:
    """What both kinds of source must answer alike."""
    server: Served = request.getfixturevalue("served" if request.param == "state" else "once_served")
    return server


class Said(NamedTuple):
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Type a command."""

    def asked(*arguments: object) -> Said:
        code = main(list(map(str, arguments)))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return asked
