"""An operator's words on a group: which of them counts, in whatever order they come."""

from __future__ import annotations

import math

from dustream.core.pages.rows import DecisionRow
from dustream.schemas.pages import Decision


def weight(word: Decision | DecisionRow) -> tuple[int, float]:
    """Of two words the later one counts; of two of one time the more careful one."""
    return word.version, math.inf if word.pass_from is None else word.pass_from
