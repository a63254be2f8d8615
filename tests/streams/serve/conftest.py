"""A planted web, run with a state and with --once, and servers for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from planted_pages import WEB, event, prose, write_events
from served import Served

from dustream.streams.cli.main import main

SESSIONS = 30

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e&amp;'\"{{7*7}}"
HOSTILE_URL = "https://evil.example/<script>alert('url')</script>?q=\"><img src=x onerror=alert(3)>&b={{7*7}}"


def _hostile() -> list[dict[str, object]]:
    """Markup in URLs and texts. The texts are plain, so that nothing removes the markup before it is shown."""
    text = prose("evil")
    return [
        event("evil.example/plain") | {"text": text.replace("evil50 ", f"{EVIL} ")},
        event("evil.example/")
        | {"url": HOSTILE_URL, "text": text.replace("evil50 ", "<b>evil50</b> javascript:alert(4) ")},
    ]


def _ruled() -> list[dict[str, object]]:
    """A site on which ?sid= makes no difference: an active rule."""
    return [
        event(f"shop.example/{kind}/{page}{sid}") | {"text": prose(f"{kind}{page}x")}
        for kind in "abc"
        for page in range(SESSIONS // 3)
        for sid in ("", f"?sid={page}7", f"?sid={page}9")
    ]


def _soft_404() -> list[dict[str, object]]:
    """One text under unrelated URLs."""
    return [
        event(f"soft.example/{name}") | {"text": prose("missing")}
        for name in ("ant", "bee", "cat", "dog", "eel", "fox")
    ]


def _mirror() -> list[dict[str, object]]:
    """Almost all of its pages are those of another site: the site is held."""
    pages = [
        (f"{name}.example/page/{number}", prose(f"mirrored{number}x"))
        for number in range(110)
        for name in ("orig", "mirror-of-it")
    ]
    return [event(url) | {"text": text} for url, text in pages]


WEB_SERVED = [*WEB, *_hostile(), *_ruled(), *_soft_404(), *_mirror()]


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
