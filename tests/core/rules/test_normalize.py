"""normalize: idempotent whatever the rules, on its own site only, and it explains itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.errors import BadInput
from dustream.core.rules.learn import learn_site
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.rewrite import check_rewrite, rewriter, rule_id
from dustream.core.rules.scores import score
from dustream.core.urls.keys import compose, decompose
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.generate.planted_sites import planted_site

KEYS = ["scheme", "host_2", "path_0", "path_1", "path_2", "ext", "?a=", "?b=", "?a= #2", ";s=", "port"]
TEXT = st.sampled_from(["a", "b", "www", "http", "https", "1", "22", "x.y", ""])
TESTS = st.builds(KeyTest, st.sampled_from(KEYS), st.sampled_from(["is", "digits", "some", "absent", "any"]), TEXT)
WRITES = st.builds(
    lambda key, op, text, source: KeyWrite(key, op, source if op == "copy" else text),
    st.sampled_from(KEYS), st.sampled_from(["set", "copy", "drop"]), TEXT, st.sampled_from(KEYS),
)  # fmt: skip
PATTERNS = st.builds(
    lambda tests, writes, open: PatternRewrite(tuple(tests), tuple(writes), open),
    st.lists(TESTS, max_size=3, unique_by=lambda test: test.key), st.lists(WRITES, min_size=1, max_size=3),
    st.just(True),
)  # fmt: skip
PIECES = st.sampled_from(["/", "a", "b", "/a", "?a=1", "&", "//", "www.", "site.com", "http", "s", "1", "%41", "."])
SUBSTRINGS = st.builds(
    SubstringRewrite, st.just(""), PIECES, st.one_of(PIECES, st.just("")), st.booleans(), st.booleans()
)
URLS = st.builds(
    lambda scheme, www, path, query: f"{scheme}://{www}site.com/{'/'.join(path)}?{'&'.join(query)}".rstrip("?"),
    st.sampled_from(["http", "https"]), st.sampled_from(["", "www."]),
    st.lists(st.sampled_from(["a", "b", "1", "x.y", ""]), max_size=3),
    st.lists(st.sampled_from(["a=1", "a=2", "b=1", "b"]), max_size=3),
)  # fmt: skip


def rule_set(*rewrites: Rewrite, site: str = "site.com") -> RuleSet:
    rules = [
        UrlRule(id=rule_id(site, each), rewrite=each, pattern="", replacement="", stage="active", learner="imported")
        for each in rewrites
    ]
    return RuleSet(site=site, version=1, rules=tuple(rules))


def _usable(rewrite: Rewrite) -> bool:
    try:
        check_rewrite(rewrite)
    except BadInput:
        return False
    return True


@settings(max_examples=400)
@given(st.lists(st.one_of(PATTERNS, SUBSTRINGS).filter(_usable), max_size=4), URLS)
def test_normalizing_twice_is_normalizing_once_whatever_the_rules(rewrites: list[Rewrite], url: str) -> None:
    normalizer = Normalizer([rule_set(*rewrites)])
    once = normalizer.normalize(url)
    assert normalizer.normalize(once) == once
    assert normalizer.explain(url).normalized == once


def test_learned_rules_are_idempotent_and_the_explanation_ends_where_normalize_does() -> None:
    planted = planted_site(3)
    learned = learn_site(planted.site, planted.known)
    normalizer = Normalizer([RuleSet(site=planted.site, version=1, rules=learned.rules)])
    for entry in planted.known:
        once = normalizer.normalize(entry.url)
        assert normalizer.normalize(once) == once
        steps = normalizer.explain(entry.url).steps
        assert (steps[-1].url if steps else entry.url) == once


@pytest.mark.parametrize("number", range(12))
def test_planted_rules_are_found_without_false_positives(number: int) -> None:
    planted = planted_site(number)
    learned = learn_site(planted.site, planted.known)
    normalizer = Normalizer([RuleSet(site=planted.site, version=1, rules=learned.rules)])
    for rule in planted.rules:
        same = sum(normalizer.normalize(a) == normalizer.normalize(b) for a, b in rule.fresh)
        assert same >= 0.95 * len(rule.fresh), rule.name
    everything = [(e.url, e.cluster) for e in planted.known] + list(planted.fresh_clusters.items())
    found = score((normalizer.normalize(url), cluster) for url, cluster in everything)
    assert found.false_positive_rate <= 0.005
    assert found.dup_reduction_rate >= 0.95


def test_circles_end_at_one_url_and_growth_at_the_start() -> None:
    circle = Normalizer([rule_set(SubstringRewrite("", "/a", "/b"), SubstringRewrite("", "/b", "/a"))])
    assert circle.normalize("http://site.com/a") == circle.normalize("http://site.com/b")
    growing = Normalizer([rule_set(SubstringRewrite("", "/x", "/x/x"))])
    assert growing.normalize("http://site.com/x") == "http://site.com/x"


def test_rules_never_lead_to_another_site_nor_act_on_one() -> None:
    rewrite = SubstringRewrite("", "site.com", "evil.com")
    assert Normalizer([rule_set(rewrite)]).normalize("http://site.com/x") == "http://site.com/x"
    drop = PatternRewrite((), (KeyWrite("?a=", "drop"),), open=True)
    assert Normalizer([rule_set(drop)]).normalize("http://other.com/?a=1") == "http://other.com/?a=1"
    assert Normalizer([rule_set(drop)]).normalize("http://www.site.com/?a=1&b=2") == "http://www.site.com/?b=2"


def test_only_active_rules_are_applied() -> None:
    from msgspec.structs import replace

    active = rule_set(PatternRewrite((), (KeyWrite("?a=", "drop"),), open=True))
    for stage in ("candidate", "shadow", "revoked"):
        rules = replace(active, rules=(replace(active.rules[0], stage=stage),))
        assert Normalizer([rules]).normalize("http://site.com/?a=1") == "http://site.com/?a=1"


def test_pattern_tests_by_hand() -> None:
    tests = (KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "site"),
             KeyTest("path_0", "some", unless=("shop",)), KeyTest("?id=", "digits"), KeyTest("?s=", "any"))  # fmt: skip
    run = rewriter(PatternRewrite(tests, (KeyWrite("?s=", "drop"), KeyWrite("path_0", "copy", "?id="))))
    cases = {
        "http://site.com/a?id=7&s=x": "http://site.com/7?id=7",
        "http://site.com/a?id=7": "http://site.com/7?id=7",
        "http://site.com/shop?id=7&s=x": None,
        "http://site.com/a?id=x&s=x": None,
        "http://site.com/a?id=7&s=x&new=1": None,
        "http://site.com/a/b?id=7&s=x": None,
        "https://site.com/a?id=7&s=x": None,
        "http://site.com/a?s=x": None,
    }
    for url, after in cases.items():
        assert run.apply(url) == after, url


@pytest.mark.parametrize(
    "rewrite",
    [
        SubstringRewrite("", "", "x"),
        SubstringRewrite("", "x", "x"),
        SubstringRewrite("", "x" * 10_000, ""),
        PatternRewrite((), ()),
        PatternRewrite((), (KeyWrite("nonsense", "drop"),)),
        PatternRewrite((), (KeyWrite("host_0", "set", "evil.com/"),)),
        PatternRewrite((), (KeyWrite("?a=", "set", "1#x"),)),
        PatternRewrite(tuple(KeyTest(f"?{i}=", "any") for i in range(2000)), (KeyWrite("?a=", "drop"),)),
    ],
)
def test_hostile_rules_are_refused(rewrite: Rewrite) -> None:
    with pytest.raises(BadInput):
        rewriter(rewrite)


HOSTILE = [
    ("http://site.com/", "a", ""),
    ("http://site.com/?", "k=1&", ""),
    ("http://site.com/", "/..", ""),
    ("http://site.com/", "a/../", ""),
    ("http://site.com/", ";", ""),
    ("http://site.com/", "%", ""),
    ("http://site.com/", "%41", ""),
    ("http://", "a.", "com/"),
    ("http://", "é.", "com/"),
    ("http://", "@", "::x/"),
    ("http://", ":", "x/"),
    ("http://", "[", "/"),
    ("", "\x00", ""),
]


@pytest.mark.parametrize("chars", [8_000, 100_000])
@pytest.mark.parametrize(("before", "repeated", "after"), HOSTILE)
def test_hostile_urls_are_normalised(before: str, repeated: str, after: str, chars: int) -> None:
    """Those of 100 KB are left as they are; shorter ones go through every step."""
    rules = [SubstringRewrite("", "a" * 50 + "b", "c"), PatternRewrite((), (KeyWrite("?a=", "drop"),), open=True)]
    normalizer = Normalizer([rule_set(*rules)])
    url = before + repeated * (chars // len(repeated)) + after
    assert isinstance(normalizer.normalize(url), str)
    assert isinstance(normalizer.explain(url).normalized, str)
    assert compose(decompose(url)) == url
