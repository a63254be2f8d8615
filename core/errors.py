"""The errors dustream raises, and what the operator should do about each.

DustreamError
├── BadInput              the data is wrong: the record is rejected with this text, the others are processed
│   ├── BadEvent          a crawl event that cannot be used (no URL, absurd time, unknown schema version …)
│   └── UnreadableInput   a file or format that cannot be read: convert it, or name the right one
├── BadSetting            a setting or argument is wrong: correct it and run again
├── StateMismatch         the state on disk was made by other settings or another version: use a fresh state
├── Unavailable           a task is moving to another worker or recovering: ask again in a moment
├── DiskFailure           a disk is full or fails: make room or check it, and run the same command again
├── BrokenProgram         a module is missing, compiled code does not fit, memory is exhausted: repair, run again
└── Interrupted           stopped by the user: run the same command again to resume
"""

from __future__ import annotations


class DustreamError(Exception):
    """Base of all errors meant for users; `str(error)` states what to do."""


class BadInput(DustreamError):
    """The data is wrong. The record is rejected and the stream continues."""


class BadEvent(BadInput):
    """A crawl event that cannot be used."""


class UnreadableInput(BadInput):
    """A file or format that cannot be read at all."""


class BadSetting(DustreamError):
    """A setting or argument is wrong."""


class StateMismatch(DustreamError):
    """The state on disk does not fit this program or these settings."""


class Unavailable(DustreamError):
    """What is asked for cannot be read now; it can be in a moment."""


class DiskFailure(DustreamError):
    """A disk is full or fails; everything committed is kept."""


class BrokenProgram(DustreamError):
    """The program itself fails, whatever the input is: no record may be rejected for it."""


class Interrupted(DustreamError):
    """Stopped by the user; completed work is kept."""


def stop_if_fatal(error: Exception) -> None:
    """Called where any error of a handler becomes a dead letter: raise those that are not about the message."""
    if isinstance(error, DustreamError):
        raise error
    if (broken := broken_program(error)) is not None:
        raise broken from error


def broken_program(error: BaseException) -> BrokenProgram | None:
    """The error to report if the program is to blame, not its input."""
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        return BrokenProgram(f"out of memory ({what}): free some, or use fewer --jobs, and run the same command again")
    if isinstance(error, ImportError) or type(error).__module__.partition(".")[0] in ("numba", "llvmlite"):
        folder = __file__.rpartition("errors")[0]
        return BrokenProgram(
            f"the program is damaged ({what}): compiled functions of another version may be left. Delete the files "
            f"*.kernel below {folder}, or install dustream again, and run the same command again"
        )
    return None
