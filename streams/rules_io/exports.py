"""Rules in the formats that crawlers and filters already read. Only active rules are exported.

    nutch      regex-normalize.xml of Nutch's urlnormalizer-regex: all rules that one pattern can say
    adguard    filter list with $removeparam: rules that do nothing but drop query keys
    clearurls  ClearURLs providers: the same
    scrapy     settings for the spider middleware in rules_io/scrapy.py: all rules, exactly

Each export says which rules its format cannot hold, and is never wider than the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import msgspec

from dustream.core.rules.rewrite import as_regex, describe, rewriter
from dustream.core.urls.keys import compose, index_of
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, PatternRewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.rules_io.url_regex import UrlRegex, url_pattern, url_regexes

KEY_NOT_ADDRESS: Final = "A rewritten URL is a key to compare URLs by, not an address: it may not exist."

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]+")
"""Names of query keys in which filters find nothing to interpret."""


class Export(NamedTuple):
    """The text of an export, and the rules that are not in it."""

    text: str
    left_out: list[UrlRule]


def to_nutch(rule_sets: Iterable[RuleSet]) -> Export:
    lines, left_out = ['<?xml version="1.0"?>', f"<!-- {KEY_NOT_ADDRESS} -->", "<regex-normalize>"], []
    for rules in rule_sets:
        for rule in _active(rules):
            regexes = _regexes(rule)
            left_out += [] if regexes else [rule]
            for pattern, replacement in regexes:
                # Java writes groups as $1 and needs other dollar signs and backslashes escaped.
                substitution = re.sub(r"\\(?:(\d+)|g<(\d+)>|\\)|[\\$]", _java, replacement)
                lines += [
                    "<regex>",
                    f"  <pattern>{escape(pattern)}</pattern>",
                    f"  <substitution>{escape(substitution)}</substitution>",
                    "</regex>",
                ]
    return Export("\n".join([*lines, "</regex-normalize>", ""]), left_out)


def _regexes(rule: UrlRule) -> list[UrlRegex]:
    """In the form that comes back as it was where that says the same, else in one that no import understands; none that
    does not do to the rule's own examples what the rule does."""
    plain = UrlRegex(*as_regex(rule.rewrite))
    if isinstance(rule.rewrite, SubstringRewrite):
        return [plain] if _does_the_same([plain], rule) else []
    if _is_plain(rule.rewrite) and _does_the_same([plain], rule):
        return [plain]
    regexes = url_regexes(rule.rewrite)
    return regexes if _does_the_same(regexes, rule) else []


def _is_plain(rewrite: PatternRewrite) -> bool:
    """Whether the rule has exactly one form of URL, but for the order of query keys: nothing may be missing, and no
    value may be mistaken for one with an extension."""
    tests = {test.key: test for test in rewrite.tests}
    last = max((key for key in tests if key.startswith("path_")), key=index_of, default="")
    has_end = "ext" in tests or (last in tests and tests[last].test in ("is", "digits"))
    said = all(test.test in ("is", "digits", "some") and not test.unless for test in rewrite.tests)
    return has_end and said and not rewrite.open and {"scheme", "host_0"} <= set(tests)


def _does_the_same(regexes: Sequence[UrlRegex], rule: UrlRule) -> bool:
    run = rewriter(rule.rewrite)
    try:
        return bool(regexes) and all(_applied(regexes, url) == (run.apply(url) or url) for url, _ in rule.examples)
    except re.error:  # a rule file may hold any text
        return False


def _applied(regexes: Sequence[UrlRegex], url: str) -> str:
    for pattern, replacement in regexes:
        url = re.sub(pattern, replacement, url)
    return standard_form(url)


def _java(found: re.Match[str]) -> str:
    group = found[1] or found[2]
    return f"${group}" if group else "\\" + found[0][-1]


def to_adguard(rule_sets: Iterable[RuleSet]) -> Export:
    lines, left_out = ["! Title: URL rules learned by dustream", f"! {KEY_NOT_ADDRESS}"], []
    for rules in rule_sets:
        for rule in _active(rules):
            host, pattern, names = _reach(rule)
            left_out += [] if names else [rule]
            # Slashes end a pattern, and without match-case it would hold for other URLs, too.
            where = f"||{host}^$" if host else "/{}/$match-case,".format(pattern.replace("/", r"\/"))
            lines += [f"{where}removeparam={name}" for name in names]
    return Export("\n".join([*lines, ""]), left_out)


def to_clearurls(rule_sets: Iterable[RuleSet]) -> Export:
    providers, left_out = {}, []
    for rules in rule_sets:
        for rule in _active(rules):
            host, pattern, names = _reach(rule)
            left_out += [] if names else [rule]
            if names:
                providers[f"{rules.site} {rule.id}"] = {
                    "urlPattern": rf"^https?://(?:[a-z0-9-]+\.)*?{re.escape(host)}(?=[/?]|$)" if host else pattern,
                    "completeProvider": False,
                    "rules": [re.escape(name) for name in names],
                    "referralMarketing": [],
                    "rawRules": [],
                    "exceptions": [],
                    "redirections": [],
                    "forceRedirection": False,
                }
    return Export(
        msgspec.json.format(msgspec.json.encode({"providers": providers}), indent=1).decode() + "\n", left_out
    )


def to_scrapy(rule_sets: Iterable[RuleSet], rules_path: Path) -> Export:
    lines = [
        "# settings.py: requests are rewritten before Scrapy looks for duplicates",
        f"# {KEY_NOT_ADDRESS}",
        f"DUSTREAM_RULES = {str(rules_path)!r}",
        'SPIDER_MIDDLEWARES = {"dustream.streams.rules_io.scrapy.NormalizeUrls": 50}',
    ]
    for rules in rule_sets:
        lines += [f"# {rules.site}: {describe(rule.rewrite)}" for rule in _active(rules)]
    return Export("\n".join([*lines, ""]), [])


EXPORTS: Final[dict[str, Callable[[list[RuleSet], Path], Export]]] = {
    "nutch": lambda rule_sets, _: to_nutch(rule_sets),
    "adguard": lambda rule_sets, _: to_adguard(rule_sets),
    "clearurls": lambda rule_sets, _: to_clearurls(rule_sets),
    "scrapy": to_scrapy,
}


def _active(rules: RuleSet) -> Iterator[UrlRule]:
    return (rule for rule in rules.rules if rule.stage == "active")


class _Reach(NamedTuple):
    """Which query keys a filter removes, and where: on a host with all below it, or from URLs that match a pattern."""

    host: str = ""
    pattern: str = ""
    names: Sequence[str] = ()


def _reach(rule: UrlRule) -> _Reach:
    """Of a rule that drops query keys; without names if it does more than that, or a filter would do it elsewhere."""
    rewrite = rule.rewrite
    if not isinstance(rewrite, PatternRewrite):
        return _Reach()
    dropped = {write.key for write in rewrite.writes if write.op == "drop"}
    names = sorted(key[1:].rstrip("=") for key in dropped)
    kept = {test.key[1:].rstrip("=") for test in rewrite.tests if test.key[0] == "?" and test.key not in dropped}
    only_drops = len(dropped) == len(rewrite.writes) and all(key[0] == "?" for key in dropped)
    if not only_drops or kept & set(names) or not all(map(_NAME.fullmatch, names)):
        return _Reach()
    host, pattern = _whole_host(rewrite), url_pattern(rewrite)
    holds = pattern and all(re.search(pattern, url) for url, _ in rule.examples)
    return _Reach(host, pattern, names) if host or holds else _Reach()


def _whole_host(rewrite: PatternRewrite) -> str:
    """The host, if the rule drops one key from whatever is there or below it."""
    labels = [(test.key, test.value) for test in rewrite.tests if test.test == "is" and test.key.startswith("host_")]
    asked = [KeyTest(write.key, "some") for write in rewrite.writes]
    if not rewrite.open or not labels or len(asked) > 1 or len(labels) + 1 != len(rewrite.tests):
        return ""
    return compose((("scheme", "x"), *labels))[4:] if asked[0] in rewrite.tests else ""
