"""A rule that was not learned here: it comes from another program, or from an operator's decision."""

from __future__ import annotations

from msgspec.structs import replace

from dustream.core.rules.rewrite import rule_id
from dustream.core.rules.url_regex import rule_regex
from dustream.core.rules.wording import describe
from dustream.schemas.rules import Rewrite, RuleStage, UrlRule


def rule_of(site: str, rewrite: Rewrite, stage: RuleStage = "candidate") -> UrlRule:
    """The rule of a rewrite, without evidence."""
    pattern, replacement = rule_regex(rewrite)
    rule = UrlRule(
        id=rule_id(site, rewrite),
        rewrite=rewrite,
        pattern=pattern,
        replacement=replacement,
        stage=stage,
        learner="imported",
    )
    return replace(rule, text=describe(rule))
