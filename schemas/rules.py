"""`url.rules`: the rewrite rules of a site, the newest version per site wins (public, JSON, compacted by site)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

RULE_SET_VERSION = 1

RuleStage = Literal["candidate", "shadow", "active", "revoked"]


class UrlRule(Struct, frozen=True, kw_only=True):
    """One rewrite: URLs that match `pattern` become `replacement`."""

    pattern: Annotated[str, Meta(description="regular expression over the whole URL")]
    replacement: Annotated[str, Meta(description="the rewritten URL, with \\1 … for groups of the pattern")]
    stage: Annotated[RuleStage, Meta(description="only active rules are applied")]
    learner: Annotated[str, Meta(description="which method found it")]
    support: Annotated[int, Meta(description="known URLs it rewrites rightly")] = 0
    false_positives: Annotated[int, Meta(description="known URLs it rewrites wrongly")] = 0
    examples: Annotated[tuple[tuple[str, str], ...], Meta(description="a few (from, to) pairs")] = ()


class RuleSet(Struct, frozen=True, kw_only=True):
    """All rules of one site."""

    site: Annotated[str, Meta(description="registrable domain; private suffixes are sites of their own")]
    version: Annotated[int, Meta(description="counts up; a higher one replaces a lower one")]
    rules: Annotated[tuple[UrlRule, ...], Meta(description="in order of application")]
    v: Annotated[int, Meta(description="schema version")] = RULE_SET_VERSION
