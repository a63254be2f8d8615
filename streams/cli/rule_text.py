"""Rules for people, as several commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dustream.schemas.rules import UrlRule


def example_lines(rule: UrlRule) -> list[str]:
    """URLs that speak for a rule, and those that speak against it, each with what it becomes."""
    from dustream.streams.cli.terminal import shown

    examples = [("for", pair) for pair in rule.examples] + [("against", pair) for pair in rule.against]
    return [f"      {word:8}{shown(before)}\n           -> {shown(after)}" for word, (before, after) in examples]
