"""What a task keeps of a site between two learnings, against learning from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.rules import known_site
from dustream.core.rules.known_site import KnownSite, RulesSettings, SiteUrlRow, learned_rules
from dustream.core.rules.learn import LearnSettings
from dustream.core.rules.life import LifeSettings
from dustream.streams.generate.planted_sites import Draw, planted_site

SITE = "site2.com"
EASY = RulesSettings(learn=LearnSettings(gain_min=1), life=LifeSettings(shadow_support_min=1, active_right_min=1))

URLS = st.builds(
    "http://site2.com/{}/{}{}".format, st.sampled_from("ab"), st.integers(0, 9), st.sampled_from(["", "?s=1", "?s=2"])
)
CHANGES = st.lists(st.tuples(URLS, st.sampled_from(["x", "y", "z", None, "gone"]), st.integers(0, 3)), max_size=25)


@given(st.lists(CHANGES, max_size=6))
@settings(max_examples=60)
def test_learning_again_and_again_equals_learning_from_scratch(steps: list[list[tuple[str, str | None, int]]]) -> None:
    site, rows = KnownSite(), dict[str, SiteUrlRow]()
    for step in steps:
        for url, cluster, since in step:
            if cluster == "gone":
                rows.pop(url, None)
                site.forget(url)
            else:
                page = cluster and f"{cluster} {url[19:21]}"  # what the page shows, mostly by its directory and number
                rows[url] = SiteUrlRow(url, (1, 0), page, avoid=since == 3, since=since)
                site.take(rows[url])
        assert site.rules(SITE, EASY) == learned_rules(SITE, rows.values(), EASY)


def changing_site(number: int, steps: int) -> Iterator[dict[str, SiteUrlRow]]:
    """A planted site that grows, and of which a few pages change at every step."""
    draw, planted = Draw(number), planted_site(number)
    rows: dict[str, SiteUrlRow] = {}
    for step in range(steps):
        for entry in planted.known[step::steps]:
            rows[entry.url] = SiteUrlRow(entry.url, (1, 0), entry.cluster, since=step)
        for url in draw.choice(sorted(rows)), draw.choice(sorted(rows)):
            rows[url] = SiteUrlRow(url, (2, 0), f"new {draw.hex(4)}", since=step)
        yield dict(rows)


def test_a_site_that_grows_has_the_rules_of_its_urls_at_every_step() -> None:
    site, before, found = KnownSite(), dict[str, SiteUrlRow](), set[int]()
    for rows in changing_site(2, 8):
        for url, row in rows.items():
            if before.get(url) != row:
                site.take(row)
        before = rows
        rules = site.rules(SITE, RulesSettings())
        assert rules == learned_rules(SITE, rows.values(), RulesSettings())
        found.add(len(rules))
    assert max(found) > 1


def test_names_of_clusters_have_no_say() -> None:
    rows = [SiteUrlRow(e.url, (1, 0), e.cluster, since=i) for i, e in enumerate(planted_site(3).known)]
    renamed = [SiteUrlRow(r.url, (1, 0), str(r.cluster)[::-1] + "!", since=r.since) for r in rows]
    assert learned_rules(SITE, rows, RulesSettings()) == learned_rules(SITE, renamed, RulesSettings()) != ()


def test_a_site_is_learned_again_only_if_other_urls_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[str] = []
    learn = known_site.learn_urls

    def counted(site: str, *args: Any, **options: Any) -> Any:
        learned.append(site)
        return learn(site, *args, **options)

    monkeypatch.setattr(known_site, "learn_urls", counted)
    rows = [SiteUrlRow(e.url, (1, 0), e.cluster, since=1) for e in planted_site(3).known]
    site = KnownSite(rows)
    first = site.rules(SITE, RulesSettings())
    for row in rows:
        site.take(SiteUrlRow(row.url, (2, 0), f"another winner: {row.cluster}", since=1))
    assert site.rules(SITE, RulesSettings()) == first
    assert len(learned) == 1
    for row in rows[::2]:
        site.take(SiteUrlRow(row.url, (3, 0), row.url, since=1))
    assert site.rules(SITE, RulesSettings()) != first
    assert len(learned) == 2
