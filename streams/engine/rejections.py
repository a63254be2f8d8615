"""Storage of rejected records. The first ones of each input are kept whole; the others are counted by reason, so that
an input with only bad records costs neither memory nor disk."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, field

from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.store.base import Change, Store

kept_per_input_max: Final = 10_000
reasons_max: Final = 50  # per input; further reasons are counted together
reason_chars_max: Final = 120
OTHER_REASONS: Final = "for other reasons"
REJECTED_PREFIX: Final = b"meta/rejected/"

_PARTICULAR: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+""")


class RejectedRow(Struct):
    """For one input: how many rejected records are kept, how many more there were by reason, and whether any record was
    used."""

    kept: int = 0
    more: dict[str, int] = field(default_factory=dict)
    used: bool = False


class Rejections:
    """The rejections of all inputs of a state."""

    def __init__(self, store: Store) -> None:
        decoder = msgspec.json.Decoder(RejectedRow)
        self._rows = {_path(key): decoder.decode(row) for key, row in store.scan(REJECTED_PREFIX)}

    def keep(self, path: str, reason: str) -> bool:
        """Count a rejected record, and return whether it is kept whole."""
        row = self._rows.setdefault(path, RejectedRow())
        if row.kept < kept_per_input_max:
            row.kept += 1
            return True
        kind = kind_of(reason)
        if kind not in row.more and len(row.more) >= reasons_max:
            kind = OTHER_REASONS
        row.more[kind] = row.more.get(kind, 0) + 1
        return False

    def use(self, path: str) -> None:
        """Note that a record of the input was used."""
        self._rows.setdefault(path, RejectedRow()).used = True

    def nothing_used(self, path: str) -> bool:
        """Whether every record read from an input was rejected."""
        row = self._rows.get(path)
        return row is not None and not row.used and row.kept > 0

    def change(self, path: str) -> Change:
        """The row with the counts of an input."""
        key = REJECTED_PREFIX + path.encode(errors="surrogateescape")
        return key, msgspec.json.encode(self._rows.get(path, RejectedRow()))

    def summaries(self) -> list[DeadLetter]:
        """For each input, the number of rejected records that are not kept, by reason."""
        return [letter for path in sorted(self._rows) for letter in self.summaries_of(path)]

    def summaries_of(self, path: str) -> list[DeadLetter]:
        row = self._rows.get(path, RejectedRow())
        return [
            DeadLetter(source=path, position=-1, reason=f"{count} more records, not kept individually: {reason}")
            for reason, count in sorted(row.more.items())
        ]

    @property
    def not_kept(self) -> int:
        return sum(sum(row.more.values()) for row in self._rows.values())


@lru_cache(maxsize=1024)
def kind_of(reason: str) -> str:
    """A reason without the details of one record: numbers and quoted text."""
    return _PARTICULAR.sub("…", reason)[:reason_chars_max]


def _path(key: bytes) -> str:
    return key[len(REJECTED_PREFIX) :].decode(errors="surrogateescape")
