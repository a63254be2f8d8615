"""Rules read as what URLs look like before and after."""

from __future__ import annotations

import pytest

from dustream.core.rules.learn import SiteUrl, learn_site
from dustream.core.rules.wording import describe
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, SubstringRewrite, UrlRule
from dustream.streams.generate.planted_sites import planted_site

HOST = (KeyTest("scheme", "is", "https"), KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "x"))
DOCS = KeyTest("path_0", "is", "docs")


def rule(rewrite: Rewrite, *examples: str) -> UrlRule:
    pairs = tuple((url, url) for url in examples)
    return UrlRule(
        id="", rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree", examples=pairs
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "rewrite", "examples"),
    [
        (
            "/docs/<version>/<*> → /docs/latest/<*> on https://x.com",
            PatternRewrite(
                (*HOST, DOCS, KeyTest("path_1", "some"), KeyTest("path_2", "some")),
                (KeyWrite("path_1", "set", "latest"),),
            ),
            ["https://x.com/docs/v1.2/a", "https://x.com/docs/2.0.1/b"],
        ),
        (
            "/docs/<not b|c>/<*>[/<**>].html → /docs/b/<*>[/<**>].html on https://x.com",
            PatternRewrite(
                (*HOST, DOCS, KeyTest("path_1", "some", unless=("b", "c")), KeyTest("path_2", "some"),
                 KeyTest("path_3", "any"), KeyTest("path_4", "any"), KeyTest("ext", "is", "html")),
                (KeyWrite("path_1", "set", "b"),),
            ),
            [],
        ),
        (
            "drop ?sid, ?print=1 in https://x.com/<*>?id=<number>[&q=<*>]",
            PatternRewrite(
                (*HOST, KeyTest("path_0", "some"), KeyTest("?id=", "digits"), KeyTest("?q=", "any"),
                 KeyTest("?sid=", "any"), KeyTest("?print=", "is", "1")),
                (KeyWrite("?sid=", "drop"), KeyWrite("?print=", "drop")),
            ),
            [],
        ),
        (
            "/<*>.html → /<*>/index.html on https://x.com",
            PatternRewrite(
                (*HOST, KeyTest("path_0", "some"), KeyTest("ext", "is", "html")), (KeyWrite("path_1", "set", "index"),)
            ),
            [],
        ),
        (
            "/<number1>/<*2> → /<*2>/<number1> on https://x.com",
            PatternRewrite(
                (*HOST, KeyTest("path_0", "digits"), KeyTest("path_1", "some")),
                (KeyWrite("path_0", "copy", "path_1"), KeyWrite("path_1", "copy", "path_0")),
            ),
            [],
        ),
        (
            "http(s)://www.x.com/<*> → https://x.com/<*>",
            PatternRewrite(
                (KeyTest("scheme", "some"), *HOST[1:], KeyTest("host_2", "is", "www"), KeyTest("path_0", "some")),
                (KeyWrite("scheme", "set", "https"), KeyWrite("host_2", "drop")),
            ),
            [],
        ),
        (
            "/docs/<**>.html → /docs/<**>/index.html on https://x.com",
            SubstringRewrite("https://x.com/docs/", ".html", "/index.html", at_end=True), [],
        ),
        (
            "/docs/<**>/print/<**> → /docs/<**>/item/<**> on https://x.com",
            SubstringRewrite("https://x.com/docs/", "/print/", "/item/"), [],
        ),
        (
            "/docs/v1/a/<**> → /docs/v2/a/<**> on https://x.com",
            SubstringRewrite("https://x.com/docs/v1/", "/v1/a/", "/v2/a/"), ["https://x.com/docs/v1/a/b"],
        ),
        ("drop &print=1 in https://x.com/<**>", SubstringRewrite("https://x.com/", "&print=1", ""), []),
        (
            "drop ?ref in <**>.x.com", PatternRewrite((*HOST[1:], KeyTest("?ref=", "some")),
                                                     (KeyWrite("?ref=", "drop"),), open=True), [],
        ),
    ],
)  # fmt: skip
def test_rules_read_like_rules(words: str, rewrite: Rewrite, examples: list[str]) -> None:
    assert describe(rule(rewrite, *examples)) == words


def test_a_learned_rule_has_its_text_and_urls_for_and_against_it() -> None:
    """Of 60 session ids one is on another page."""
    known = [SiteUrl(f"http://x.com/p/{i}", f"page{i}") for i in range(60)]
    known += [SiteUrl(f"http://x.com/p/{i}?sid={i * 7}", f"page{i}" if i else "another") for i in range(60)]
    (learned,) = learn_site("x.com", known).rules
    assert learned.text == "drop ?sid=<number> in http://x.com/p/<number>"
    assert learned.against == (("http://x.com/p/0?sid=0", "http://x.com/p/0"),)
    assert len(set(learned.examples)) == 3 and learned.saved == learned.support == 59
    assert all(before.split("?")[0] == after for before, after in learned.examples)


def test_every_learned_rule_has_a_text_and_examples() -> None:
    for number in range(6):
        planted = planted_site(number)
        rules = learn_site(planted.site, planted.known).rules
        assert all(each.text == describe(each) and each.text and each.examples for each in rules)
        assert len({each.text for each in rules}) == len(rules)


def test_what_is_saved_where_urls_meet_at_one_that_was_never_seen() -> None:
    """Two of three URLs of each page need not be fetched."""
    known = [SiteUrl(f"http://x.com/p/{i}?sid={i}x{n}", f"page{i}") for i in range(40) for n in range(3)]
    (learned,) = learn_site("x.com", known).rules
    assert (learned.support, learned.saved) == (120, 80)
