"""The errors dustream raises, and what the operator should do about each.

DustreamError
├── BadInput              the data is wrong: the record is rejected with this text, the others are processed
│   ├── BadEvent          a crawl event that cannot be used (no URL, absurd time, unknown schema version …)
│   └── UnreadableInput   a file or format that cannot be read: convert it, or name the right one
├── BadSetting            a setting or argument is wrong: correct it and run again
├── StateMismatch         the state on disk was made by other settings or another version: use a fresh state
├── DiskFailure           a disk is full or fails: make room or check it, and run the same command again
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


class DiskFailure(DustreamError):
    """A disk is full or fails; everything committed is kept."""


class Interrupted(DustreamError):
    """Stopped by the user; completed work is kept."""
