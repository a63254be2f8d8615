"""Where compiled machine code is kept if it cannot be kept beside the source: dustream is installed read-only, or for
all users of a machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

VARIABLE = "NUMBA_CACHE_DIR"


def choose_code_cache() -> None:
    """Beside the source, if that can be written; otherwise in the user's cache folder, or in a temporary one."""
    if VARIABLE in os.environ or os.access(os.path.dirname(__file__), os.W_OK):
        return
    for folder in _candidates():
        if _is_ours(folder):
            os.environ[VARIABLE] = folder  # processes that this one starts take it over
            return


def _candidates() -> Iterator[str]:
    yield os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dustream")
    from tempfile import gettempdir

    yield os.path.join(gettempdir(), f"dustream-{os.getuid()}")


def _is_ours(folder: str) -> bool:
    """Whether it can be written, and by nobody else: machine code is loaded from it."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return False
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write and os.access(folder, os.W_OK)
    )
