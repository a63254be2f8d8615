"""Rules that come back from the patterns in which they are exported."""

from __future__ import annotations

import re

import pytest

from dustream.core.rules.learn import learn_site
from dustream.core.rules.rewrite import rewriter
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.generate.planted_sites import planted_site
from dustream.streams.rules_io.exports import to_nutch
from dustream.streams.rules_io.imports import import_rules
from dustream.streams.rules_io.patterns import rule_of_pattern


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_nutch_gets_does_the_same_when_it_comes_back(number: int) -> None:
    planted = planted_site(number)
    tried = 0
    learned = learn_site(planted.site, planted.known).rules
    for rule in [rule for rule in learned if rule.stage == "active"]:
        exported = to_nutch([RuleSet(site=planted.site, version=1, rules=(rule,))])
        if isinstance(rule.rewrite, PatternRewrite) and any(test.test == "any" for test in rule.rewrite.tests):
            continue  # keys that may be missing are written in a form that is not read
        assert exported.left_out == []
        (back,) = import_rules("nutch", exported.text).rule_sets
        assert (back.site, back.rules[0].stage) == (planted.site, "candidate")
        for entry in planted.known:
            if re.fullmatch(rule.pattern, entry.url):
                tried += 1
                assert rewriter(back.rules[0].rewrite).apply(entry.url) == rewriter(rule.rewrite).apply(entry.url)
    assert tried > 50


def test_forms_that_are_understood() -> None:
    by_keys = rule_of_pattern(r"^http://x\.com/(\d+)/([^/?&;#]*)\?sid=(\d+)$", "http://x.com/a/$2?v=$1")
    assert by_keys is not None
    assert by_keys.rewrite == PatternRewrite(
        (
            KeyTest("scheme", "is", "http"),
            KeyTest("host_0", "is", "com"),
            KeyTest("host_1", "is", "x"),
            KeyTest("path_0", "digits"),
            KeyTest("path_1", "some"),
            KeyTest("?sid=", "digits"),
        ),
        (KeyWrite("?sid=", "drop"), KeyWrite("path_0", "set", "a"), KeyWrite("?v=", "copy", "path_0")),
    )
    under = rule_of_pattern(r"^(?=http://x\.com/a/)(.*?)/print(.*)$", "$1$2")
    assert under == (SubstringRewrite("http://x.com/a/", "/print", ""), "http://x.com/a/")
    at_end = rule_of_pattern(r"^(?=http://x\.com/)(.*)\?all$", r"$1\$")
    assert at_end is not None and at_end.rewrite == SubstringRewrite("http://x.com/", "?all", "$", at_end=True)
    plain = rule_of_pattern(r"http://x\.com/index\.html", "http://x.com/")
    assert plain is not None and plain.rewrite == SubstringRewrite("", "http://x.com/index.html", "http://x.com/")


@pytest.mark.parametrize(
    ("pattern", "substitution"),
    [
        ("(a+)+$", "x"),
        (r"^http://x\.com/(\d+)$", "http://x.com/$2"),
        (r"^http://x\.com/v(\d+)$", "http://x.com/$1"),
        (r"^http://x\.com/[ab]$", "http://x.com/"),
        (r"^(?=http://x\.com/)(.*?)a(.*)$", "$1aa$2"),
        (r"^(?=http://x\.com/)(.*?)a(.*)$", "$2$1"),
        ("", ""),
        ("(" * 50_000, ""),
    ],
)
def test_other_forms_are_not(pattern: str, substitution: str) -> None:
    assert rule_of_pattern(pattern, substitution) is None


def test_what_no_pattern_can_say_is_left_out() -> None:
    rewrite = PatternRewrite((KeyTest("host_1", "is", "x"),), (KeyWrite("?sid=", "drop"),), open=True)
    rule = UrlRule(id="1", rewrite=rewrite, pattern="^host_1x$", replacement="host_1x", stage="active", learner="tree")
    exported = to_nutch([RuleSet(site="x.com", version=1, rules=(rule,))])
    assert exported.left_out == [rule]
    assert "<regex>" not in exported.text
