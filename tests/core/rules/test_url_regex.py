"""Regular expressions of rules and of tree nodes match what the rules and nodes match, and nothing else."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.rules.learn import learn_site
from dustream.core.rules.pattern_tree import build_pattern_tree, node_regex
from dustream.core.rules.rewrite import PatternRewriter, replaced
from dustream.core.rules.training import KnownUrl, training_set
from dustream.core.rules.url_regex import rule_regex, url_pattern, url_regex
from dustream.core.urls.keys import keys_and_values
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, SubstringRewrite
from dustream.streams.generate.planted_sites import planted_site

SEGMENTS = ["", "a", "b", "12", "a.b", "a.html", "x.y.php", ".html", "a;v=1", "a;v=1;w", "b.php;v=2", "c&id=1", "9.1"]
PAIRS = ["id=7", "id=x", "id=", "id=8", "cat=2", "sid=ab", "new", "new=1", "", "a.b=1"]
HOSTS = ["x.com", "www.x.com", "a.b.x.com", "x.com:81", "me@x.com", "10.0.0.1", "[::1]", "[::1]:8080", "me:pw@x.com:1"]
URLS = st.builds(
    lambda scheme, host, path, query, end: (
        f"{scheme}://{host}{''.join('/' + part for part in path)}{'?' + '&'.join(query) if query else ''}{end}"
    ),
    st.sampled_from(["http", "https"]), st.sampled_from(HOSTS), st.lists(st.sampled_from(SEGMENTS), max_size=4),
    st.lists(st.sampled_from(PAIRS), max_size=4), st.sampled_from(["", "", "", "#", "#top"]),
)  # fmt: skip


def test_of(key: str, value: str, kind: int) -> KeyTest:
    """The key asked for in one of the ways in which this value passes."""
    if kind == 0 or (kind == 1 and not value.isdecimal()):
        return KeyTest(key, "is", value)
    if kind == 1:
        return KeyTest(key, "digits")
    return KeyTest(key, "some" if kind == 2 else "any", unless=("b", "8") if kind == 3 else ())


test_of.__test__ = False  # type: ignore[attr-defined]
KINDS = st.lists(st.integers(0, 4), min_size=24, max_size=24)


@given(st.lists(URLS, min_size=1, max_size=30))
@settings(max_examples=300)
def test_the_expression_of_a_node_matches_all_urls_of_the_node(urls: list[str]) -> None:
    tree = build_pattern_tree(training_set(KnownUrl(url, 0) for url in urls))
    for node in tree.nodes:
        pattern = node_regex(tree, node)
        for row in tree.rows(node).tolist():
            assert re.fullmatch(pattern, tree.training.urls[row])


@given(URLS, KINDS, st.lists(URLS, max_size=8))
@settings(max_examples=1_000)
def test_the_pattern_of_tests_matches_what_passes_them(url: str, kinds: list[int], others: list[str]) -> None:
    """Keys that are there are asked for in some way, and host labels and path parts that may be missing are last."""
    keys, values = keys_and_values(url)
    tests = tuple(test_of(*each) for each in zip(keys, values, kinds, strict=False))
    run = PatternRewriter(PatternRewrite(tests, (KeyWrite("?none=", "drop"),)))
    pattern = url_pattern(tests)
    for each in [url, *others]:
        its_keys, its_values = keys_and_values(each)
        writer = run.writer_of(its_keys)
        if writer is not None and writer.tests.passed_by(its_values):
            assert re.fullmatch(pattern, each), (pattern, each)


@given(URLS, KINDS, st.lists(URLS, max_size=8), st.integers(0, 60), st.sampled_from(["set", "drop", "copy"]))
@settings(max_examples=1_000)
def test_pattern_and_replacement_do_what_the_rule_does(
    url: str, kinds: list[int], others: list[str], place: int, op: str
) -> None:
    keys, values = keys_and_values(url)
    tests = tuple(test_of(*each) for each in zip(keys, values, kinds, strict=False))
    key = keys[place % len(keys)]
    value = {"set": "www", "copy": keys[place // 2 % len(keys)], "drop": ""}[op]
    rewrite = PatternRewrite(tests, (KeyWrite(key, op, value),))  # type: ignore[arg-type]
    regex, run = url_regex(rewrite), PatternRewriter(rewrite)
    for each in [] if regex is None else map(standard_form, [url, *others]):
        made = re.sub(regex.pattern, regex.replacement, each)
        assert standard_form(made) == (run.apply(each) or each), (regex, each)


@pytest.mark.parametrize("number", range(8))
def test_patterns_of_learned_rules_match_their_examples_and_say_what_becomes_of_them(number: int) -> None:
    planted = planted_site(number)
    rules = learn_site(planted.site, planted.known).rules
    assert sum(rule.replacement != "" for rule in rules) > 0.8 * len(rules)
    for rule in rules:
        assert rule.examples
        for before, after in rule.examples:
            assert re.fullmatch(rule.pattern, before)
            assert not rule.replacement or standard_form(re.sub(rule.pattern, rule.replacement, before)) == after


def test_a_query_key_that_may_be_there_twice() -> None:
    tests = (
        KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "com"), KeyTest("path_0", "is", ""),
        KeyTest("?id=", "digits"), KeyTest("?id= #2", "is", "x"), KeyTest("?sid=", "any"),
    )  # fmt: skip
    pattern = url_pattern(tests)
    queries = ["id=1&id=x", "sid=3&id=1&id=x", "id=1&sid=3&id=x", "id=x&id=1", "id=1", "id=1&id=x&id=y", "id=1&id=xy"]
    assert [bool(re.fullmatch(pattern, f"http://com/?{query}")) for query in queries] == [True] * 3 + [False] * 4


def test_a_pattern_without_a_replacement_still_matches() -> None:
    """A part is set behind one that may be missing."""
    tests = (
        KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "com"), KeyTest("path_0", "any"),
        KeyTest("path_1", "any"),
    )  # fmt: skip
    regex = rule_regex(PatternRewrite(tests, (KeyWrite("path_1", "set", "x"),)))
    assert regex.replacement == "" and re.fullmatch(regex.pattern, "http://com/a/b")


@pytest.mark.parametrize(("at_start", "at_end"), list(product([False, True], repeat=2)))
def test_expressions_of_substring_rules(at_start: bool, at_end: bool) -> None:
    find, scope = ("http://x.com/a", "") if at_start else ("/a", "http://x.com/")
    rule = SubstringRewrite(scope, find, "1/b", at_start, at_end)
    pattern, replacement = rule_regex(rule)
    for url in ("http://x.com/a", "http://x.com/a/b/a", "http://x.com/b", "http://y.com/a"):
        assert re.sub(pattern, replacement, url) == (replaced(rule, url) or url)
