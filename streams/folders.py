"""Output folders named by the user."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a folder that exists; BadSetting if another process holds it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadSetting(f"another run writes to {path}: wait for it to end, or name another folder") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
