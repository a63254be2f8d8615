"""Which way a rule goes, and that it stays: reasons decide, and more of the same pages change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules
from dustream.core.rules.learn import SiteUrl, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.reasons import exchanged, text_order, way_back
from dustream.core.rules.rewrite import rewriter
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, SubstringRewrite, UrlRule
from dustream.streams.generate.planted_sites import ShopUrl, shop_crawls

SHOPS_QUICK = 4


@dataclass(frozen=True)
class Crawled:
    """A shop after a crawl."""

    known: dict[str, ShopUrl]
    rules: tuple[UrlRule, ...]

    @property
    def active(self) -> list[UrlRule]:
        return [rule for rule in self.rules if rule.stage == "active"]

    def saved_by(self, rules: tuple[UrlRule, ...]) -> int:
        """How many URLs fewer there are."""
        run = SiteRules("shop.com", rules)
        return len(self.known) - len({run.apply(standard_form(url))[0] for url in self.known})


def crawled(known: dict[str, ShopUrl]) -> Crawled:
    rows = [
        SiteUrlRow(standard_form(url), (1, 1), each.page, since=each.since, changed=each.changed)
        for url, each in known.items()
    ]
    return Crawled(known, learned_rules("shop.com", rows, RulesSettings()))


def _shops(count: int) -> list[Any]:
    """Most of them are for `make test-slow`."""
    return [pytest.param(number, marks=[pytest.mark.slow] if number >= SHOPS_QUICK else []) for number in range(count)]


@pytest.mark.parametrize("changed_percent", [0, 5, 20])
@pytest.mark.parametrize("number", _shops(16))
def test_a_shop_crawled_four_times_keeps_its_savings(number: int, changed_percent: int) -> None:
    """On the same URLs, the rules after a crawl save at least 95 % of what the rules before it would have saved."""
    crawls = [crawled(known) for known in shop_crawls(number, changed_percent=changed_percent)]
    for before, after in pairwise(crawls):
        assert after.saved_by(after.rules) >= 0.95 * after.saved_by(before.rules)


@pytest.mark.parametrize("number", _shops(24))
def test_no_rule_of_a_shop_turns_round(number: int) -> None:
    crawls = [crawled(known) for known in shop_crawls(number)]
    for before, after in pairwise(crawls):
        now = {rule.rewrite for rule in after.active}
        assert not now & {way_back(rule.rewrite) for rule in before.active if exchanged(rule.rewrite)}


def test_shops_do_save() -> None:
    saved = [(after := crawled(shop_crawls(number)[-1])).saved_by(after.rules) for number in range(6)]
    assert min(saved) > 500


def mirrored(one: str, other: str, pages: int = 40) -> list[SiteUrl]:
    return [SiteUrl(f"{form}page{i}.html", f"{i}") for i in range(pages) for form in (one, other)]


WAYS = [
    ("http://x.com/a/", "https://x.com/a/", 1),
    ("https://x.com/docs/2.7/", "https://x.com/docs/latest/", 1),
    ("https://x.com/docs/stable/", "https://x.com/docs/2/", 0),
    ("https://x.com/current/", "https://x.com/9/", 0),
    ("https://x.com/mirror/of/", "https://x.com/documentation/", 1),
    ("https://x.com/docs/", "https://x.com/documentation/", 0),
]


@pytest.mark.parametrize("method", ["tree", "dust", "both"])
@pytest.mark.parametrize(("one", "other", "preferred"), WAYS)
def test_reasons_decide_the_direction(one: str, other: str, preferred: int, method: str) -> None:
    for pages in (12, 40, 200):
        for known in (mirrored(one, other, pages), mirrored(other, one, pages)):
            rules = learn_site(site_of(one), known, method).rules  # type: ignore[arg-type]
            run = SiteRules("x.com", rules)
            ends = {run.apply(entry.url)[0].rpartition("/")[0] + "/" for entry in known}
            assert ends == {(one, other)[preferred]} or (method == "dust" and one.startswith("http:"))


def test_what_redirects_is_left_whatever_its_name() -> None:
    known = mirrored("https://x.com/latest/", "https://x.com/documentation-of-everything/")
    moved = [entry._replace(avoid="/latest/" in entry.url) for entry in known]
    run = SiteRules("x.com", learn_site("x.com", moved).rules)
    assert run.apply("https://x.com/latest/page7.html")[0] == "https://x.com/documentation-of-everything/page7.html"


def test_a_few_pages_more_on_one_side_do_not_turn_a_rule_round() -> None:
    """Landing allows 5 % unknown, so both ways may land: the counts must not decide."""
    known = mirrored("https://x.com/one/", "https://x.com/two/", 100)
    ends = set()
    for side in ("one", "two"):
        lone = [SiteUrl(f"https://x.com/{side}/more{i}.html", f"{side} {i}") for i in range(4)]
        run = SiteRules("x.com", learn_site("x.com", [*known, *lone]).rules)
        ends |= {run.apply(f"https://x.com/{each}/page1.html")[0] for each in ("one", "two")}
    assert len(ends) == 1


@pytest.mark.parametrize("missing", [6, 20, 60])
def test_where_one_side_lacks_pages_rules_lead_to_the_other(missing: int) -> None:
    """By the winner order the shorter name would stand for both, but the other has all pages."""
    both = enumerate(mirrored("https://x.com/one/", "https://x.com/another/", 100))
    known = [entry for i, entry in both if i % 2 or i >= 2 * missing]
    run = SiteRules("x.com", learn_site("x.com", known).rules)
    assert run.apply("https://x.com/one/page90.html")[0] == "https://x.com/another/page90.html"


TEXTS = st.text("ab-?.", min_size=1, max_size=6)


@given(TEXTS, TEXTS, st.booleans())
def test_the_way_back_of_a_substring_rule_leads_back(find: str, put: str, at_end: bool) -> None:
    rule = SubstringRewrite("https://x.com/", f"/{find}", f"/{put}", at_end=at_end)
    back = way_back(rule)
    assert way_back(back) == rule
    assert exchanged(back) == (f"/{put}", f"/{find}")
    if find != put:
        assert (text_order(find) < text_order(put)) != (text_order(put) < text_order(find))


def test_the_way_back_of_a_rule_by_key_leads_back() -> None:
    tests = (KeyTest("scheme", "is", "https"), KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "x"))
    tests = (*tests, KeyTest("path_0", "is", "old"), KeyTest("path_1", "some"))
    rule = PatternRewrite(tests, (KeyWrite("path_0", "set", "new"),))
    assert rewriter(rule).apply("https://x.com/old/page") == "https://x.com/new/page"
    assert rewriter(way_back(rule)).apply("https://x.com/new/page") == "https://x.com/old/page"
    assert exchanged(PatternRewrite(tests, (KeyWrite("path_1", "set", "new"),))) is None
    assert exchanged(PatternRewrite(tests, (KeyWrite("path_1", "drop"),))) is None
