"""DustBuster: each phase, and the seven rules of the forum site, found from sizes alone and from digests."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from plain_dustbuster import likely_rules, outcomes

from dustream.core.rules.dustbuster import (
    DustSettings,
    LoggedUrl,
    RulePair,
    detect_likely_rules,
    dust_rules,
    eliminate_redundancies,
    rules_of_list,
    url_list,
)
from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.rewrite import replaced
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import RuleSet, SubstringRewrite
from dustream.streams.generate.planted_sites import Draw

FORUM = "http://www.forum.co.il/"
# Figure 7 of the paper: substring, substitute, and the URLs that show it.
SEVEN_RULES = [
    (".co.il/story_", ".co.il/story?id=", FORUM + "story_{}", FORUM + "story?id={}"),
    ("&LastView=&Close=", "", FORUM + "thread?rep={}&LastView=&Close=", FORUM + "thread?rep={}"),
    (".php3?", "?", FORUM + "story.php3?id={}", FORUM + "story?id={}"),
    (".il/story_", ".il/story.php3?id=", FORUM + "story_{}", FORUM + "story.php3?id={}"),
    ("&NewOnly=1&tvqz=2", "&NewOnly=1", FORUM + "list?forum={}&NewOnly=1&tvqz=2", FORUM + "list?forum={}&NewOnly=1"),
    (".co.il/thread_", ".co.il/thread?rep=", FORUM + "thread_{}", FORUM + "thread?rep={}"),
    ("http://www.forum.co.il/story_", "http://www.forum.co.il/story?id=", FORUM + "story_{}", FORUM + "story?id={}"),
]


def forum_log(with_digests: bool) -> list[LoggedUrl]:
    """Requests of 400 stories, threads and lists, each under some of its URLs; a page may grow between requests."""
    draw = Draw(11)
    log = []
    for number in range(103, 7000, 17):
        for section in ("story", "thread", "list"):
            size = 2_000 + draw.below(500_000)
            forms = {form.format(number) for rule in SEVEN_RULES for form in rule[2:] if f"/{section}" in form}
            for url in sorted(forms):
                if draw.chance(70):
                    for seen in (size, size + draw.below(5)):
                        log.append(LoggedUrl(url, f"{section} {number}" if with_digests else None, seen, seen))
    return log


@pytest.fixture(scope="module", params=[True, False], ids=["digests", "sizes"])
def log(request: pytest.FixtureRequest) -> list[LoggedUrl]:
    return forum_log(request.param)


def test_all_seven_forum_rules_are_detected(log: list[LoggedUrl]) -> None:
    detected, truncated = detect_likely_rules(url_list(log), DustSettings())
    found = {frozenset((rule.alpha.strip("\x02\x03"), rule.beta.strip("\x02\x03"))) for rule in detected}
    assert not truncated
    for alpha, beta, _, _ in SEVEN_RULES:
        assert frozenset((alpha, beta)) in found


def test_all_seven_forum_rules_are_valid_and_lead_to_one_url(log: list[LoggedUrl]) -> None:
    findings = dust_rules(log)
    assert findings.remaining < findings.detected / 5
    site = "forum.co.il"
    entries = [SiteUrl(e.url, e.sketch, e.size_min, e.size_max) for e in log]
    anywhere = LearnSettings().with_landing(LandingSettings(wrong_share_max=1, unknown_share_max=1))
    learned = [replace(rule, stage="active") for rule in learn_site(site, entries, "dust", anywhere).rules]
    normalizer = Normalizer([RuleSet(site=site, version=1, rules=tuple(learned))])
    for _, _, before, after in SEVEN_RULES:
        assert normalizer.normalize(before.format(7777)) == normalizer.normalize(after.format(7777)), before
    assert normalizer.normalize(FORUM + "story_1") != normalizer.normalize(FORUM + "story_2")
    assert normalizer.normalize(FORUM + "story_1") != normalizer.normalize(FORUM + "thread_1")


def test_support_is_the_number_of_common_envelopes() -> None:
    urls = [LoggedUrl(f"http://x.com/{kind}/{i}.html", str(i)) for i in range(7) for kind in ("a", "bb")]
    detected, _ = detect_likely_rules(url_list(urls), DustSettings())
    support = {(rule.alpha, rule.beta): rule.support for rule in detected}
    assert support["/bb/", "/a/"] == 7
    assert support["bb", "a"] == 7


def test_refinement_and_elimination() -> None:
    broad, narrow = RulePair("story?id=", "story_", 10), RulePair(".il/story?id=", ".il/story_", 10)
    other = RulePair("/thread?id=", "/thread_", 10)
    settings = DustSettings()
    assert eliminate_redundancies([narrow, other, broad], settings) == [narrow, other]
    assert eliminate_redundancies([narrow, broad], settings) == [narrow]
    assert eliminate_redundancies([broad, narrow], settings) == [narrow]
    far = narrow._replace(support=5)
    assert eliminate_redundancies([broad, far], settings) == [broad, far]


def test_a_fetcher_is_asked_about_outcomes_that_are_not_known() -> None:
    known = [LoggedUrl(f"http://x.com/{kind}/{i}", str(i)) for i in range(5) for kind in ("old", "new")]
    lone = [LoggedUrl(f"http://x.com/old/{i}", str(i)) for i in range(100, 300)]
    asked = []

    def refuses(url: str) -> str | None:
        asked.append(url)
        return None

    assert ["old" in rule.rewrite.find for rule in dust_rules([*known, *lone]).rules] == [True]
    assert ["old" in rule.rewrite.find for rule in dust_rules([*known, *lone], fetch=refuses).rules] == [False]
    assert asked


def test_what_only_sizes_support_is_active_only_if_fetched_pages_are_alike() -> None:
    known = [
        SiteUrl(f"http://x.com/{kind}/{i}", None, 1000 + i, 1000 + i) for i in range(40) for kind in ("old", "new")
    ]
    asked: list[str] = []

    def by_number(url: str) -> str | None:
        asked.append(url)
        return url.rsplit("/", 1)[1]

    assert [rule.stage for rule in learn_site("x.com", known).rules] == ["shadow"]
    (rule,) = learn_site("x.com", known, fetch=by_number).rules
    assert (rule.stage, rule.evidence, rule.support, rule.false_positives) == ("active", "size", 40, 0)
    assert len(asked) >= 80
    assert "active" not in {rule.stage for rule in learn_site("x.com", known, fetch=lambda url: url).rules}
    assert "active" not in {rule.stage for rule in learn_site("x.com", known, fetch=lambda url: None).rules}


def test_rules_that_would_find_themselves_again_are_not_made() -> None:
    urls = [LoggedUrl(f"http://x.com/a/{i}{tail}", str(i)) for i in range(20) for tail in ("", "/a")]
    for rule in dust_rules(urls).rules:
        assert rule.rewrite.find not in rule.rewrite.put


PIECES = st.sampled_from(["a", "b", "aa", "aba", "/", "/x", "?", "?s=1", "&t=2", "index", ".html", "é", "1", "12"])
TAILS = st.lists(PIECES, max_size=4).map("".join)
PAGES = st.lists(st.tuples(TAILS, st.integers(0, 3), st.integers(0, 5)), max_size=14, unique_by=lambda page: page[0])


@given(PAGES, st.booleans(), st.sampled_from([4, 12, 35]), st.sampled_from([2, 3]))
@settings(max_examples=150)
def test_likely_rules_are_those_of_the_paper(
    pages: list[tuple[str, int, int]], with_digests: bool, substring_max: int, ms: int
) -> None:
    urls = [
        LoggedUrl("http://x.com/" + tail, str(page) if with_digests else None, size, size) for tail, page, size in pages
    ]
    log = list({entry.url: entry for entry in (e._replace(url=standard_form(e.url)) for e in urls)}.values())
    chosen = DustSettings(substring_max=substring_max, ms=ms)
    detected, _ = detect_likely_rules(url_list(log), chosen)
    plain = likely_rules(log, chosen)
    found = {frozenset((rule.alpha, rule.beta)): rule.support for rule in detected}
    assert found == {pair: count for pair, count in plain.items() if len(pair) == 2}


@given(PAGES)
@settings(max_examples=150)
def test_a_rule_counts_the_outcomes_that_are_known(pages: list[tuple[str, int, int]]) -> None:
    """But for outcomes with another standard form, of which `plain_dustbuster` knows nothing."""
    log = [LoggedUrl("http://x.com/a/" + tail.strip("?é/"), str(page)) for tail, page, _ in pages]
    log = list({entry.url: entry for entry in log}.values())
    for rule in dust_rules(log, DustSettings(ms=2)).rules:
        frame = ("\x02" if rule.rewrite.at_start else "", "\x03" if rule.rewrite.at_end else "")
        find, put = (frame[0] + each + frame[1] for each in (rule.rewrite.find, rule.rewrite.put))
        scoped = [entry for entry in log if entry.url.startswith(rule.rewrite.scope)]
        told = outcomes(scoped, find, put)
        assert (rule.right, rule.wrong) >= (told[True], told[False])
        assert (rule.right, rule.wrong) == (told[True], told[False]) or "?" in find + put


def test_a_rule_tells_which_listed_url_each_becomes(log: list[LoggedUrl]) -> None:
    listed = url_list(log)
    rules = rules_of_list(listed).rules
    assert rules
    for rule in rules:
        found = [row for row, url in enumerate(listed.urls) if replaced(rule.rewrite, url) is not None]
        assert rule.rows.tolist() == found
        becomes = [standard_form(replaced(rule.rewrite, listed.urls[row]) or "") for row in found]
        assert rule.landed.tolist() == [listed.row_of.get(url, -1) for url in becomes]


def test_a_fetcher_is_asked_about_the_names_of_clusters() -> None:
    known = [SiteUrl(f"http://x.com/{kind}/{i}", f"page {i}") for i in range(5) for kind in ("old", "new")]
    lone = [SiteUrl(f"http://x.com/old/{i}", f"page {i}") for i in range(100, 300)]

    def finds(url: str) -> str | None:
        return f"page {url.rsplit('/', 1)[1]}"

    for fetch, leads_to_new in ((finds, True), (lambda url: "not found", False)):
        rules = learn_site("x.com", [*known, *lone], "dust", fetch=fetch).rules
        assert ["new" in rule.rewrite.put for rule in rules if isinstance(rule.rewrite, SubstringRewrite)] == [
            leads_to_new
        ]


def test_a_sample_of_the_clusters_is_enough_to_find_what_all_urls_then_prove() -> None:
    known = [SiteUrl(f"http://x.com/{kind}/p{i:04}/x", str(i)) for i in range(600) for kind in ("old", "new/and")]
    whole, part = (
        learn_site("x.com", known, "dust", LearnSettings(dust_urls_max=urls_max)).rules for urls_max in (20_000, 100)
    )
    assert [(rule.id, rule.support) for rule in whole] == [(rule.id, rule.support) for rule in part]
    assert whole[0].support == 600
