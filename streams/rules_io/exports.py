"""Rules in the formats that crawlers and filters already read. Only active rules are exported.

    nutch      regex-normalize.xml of Nutch's urlnormalizer-regex: all rules that one pattern can say
    adguard    filter list with $removeparam: rules that do nothing but drop query keys
    clearurls  ClearURLs providers: the same
    scrapy     settings for the spider middleware in rules_io/scrapy.py: all rules, exactly

Each export says how many rules its format cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import msgspec

from dustream.core.rules.decompose import compose
from dustream.core.rules.rewrite import describe
from dustream.schemas.rules import PatternRewrite, RuleSet, SubstringRewrite, UrlRule

_URL_TEXT: Final = re.compile(r"\^?(?:\([^()]*\)|\\\d+|[a-z]+)://")


class Export(NamedTuple):
    """The text of an export, and the rules that are not in it."""

    text: str
    left_out: list[UrlRule]


def to_nutch(rule_sets: Iterable[RuleSet]) -> Export:
    lines, left_out = ['<?xml version="1.0"?>', "<regex-normalize>"], []
    for rules in rule_sets:
        for rule in _active(rules):
            if not _is_regex(rule):
                left_out.append(rule)
                continue
            # Java writes groups as $1 and needs other dollar signs and backslashes escaped.
            substitution = re.sub(r"\\(?:(\d+)|g<(\d+)>)|[\\$]", _java, rule.replacement)
            lines += [
                "<regex>",
                f"  <pattern>{escape(rule.pattern)}</pattern>",
                f"  <substitution>{escape(substitution)}</substitution>",
                "</regex>",
            ]
    return Export("\n".join([*lines, "</regex-normalize>", ""]), left_out)


def _is_regex(rule: UrlRule) -> bool:
    """Whether its pattern and replacement are of URLs: where keys may be missing they are words for people."""
    is_substring = isinstance(rule.rewrite, SubstringRewrite)
    return is_substring or all(_URL_TEXT.match(text) for text in (rule.pattern, rule.replacement))


def _java(found: re.Match[str]) -> str:
    group = found[1] or found[2]
    return f"${group}" if group else "\\" + found[0]


def to_adguard(rule_sets: Iterable[RuleSet]) -> Export:
    lines, left_out = ["! Title: URL rules learned by dustream"], []
    for rules in rule_sets:
        for rule in _active(rules):
            names = dropped_names(rule)
            left_out += [] if names else [rule]
            lines += [f"||{_static_prefix(rule, rules.site)}$removeparam={name}" for name in names]
    return Export("\n".join([*lines, ""]), left_out)


def to_clearurls(rule_sets: Iterable[RuleSet]) -> Export:
    providers, left_out = {}, []
    for rules in rule_sets:
        for rule in _active(rules):
            names = dropped_names(rule)
            left_out += [] if names else [rule]
            if names:
                prefix = re.escape(_static_prefix(rule, rules.site)).replace("/", r"\/")
                providers[f"{rules.site} {rule.id}"] = {
                    "urlPattern": rf"^https?:\/\/(?:[a-z0-9-]+\.)*?{prefix}",
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


def dropped_names(rule: UrlRule) -> list[str]:
    """The query keys a rule drops, if that is all it does."""
    rewrite = rule.rewrite
    if not isinstance(rewrite, PatternRewrite):
        return []
    if any(write.op != "drop" or not write.key.startswith("?") or " " in write.key for write in rewrite.writes):
        return []
    return [write.key[1:].rstrip("=") for write in rewrite.writes]


def _active(rules: RuleSet) -> Iterator[UrlRule]:
    return (rule for rule in rules.rules if rule.stage == "active")


def _static_prefix(rule: UrlRule, site: str) -> str:
    """Host and leading directories that the rule demands; filters know no narrower scope."""
    assert isinstance(rule.rewrite, PatternRewrite)
    tests = {test.key: test.value for test in rule.rewrite.tests if test.test == "is"}
    labels = [(key, value) for key, value in tests.items() if key.startswith("host_")]
    path: list[tuple[str, str]] = []
    while (key := f"path_{len(path)}") in tests:
        path.append((key, tests[key]))
    whole = len(labels) > site.count(".")
    host = compose((("scheme", "x"), *labels))[4:] if whole else site
    directories = "".join(f"/{value}" for _, value in path)
    return f"{host}{directories}" if directories else f"{host}^"
