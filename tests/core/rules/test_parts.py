"""What rules may say: of parts of URLs, of hosts that were seen, and never to leave https."""

from __future__ import annotations

import pytest

from dustream.core.rules.dustbuster import LoggedUrl, dust_rules
from dustream.core.rules.learn import Method, SiteUrl, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.rewrite import is_allowed
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, SubstringRewrite
from dustream.streams.generate.planted_sites import planted_site

DELIMITERS = "/?&=;:.,-_+~@!*|"
METHODS: list[Method] = ["both", "tree", "dust", "fanout"]


@pytest.mark.parametrize("method", METHODS)
def test_https_never_becomes_http(method: Method) -> None:
    """Most pages are known by http, and some by https too: http is where they all are, and still no way leads there."""
    known = [SiteUrl(f"http://x.com/{'abc'[i % 3]}/{i}", f"page {i}") for i in range(90)]
    known += [SiteUrl(f"https://x.com/{'abc'[i % 3]}/{i}", f"page {i}") for i in range(60)]
    rules = learn_site("x.com", known, method).rules
    assert all(after.startswith("https:") for rule in rules for _, after in rule.examples)
    assert SiteRules("x.com", rules).apply("https://x.com/a/999")[0] == "https://x.com/a/999"


@pytest.mark.parametrize("method", ["both", "tree"])
def test_http_becomes_https_where_the_pages_are(method: Method) -> None:
    known = [SiteUrl(f"https://x.com/{'abc'[i % 3]}/{i}", f"page {i}") for i in range(90)]
    known += [SiteUrl(f"http://x.com/{'abc'[i % 3]}/{i}", f"page {i}") for i in range(60)]
    run = SiteRules("x.com", learn_site("x.com", known, method).rules)
    assert run.apply("http://x.com/a/999")[0] == "https://x.com/a/999"


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_about_hosts_holds_for_the_hosts_seen(method: Method) -> None:
    hosts = [f"m{n}" for n in range(1, 6)]
    known = [SiteUrl(f"http://{host}.x.com/{'abc'[i % 3]}/{i}", f"page {i}") for i in range(60) for host in hosts]
    run = SiteRules("x.com", learn_site("x.com", known, method).rules)
    assert run.apply("http://shop.x.com/a/7")[0] == "http://shop.x.com/a/7"
    if method in ("both", "tree"):
        assert len({run.apply(f"http://{host}.x.com/a/999")[0] for host in hosts}) == 1


def test_which_rewrites_are_allowed() -> None:
    https = KeyTest("scheme", "is", "https")
    to_http = KeyWrite("scheme", "set", "http")
    assert not is_allowed(PatternRewrite((https,), (to_http,)))
    assert not is_allowed(PatternRewrite((KeyTest("scheme", "some"),), (to_http,)))
    assert is_allowed(PatternRewrite((KeyTest("scheme", "is", "http"),), (KeyWrite("scheme", "set", "https"),)))
    assert not is_allowed(SubstringRewrite("", "https://x.com/", "http://x.com/"))
    assert not is_allowed(SubstringRewrite("http://x.com/", "=197", "=97", at_end=True))
    assert is_allowed(SubstringRewrite("http://x.com/", "&sid=197", "&sid=97", at_end=True))
    to_one = KeyWrite("host_2", "set", "www")
    assert not is_allowed(PatternRewrite((https, KeyTest("host_2", "some")), (to_one,)))
    assert is_allowed(PatternRewrite((https, KeyTest("host_2", "is", "m")), (to_one,)))
    assert is_allowed(PatternRewrite((https,), (to_one,)))


def versions() -> list[SiteUrl]:
    """The manuals of seven versions: those of 1.11 and 1.13 are the same where both have a page."""
    pages = [f"generated/numpy.ma.Mask{letter}{i}.html" for letter in "ABC" for i in range(12)]
    return [
        SiteUrl(f"http://x.org/doc/1.{n}/reference/{page}", page if n in (11, 13) else f"{n} {page}")
        for n in (1, 3, 9, 10, 11, 13, 21)
        for page in pages
    ]


def logs() -> list[list[SiteUrl]]:
    return [versions(), *(planted_site(number).known for number in (0, 1, 5, 6))]


@pytest.mark.parametrize("known", logs())
def test_substring_rules_begin_and_end_at_delimiters(known: list[SiteUrl]) -> None:
    rules = [rule.rewrite for rule in dust_rules([LoggedUrl(each.url, each.cluster) for each in known]).rules]
    assert rules
    for rule in rules:
        for text in (rule.find, rule.put):
            framed = "/" * rule.at_start + text + "/" * rule.at_end
            assert framed[0] in DELIMITERS, rule
            assert framed[-1] in DELIMITERS, rule


def test_a_number_is_not_taken_for_a_part_of_another() -> None:
    run = SiteRules("x.org", learn_site("x.org", versions(), "dust").rules)
    one, other = (f"http://x.org/doc/1.{n}/reference/generated/numpy.ma.MaskA7.html" for n in (11, 13))
    assert run.apply(one)[0] == run.apply(other)[0]
    for n in (3, 9, 21, 23, 131):
        url = f"http://x.org/doc/1.{n}/reference/generated/numpy.ma.MaskA7.html"
        assert run.apply(url)[0] == url
