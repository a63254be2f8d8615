"""A state that another version of the program, or other settings, made is refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dustream.core import settings as settings_module
from dustream.core.errors import StateMismatch
from dustream.core.settings import Settings
from dustream.streams.engine.states import open_state


def test_signatures_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_state(tmp_path / "state", Settings()).close()
    open_state(tmp_path / "state", Settings()).close()
    monkeypatch.setattr(settings_module, "SIGNATURE_VERSION", settings_module.SIGNATURE_VERSION + 1)
    with pytest.raises(StateMismatch, match="signatures of another version of this program: use a fresh --state"):
        open_state(tmp_path / "state", Settings())


def test_other_settings_are_named_and_no_others(tmp_path: Path) -> None:
    open_state(tmp_path / "state", Settings(threshold=0.8)).close()
    with pytest.raises(StateMismatch, match=r"other settings \(threshold was 0.8\): use the same"):
        open_state(tmp_path / "state", Settings())
