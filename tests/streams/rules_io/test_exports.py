"""What other programs do with an export is what the rule does: to no other URL, and to all in the order they come."""

from __future__ import annotations

import json
import re
from itertools import permutations
from xml.etree import ElementTree

import pytest

from dustream.core.rules.learn import learn_site
from dustream.core.rules.rewrite import rewriter, rule_id
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.generate.planted_sites import planted_site
from dustream.streams.rules_io.exports import to_adguard, to_clearurls, to_nutch
from dustream.streams.rules_io.imports import import_rules

SITE = "x.com"
HOST = (KeyTest("scheme", "is", "https"), KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "x"))
DROPS = {
    "one value": PatternRewrite(
        (*HOST, KeyTest("path_0", "some"), KeyTest("path_1", "some"), KeyTest("?print=", "is", "1")),
        (KeyWrite("?print=", "drop"),),
    ),
    "optional keys": PatternRewrite(
        (*HOST, KeyTest("path_0", "some"), KeyTest("path_1", "any"), KeyTest("ext", "any"), KeyTest("?id=", "any"),
         KeyTest("?cat=", "any"), KeyTest("?print=", "any"), KeyTest("?sid=", "any")),
        (KeyWrite("?print=", "drop"), KeyWrite("?sid=", "drop")),
    ),
    "one key needed": PatternRewrite(
        (*HOST, KeyTest("path_0", "is", "a"), KeyTest("path_1", "some", unless=("b",)), KeyTest("ext", "is", "php"),
         KeyTest("?id=", "digits"), KeyTest("?cat=", "any"), KeyTest("?sid=", "some")),
        (KeyWrite("?sid=", "drop"),),
    ),
}  # fmt: skip
OTHERS = {
    "host and path": PatternRewrite(
        (KeyTest("scheme", "some"), *HOST[1:], KeyTest("host_2", "any"), KeyTest("path_0", "some"),
         KeyTest("path_1", "any"), KeyTest("ext", "any"), KeyTest("?sid=", "any")),
        (KeyWrite("scheme", "set", "https"), KeyWrite("host_2", "set", "www"), KeyWrite("path_1", "set", ""),
         KeyWrite("ext", "drop"), KeyWrite("?sid=", "drop")),
    ),
    "swapped": PatternRewrite(
        (*HOST, KeyTest("path_0", "digits"), KeyTest("path_1", "some")),
        (KeyWrite("path_0", "copy", "path_1"), KeyWrite("path_1", "copy", "path_0")),
    ),
    "substring": SubstringRewrite("https://x.com/a/", "/c", "/$1"),
}  # fmt: skip
PAIRS = ("id=7", "id=x", "cat=2", "print=1", "print=12", "sid=ab", "sid=", "other=1", "sid")
URLS = [
    f"{origin}/{path}{query}"
    for origin in ("https://x.com", "http://x.com", "https://www.x.com", "https://y.com", "https://a.www.x.com")
    for path in ("", "a", "a/", "a/b", "a/c.php", "a/b.php", "a/.php", "a/c.d.html", "1/2", "12/c", "A/c", "a/b/c")
    for query in (
        "", *(f"?{pair}" for pair in PAIRS), *(f"?{'&'.join(some)}" for some in permutations(PAIRS[:6], 2)),
        "?sid=1&sid=2", "?id=7&sid=1&cat=2", "?print=1&id=7&sid=1&cat=2&print=3", "?sid=1&cat=2&print=1&id=7",
    )
]  # fmt: skip


def rule(rewrite: Rewrite, *examples: tuple[str, str]) -> RuleSet:
    made = UrlRule(
        id=rule_id(SITE, rewrite), rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree",
        examples=examples,
    )  # fmt: skip
    return RuleSet(site=SITE, version=1, rules=(made,))


def nutch(text: str, url: str) -> str:
    for regex in ElementTree.fromstring(text).iter("regex"):
        substitution = re.sub(r"\\(.)|\$(\d+)", _python, regex.findtext("substitution") or "")
        url = re.sub(regex.findtext("pattern") or "", substitution, url)
    return url


def _python(found: re.Match[str]) -> str:
    return f"\\g<{found[2]}>" if found[2] else found[1].replace("\\", "\\\\")


def without(url: str, names: list[str]) -> str:
    before, _, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair.split("=")[0] not in names]
    return f"{before}?{'&'.join(kept)}" if query and kept else before


def clearurls(text: str, url: str) -> str:
    """As ClearURLs does it; it takes no notice of case, so that is not asked here."""
    for provider in json.loads(text)["providers"].values():
        if re.search(provider["urlPattern"], url):
            url = without(url, [name.replace("\\", "") for name in provider["rules"]])
    return url


def adguard(text: str, url: str) -> str:
    names = []
    for line in [line for line in text.splitlines() if not line.startswith("!")]:
        pattern, _, options = line.rpartition("$")
        assert pattern[0] == pattern[-1] == "/" and options.startswith("match-case,removeparam=")
        names += [options.partition("=")[2]] if re.search(pattern[1:-1].replace(r"\/", "/"), url) else []
    return without(url, names) if names else url


@pytest.mark.parametrize("name", [*DROPS, *OTHERS])
def test_nutch_does_what_the_rule_does(name: str) -> None:
    rewrite = {**DROPS, **OTHERS}[name]
    exported, run = to_nutch([rule(rewrite)]), rewriter(rewrite)
    assert exported.left_out == []
    changed = 0
    for url in URLS:
        expected = run.apply(url) or url
        changed += expected != url
        assert nutch(exported.text, url) == expected, url
    assert changed > 1


@pytest.mark.parametrize(("export", "does"), [(to_adguard, adguard), (to_clearurls, clearurls)])
@pytest.mark.parametrize("name", DROPS)
def test_filters_do_what_the_rule_does(name: str, export, does) -> None:  # type: ignore[no-untyped-def]
    exported, run = export([rule(DROPS[name])]), rewriter(DROPS[name])
    assert exported.left_out == []
    for url in URLS:
        assert does(exported.text, url) == (run.apply(url) or url), url


@pytest.mark.parametrize("export", [to_adguard, to_clearurls])
def test_filters_leave_out_what_they_cannot_say(export) -> None:  # type: ignore[no-untyped-def]
    for rewrite in OTHERS.values():
        assert len(export([rule(rewrite)]).left_out) == 1


def test_what_no_pattern_can_say_is_left_out() -> None:
    """A part is set behind one that may be missing: then the rule does nothing, and a pattern would do something."""
    rewrite = PatternRewrite(
        (*HOST, KeyTest("path_0", "some"), KeyTest("path_1", "any"), KeyTest("path_2", "any")),
        (KeyWrite("path_2", "set", ""),),
    )
    assert len(to_nutch([rule(rewrite)]).left_out) == 1
    two = (*HOST, KeyTest("path_0", "some"), KeyTest(";v=", "some"), KeyTest(";w=", "some"))
    assert len(to_nutch([rule(PatternRewrite(two, (KeyWrite(";v=", "drop"),)))]).left_out) == 1


@pytest.mark.parametrize("number", range(6))
def test_exports_of_learned_rules_do_to_their_sites_what_the_rules_do(number: int) -> None:
    planted = planted_site(number)
    learned = learn_site(planted.site, planted.known).rules
    for each in [rule for rule in learned if rule.stage == "active"]:
        rules, run = RuleSet(site=planted.site, version=1, rules=(each,)), rewriter(each.rewrite)
        for export, does in ((to_nutch, nutch), (to_adguard, adguard), (to_clearurls, clearurls)):
            exported = export([rules])
            examples = [] if exported.left_out else [url for url, _ in each.examples]
            assert [does(exported.text, url) for url in examples] == [run.apply(url) for url in examples]
            for url in (entry.url for entry in planted.known[::20]):
                assert does(exported.text, url) in (url, run.apply(url))


@pytest.mark.parametrize(("kind", "export"), [("adguard", to_adguard), ("clearurls", to_clearurls)])
def test_a_rule_for_a_whole_host_comes_back(kind: str, export) -> None:  # type: ignore[no-untyped-def]
    (imported,) = import_rules("adguard", "||www.x.com^$removeparam=ref\n", "active").rule_sets
    exported = export([imported])
    assert exported.left_out == []
    assert import_rules(kind, exported.text, "active").rule_sets == [imported]


def test_a_provider_that_asks_for_more_than_directories_is_not_understood() -> None:
    exported = to_clearurls([rule(DROPS["one value"])])
    found = import_rules("clearurls", exported.text)
    assert (found.rule_sets, len(found.skipped)) == ([], 1)
