"""Operators' decisions on rules, as the rules processor stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from dustream.schemas.rules import Rewrite, RuleVerdict


class RuleDecisionRow(Struct, frozen=True, array_like=True):
    """Table `rule_decisions`, by site and rule id: an operator's latest decision; None: it is withdrawn."""

    version: int
    verdict: RuleVerdict | None
    rewrite: Rewrite

    @property
    def weight(self) -> tuple[int, int]:
        """The later decision counts; of two with one timestamp, the more careful one."""
        return self.version, _CARE[self.verdict]


RuleDecisions = Mapping[str, RuleDecisionRow]
"""By rule id."""
NO_DECISIONS: Final[RuleDecisions] = {}

_CARE: Final[dict[RuleVerdict | None, int]] = {"pin": 0, "accept": 1, None: 2, "reject": 3}
