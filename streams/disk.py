"""The error message when a disk is full or fails: one line that states what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO)


def describe(error: BaseException, where: Path | str | None = None, kept: str = "; what was committed is kept") -> str:
    """An error of the OS, or of a library that passes on its text, as a sentence. `kept`: what is left if the disk is
    full."""
    name = where or getattr(error, "filename", None)
    place = f" in {name}" if name else ""
    if _says(error, _FULL):
        return (
            f"there is no room left{place} ({_reason(error)}): make room, or name another folder, and run the same "
            f"command again{kept}"
        )
    if _says(error, _BROKEN):
        return (
            f"the disk fails{place} ({_reason(error)}): check it, restore what is damaged from a copy, and run the "
            "same command again"
        )
    return f"{name}: {_reason(error)}" if name else _reason(error)


def _says(error: BaseException, numbers: tuple[int, ...]) -> bool:
    if isinstance(error, OSError):
        return error.errno in numbers
    return any(os.strerror(number) in str(error) for number in numbers)


def _reason(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return " ".join(text.split())
