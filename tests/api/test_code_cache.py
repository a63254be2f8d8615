"""Where machine code goes if dustream is installed read-only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import dustream
from dustream._code_cache import VARIABLE, choose_code_cache

SOURCE = os.path.dirname(dustream.__file__)


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """dustream cannot be written; the user's folders are under this path. (Root can write everywhere, so the answer
    about the source is made up.)"""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != SOURCE and real(path, mode))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def test_beside_a_source_that_can_be_written_there_is_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    choose_code_cache()
    assert VARIABLE not in os.environ


def test_read_only_source_has_its_code_in_the_cache_folder_of_the_user(read_only: Path) -> None:
    choose_code_cache()
    assert os.environ[VARIABLE] == str(read_only / "home/.cache/dustream")


def test_user_without_a_home_has_a_private_temporary_folder(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null/none")
    choose_code_cache()
    folder = Path(os.environ[VARIABLE])
    assert folder.parent == read_only / "tmp"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_folder_that_others_can_write_is_not_used(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes there could make us run their code."""
    monkeypatch.setenv("HOME", "/dev/null/none")
    hostile = read_only / f"tmp/dustream-{os.getuid()}"
    hostile.mkdir()
    hostile.chmod(0o777)
    choose_code_cache()
    assert VARIABLE not in os.environ


def test_folder_that_the_user_names_is_used(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/somewhere")
    choose_code_cache()
    assert os.environ[VARIABLE] == "/somewhere"
