"""The planted web, run once, and a way to ask about it as people do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from planted_pages import WEB, write_events

from dustream.streams.cli.main import main

CONFIG = """
partitions = 4
[[markets]]
name = "default"
[[markets]]
name = "mobile"
criteria = ["preferred_host", "url_hash"]
preferred_hosts = ["m.example"]
"""


class Said(NamedTuple):
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def lines(self) -> list[str]:
        return [" ".join(line.split()) for line in self.out.splitlines()]


Ask = Callable[..., Said]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Type a command."""

    def asked(*arguments: object) -> Said:
        code = main(list(map(str, arguments)))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return asked


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result folder of a run over the planted web."""
    folder = tmp_path_factory.mktemp("web")
    config = folder / "dustream.toml"
    config.write_text(CONFIG)
    given = write_events(folder / "web.jsonl", WEB)
    arguments = ["run", given, "--out", folder / "out", "--config", config, "--jobs", 1, "--quiet"]
    assert main(list(map(str, arguments))) == 0
    return folder / "out"
