"""Output folders named by the user."""

from __future__ import annotations

from pathlib import Path

from dustream.core.errors import BadSetting


def make_folder(path: Path) -> None:
    """Create the folder if it does not exist; BadSetting if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise BadSetting(f"{path} is a file, not a folder: name another") from None
    except OSError as error:
        raise BadSetting(f"the folder {path} cannot be created ({error.strerror}): name another") from None
