"""`url.rules`: the rewrite rules of a site; the newest version per site is current (public, JSON, compacted by
site)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

RULE_SET_VERSION = 1

RuleStage = Literal["candidate", "shadow", "active", "revoked"]
Learner = Literal["tree", "dust", "fanout", "imported"]
RuleVerdict = Literal["accept", "reject", "pin"]


class KeyTest(Struct, frozen=True):
    """The condition on a URL's value under one key. `any`: every value, also none."""

    key: Annotated[str, Meta(description="as URLs are decomposed: scheme, host_0 …, path_0 …, ext, ?name=, ;name=")]
    test: Literal["is", "digits", "some", "absent", "any"]
    value: Annotated[str, Meta(description="for `is`")] = ""
    unless: Annotated[tuple[str, ...], Meta(description="values that have patterns of their own: not these")] = ()


class KeyWrite(Struct, frozen=True):
    """The change of one key: set to a value, copied from another key, or dropped."""

    key: str
    op: Literal["set", "copy", "drop"]
    value: Annotated[str, Meta(description="the value to set, or the key to copy from")] = ""


class PatternRewrite(Struct, frozen=True, tag="pattern"):
    """URLs that pass all tests are rewritten by `writes`. Keys without a test must be absent, unless `open`."""

    tests: tuple[KeyTest, ...]
    writes: tuple[KeyWrite, ...]
    open: bool = False


class SubstringRewrite(Struct, frozen=True, tag="substring"):
    """In URLs that start with `scope`, the first `find` becomes `put`; only at the URL's start or end if so flagged."""

    scope: str
    find: str
    put: str
    at_start: bool = False
    at_end: bool = False


Rewrite = PatternRewrite | SubstringRewrite


class UrlRule(Struct, frozen=True, kw_only=True):
    """One rewrite with its evidence. `rewrite` is applied; `text`, `pattern` and `replacement` express the same for
    people and other programs."""

    id: Annotated[str, Meta(description="hash of the rewrite: the same rule learned again has the same id")]
    rewrite: Rewrite
    pattern: Annotated[str, Meta(description="regular expression that matches the whole of each URL it applies to")]
    replacement: Annotated[
        str,
        Meta(description="the rewritten URL, with \\g<1> … for groups of the pattern; empty if no replacement says it"),
    ]
    stage: Annotated[RuleStage, Meta(description="only active rules are applied")]
    learner: Annotated[Learner, Meta(description="which method found it")]
    reason: Annotated[
        str, Meta(description="why it is not applied, if it is a shadow; what contradicts it, if it is pinned")
    ] = ""
    support: Annotated[int, Meta(description="known URLs that it brings together with a duplicate of theirs")] = 0
    false_positives: Annotated[
        int, Meta(description="known URLs that it brings together with other content, or to a URL that is gone")
    ] = 0
    unknown: Annotated[
        int, Meta(description="known URLs that it rewrites to a URL never seen, where no duplicate of theirs arrives")
    ] = 0
    pages: Annotated[
        int, Meta(description="different pages among the URLs it rewrites: one alone is too little; 0: not known")
    ] = 0
    evidence: Annotated[
        Literal["content", "size"],
        Meta(description="what the two counts go by: known duplicates, or where only sizes are known, equal sizes"),
    ] = "content"
    examples: Annotated[tuple[tuple[str, str], ...], Meta(description="a few (from, to) pairs that support it")] = ()
    against: Annotated[
        tuple[tuple[str, str], ...], Meta(description="a few (from, to) pairs that contradict it, if any")
    ] = ()
    saved: Annotated[
        int,
        Meta(description="known URLs that need not be fetched: those that meet a duplicate, less one for each new URL"),
    ] = 0
    fetched_right: Annotated[
        int, Meta(description="of the pages fetched to validate it, how many are alike what it makes of them")
    ] = 0
    fetched_wrong: Annotated[int, Meta(description="and how many are not, or become a URL that cannot be fetched")] = 0
    text: Annotated[str, Meta(description="what URLs look like before and after: <*> is one part, <**> any text")] = ""
    right: Annotated[
        int, Meta(description="predictions that came true since it was learned, newer ones weigh more")
    ] = 0
    wrong: Annotated[int, Meta(description="predictions that did not come true, newer ones weigh more")] = 0
    unsettled: Annotated[int, Meta(description="predictions that led to a URL never seen, newer ones weigh more")] = 0
    revocations: Annotated[int, Meta(description="how often it was revoked; each makes coming back harder")] = 0
    decision: Annotated[
        RuleVerdict | None,
        Meta(
            description="an operator's decision. accept: active without having proved itself, until predictions fail; "
            "reject: never active; pin: active, whatever the evidence"
        ),
    ] = None


class RuleSet(Struct, frozen=True, kw_only=True):
    """All rules of one site."""

    site: Annotated[str, Meta(description="registrable domain; private suffixes are sites of their own")]
    version: Annotated[int, Meta(description="counts up; a higher one replaces a lower one")]
    rules: Annotated[tuple[UrlRule, ...], Meta(description="in order of application")]
    v: Annotated[int, Meta(description="schema version")] = RULE_SET_VERSION


class RuleFile(Struct, frozen=True, kw_only=True):
    """The rule sets of several sites in one file."""

    sites: Annotated[tuple[RuleSet, ...], Meta(description="one rule set per site")]
    v: Annotated[int, Meta(description="schema version")] = RULE_SET_VERSION
