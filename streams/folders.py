"""Output folders named by the user."""

from __future__ import annotations

import tempfile
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


def check_writable(path: Path) -> None:
    """BadSetting if no file can be written to the folder. It is not there afterwards if it was not before."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        make_folder(path)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise BadSetting(f"the folder {path} cannot be written to ({error.strerror}): name another") from None
    finally:
        for each in missing:
            if each.is_dir():
                each.rmdir()
