"""Folders that people name for what is written."""

from __future__ import annotations

from pathlib import Path

from dustream.core.errors import BadSetting


def make_folder(path: Path) -> None:
    """The folder, made if it is not there; BadSetting if it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise BadSetting(f"{path} is a file, and a folder is needed: name another") from None
    except OSError as error:
        raise BadSetting(f"the folder {path} cannot be made ({error.strerror}): name another") from None
