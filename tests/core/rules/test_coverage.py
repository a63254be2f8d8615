"""A sample of a site says how much of the site it is; rules learned from it lead to URLs that exist."""

from __future__ import annotations

import zlib

import pytest

from dustream.core.rules.coverage import known_share
from dustream.core.rules.learn import SiteUrl, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.training import KnownUrl, training_set

VERSIONS = [f"{major}.{minor}" for major in (1, 2, 3) for minor in range(6)]


def manual(pages: int = 1_200) -> list[SiteUrl]:
    """A manual in 18 versions and `stable`, which is the newest. Every version has some pages more than the one before;
    the pages of the tutorial have been the same since the tenth version."""
    known = []
    for age, version in enumerate([*VERSIONS, "stable"]):
        newest = min(age, len(VERSIONS) - 1)
        for page in range(pages - 10 * (len(VERSIONS) - 1 - newest)):
            known.append(SiteUrl(f"https://x.org/doc/{version}/ref/page{page}.html", f"{page} of {newest}"))
        for lesson in range(14 if newest >= 9 else 8):
            known.append(SiteUrl(f"https://x.org/doc/{version}/tutorial/lesson{lesson}.html", f"lesson {lesson}"))
    return known


def drawn(known: list[SiteUrl], percent: int, draw: int) -> list[SiteUrl]:
    return [entry for entry in known if zlib.crc32(f"{draw} {entry.url}".encode()) % 1000 < 10 * percent]


def share_of(known: list[SiteUrl]) -> float:
    return known_share(training_set(KnownUrl(entry.url, entry.cluster) for entry in known))


@pytest.mark.parametrize("percent", [10, 20, 50])
def test_a_sample_is_known_to_be_one(percent: int) -> None:
    for draw in range(5):
        assert 0.75 * percent <= 100 * share_of(drawn(manual(), percent, draw)) <= 1.5 * percent


def test_a_whole_list_is_known_to_be_whole() -> None:
    assert share_of(manual()) == 1


def test_a_site_without_siblings_tells_nothing() -> None:
    known = [SiteUrl(f"https://x.org/{i % 7}/page{i}.html", str(i)) for i in range(500)]
    assert share_of(known) == 1
    pair = [SiteUrl(f"https://{host}.x.org/page{i}.html", str(i)) for i in range(200) for host in ("a", "b")]
    assert share_of(drawn(pair, 50, 0)) == 1  # half a mirror and half of a mirror look the same


@pytest.mark.parametrize("draw", range(5))
def test_whole_clusters_do_not_hide_that_a_rule_is_wrong(draw: int) -> None:
    """Every fifth print view shows a page of its own: it is drawn without the page that it looks like."""
    known = []
    for i in range(3_000):
        known += [SiteUrl(f"https://x.org/{kind}/{i}", f"{i}") for kind in ("item", "mobile")]
        known.append(SiteUrl(f"https://x.org/print/{i}", f"print {i}" if i % 5 == 0 else f"{i}"))
    chosen = [entry for entry in known if zlib.crc32(f"{draw} {entry.cluster}".encode()) % 20 == 0]
    run = SiteRules("x.org", learn_site("x.org", chosen).rules)
    assert run.apply("https://x.org/print/77")[0] == "https://x.org/print/77"
    assert run.apply("https://x.org/mobile/77")[0] == run.apply("https://x.org/item/77")[0]


@pytest.mark.parametrize("percent", [10, 20, 50])
def test_rules_from_a_sample_lead_to_urls_that_exist(percent: int) -> None:
    whole = manual()
    pages = {entry.url: entry.cluster for entry in whole}
    rewritten = 0
    for draw in range(5):
        run = SiteRules("x.org", learn_site("x.org", drawn(whole, percent, draw)).rules)
        ends = {url: run.apply(url)[0] for url in pages}
        changed = {url: end for url, end in ends.items() if url != end}
        assert sum(end not in pages for end in changed.values()) <= 0.005 * len(changed)
        assert all(pages[url] == pages[end] for url, end in changed.items() if end in pages)
        rewritten += len(changed)
    assert rewritten / 5 >= 1_000


def test_what_stands_for_all_exists_where_the_rule_is_about() -> None:
    """`api` is the most frequent value on the site, and has no tutorial."""
    api = [SiteUrl(f"https://x.org/doc/api/ref/call{i}.html", f"call {i}") for i in range(3_000)]
    tutorial = [
        SiteUrl(f"https://x.org/doc/{version}/tutorial/lesson{i}.html", f"lesson {i}")
        for version in VERSIONS
        for i in range(12)
    ]
    run = SiteRules("x.org", learn_site("x.org", [*api, *tutorial]).rules)
    ends = {run.apply(entry.url)[0] for entry in tutorial}
    assert len(ends) == 12
    assert ends <= {entry.url for entry in tutorial}


def test_where_nothing_stands_for_all_the_rest_of_the_rule_is_left() -> None:
    """Every URL has a session id, so no directory is known to have a URL that the whole rule would make."""
    known = [
        SiteUrl(f"https://x.org/{place}/page{i}?sid={place}{i}{n}", f"page {i}")
        for place in ("a", "b", "c")
        for i in range(40)
        for n in range(2)
    ]
    run = SiteRules("x.org", learn_site("x.org", known).rules)
    assert len({run.apply(entry.url)[0] for entry in known}) <= 120


def test_rules_do_not_depend_on_the_order_of_urls() -> None:
    known = drawn(manual(400), 50, 1)
    rules = learn_site("x.org", known).rules
    for draw in range(3):
        shuffled = sorted(known, key=lambda entry: zlib.crc32(f"{draw} {entry.url}".encode()))
        assert learn_site("x.org", shuffled).rules == rules
