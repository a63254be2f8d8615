"""The examples in the docstrings of the public API do what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import dustream

MODULES = (
    "dustream",
    "dustream._deduped",
    "dustream._deduped_files",
    "dustream._pages",
    "dustream._rules",
    "dustream._state",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_shown(name: str, tmp_path: Path) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(
        module, extraglobs={"dustream": dustream, "folder": tmp_path / "result"}, optionflags=doctest.ELLIPSIS
    )
    assert result.attempted and not result.failed


def test_every_public_function_has_an_example() -> None:
    functions = {
        dustream.sign, dustream.extract, dustream.dedupe, dustream.dedupe_files, dustream.open, dustream.normalize,
        dustream.learn,
    }  # fmt: skip
    assert [each.__name__ for each in functions if ">>>" not in (each.__doc__ or "")] == []
