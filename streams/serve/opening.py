"""Opens what a folder has: a state, or the files of a --once result."""

from __future__ import annotations

from pathlib import Path

from dustream.streams.questions.state import state_folder
from dustream.streams.serve.once_source import OnceSource
from dustream.streams.serve.source import LookupSource
from dustream.streams.serve.state_source import StateSource


def open_source(path: Path) -> LookupSource:
    if not (state_folder(path) / "CURRENT").exists() and (path / "status.jsonl").exists():
        return OnceSource(path)
    return StateSource(path)
