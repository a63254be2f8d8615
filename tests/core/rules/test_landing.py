"""Where rules lead: to a duplicate, to something else, or nowhere that anybody knows."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.rules.landing import (
    MEETS,
    UNCOUNTED,
    UNKNOWN,
    WRONG,
    Landing,
    LandingSettings,
    Targets,
    counted,
    counted_by_page,
    ways_of,
)
from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.scores import Normalized, landing
from dustream.core.rules.wording import evidence_words

Page = tuple[int, bool]
"""A cluster (−1: not known), and whether the URL redirects or is gone."""
PAGES = st.tuples(st.integers(-1, 2), st.booleans())


def plain_way(page: Page, target: int, seen: dict[int, Page], arriving: list[int]) -> int:
    cluster, gone = page
    if cluster < 0:
        return UNCOUNTED if gone else WRONG if target in seen and seen[target][1] else UNKNOWN
    if target in seen:
        there, avoid = seen[target]
        return WRONG if avoid else UNKNOWN if there < 0 else MEETS if there == cluster else WRONG
    known = Counter(each for each in arriving if each >= 0)
    if known.total() < 2:
        return UNKNOWN
    return MEETS if 2 * known[cluster] > known.total() else WRONG


@given(st.lists(st.tuples(PAGES, st.integers(0, 4)), min_size=1), st.dictionaries(st.integers(0, 4), PAGES))
def test_ways_are_what_a_plain_count_says(changed: list[tuple[Page, int]], seen: dict[int, Page]) -> None:
    arriving: defaultdict[int, list[int]] = defaultdict(list)
    for (cluster, _), target in changed:
        arriving[target].append(cluster)
    ways = ways_of(
        np.array([cluster for (cluster, _), _ in changed], np.int32),
        np.array([gone for (_, gone), _ in changed], np.bool_),
        Targets(
            np.array([target for _, target in changed], np.uint64),
            np.array([target in seen for _, target in changed], np.bool_),
            np.array([seen.get(target, (-1, False))[0] for _, target in changed], np.int32),
            np.array([seen.get(target, (-1, False))[1] for _, target in changed], np.bool_),
        ),
    )
    assert ways.tolist() == [plain_way(page, target, seen, arriving[target]) for page, target in changed]
    assert counted(ways) == tuple(ways.tolist().count(way) for way in (MEETS, UNKNOWN, WRONG))


def test_shares_decide() -> None:
    shares = LandingSettings(wrong_share_max=0.1, unknown_share_max=0.2)
    assert Landing(8, 2, 0).is_safe(shares)
    assert not Landing(7, 3, 0).is_safe(shares)
    assert Landing(9, 0, 1).is_safe(shares)
    assert not Landing(8, 0, 2).is_safe(shares)
    assert not Landing(200, 800, 0).is_safe(shares)
    assert Landing(200, 800, 0).is_safe(shares._replace(known_share=0.2))
    assert not Landing(100, 900, 0).is_safe(shares._replace(known_share=0.2))


def test_each_page_counts_once() -> None:
    ways = np.array([MEETS] * 90 + [UNKNOWN] * 4 + [WRONG, MEETS, UNKNOWN, UNCOUNTED], np.int8)
    clusters = np.array([1] * 50 + [2] * 40 + [3, 4, 5, 6] + [7, 7, 1, 8], np.int32)
    assert counted_by_page(ways, clusters) == Landing(meets=2, unknown=4, wrong=1)
    assert counted_by_page(ways[90:94], np.full(4, -1, np.int32)) == Landing(0, 4, 0)


def test_a_page_under_many_urls_does_not_outvote_the_others() -> None:
    """Session ids are noise on ten pages, each under 60 URLs; on 20 other pages nobody knows. If the URLs without a
    session id are known for the ten, they should be known for the others, too."""
    known = [SiteUrl(f"https://x.com/view?id={page}&sid={i}7", f"{page}") for page in range(10) for i in range(60)]
    known += [SiteUrl(f"https://x.com/view?id={page}&sid={page}7", f"{page}") for page in range(100, 120)]
    (rule,) = learn_site("x.com", known).rules
    assert (rule.stage, rule.support, rule.unknown) == ("active", 600, 20)
    known += [SiteUrl(f"https://x.com/view?id={page}", f"{page}") for page in range(10)]
    (rule,) = learn_site("x.com", known).rules
    assert (rule.stage, rule.reason) == ("shadow", "20 of 30 pages lead to unknown URLs")


def test_unknown_targets_are_allowed_only_if_urls_are_missing_by_chance() -> None:
    """Of a sample of a fifth, a fifth of the targets is known; if four fifths are, pages were drawn whole."""
    landing, drawn = Landing(80, 20, 0), LandingSettings(known_share=0.2)
    assert landing.is_safe(drawn.with_targets_seen(22, 100))
    assert not landing.is_safe(drawn.with_targets_seen(80, 100))
    assert LandingSettings(known_share=0.6).with_targets_seen(100, 100).known_share == 0.6


KINDS = ("main", "mirror/copy")


def mirrored(pages: int, alone: int, where: str = "news") -> list[SiteUrl]:
    """A directory with a mirror; both have pages of their own, too."""
    both = [(kind, i, f"{where} {i}") for i in range(pages) for kind in KINDS]
    own = [(kind, 1000 + 1000 * n + i, f"{where} {kind} {i}") for i in range(alone) for n, kind in enumerate(KINDS)]
    return [SiteUrl(f"http://x.com/{kind}/{where}/{i}", cluster) for kind, i, cluster in both + own]


def test_a_rule_that_leads_to_pages_nobody_knows_is_a_shadow() -> None:
    good = learn_site("x.com", mirrored(40, 0)).rules
    assert [(rule.stage, rule.support, rule.unknown) for rule in good] == [("active", 40, 0)]
    beyond = learn_site("x.com", mirrored(40, 20)).rules
    assert [(rule.stage, rule.support, rule.unknown) for rule in beyond] == [("shadow", 40, 20)]
    assert evidence_words(beyond[0]) == "rewrites 60: 40 meet their duplicates, 20 unknown, 0 wrong"
    allowed = LearnSettings().with_landing(LandingSettings(unknown_share_max=0.4))
    assert [rule.stage for rule in learn_site("x.com", mirrored(40, 20), settings=allowed).rules] == ["active"]


@pytest.mark.parametrize("larger", ["main", "mirror"])
def test_a_rule_leads_where_the_pages_are(larger: str) -> None:
    """The mirror has more pages, or the main directory has."""
    known = [e for e in mirrored(40, 30) if e.url.split("/")[3] == larger or int(e.url.rsplit("/", 1)[1]) < 1000]
    (rule,) = learn_site("x.com", known).rules
    assert (rule.stage, rule.support, rule.unknown) == ("active", 40, 0)
    assert rule.examples[0][1].split("/")[3] == larger


def test_a_rule_that_leads_to_other_pages_is_a_shadow_or_none() -> None:
    known = mirrored(100, 0)
    known = [e._replace(cluster=f"other {e.url}") if "mirror" in e.url and e.url[-1] == "7" else e for e in known]
    assert "active" not in {rule.stage for rule in learn_site("x.com", known).rules}


def test_duplicates_that_meet_at_a_url_never_seen_speak_for_a_rule() -> None:
    known = [SiteUrl(f"http://x.com/buy?id={i}&sid={i}{s}", f"item {i}") for i in range(30) for s in "ab"]
    (rule,) = learn_site("x.com", known).rules
    assert (rule.stage, rule.support, rule.unknown, rule.false_positives) == ("active", 60, 0, 0)


def test_a_shadow_leaves_the_urls_to_the_rules_after_it() -> None:
    """All of /mirror/ together leads too many URLs nowhere; what is under /mirror/news/ lands."""
    known = mirrored(60, 0) + mirrored(20, 40, "blog")
    run = SiteRules("x.com", learn_site("x.com", known).rules)
    one, other = (run.apply(f"http://x.com/{kind}/news/7")[0] for kind in KINDS)
    assert one == other
    one, other = (run.apply(f"http://x.com/{kind}/blog/1007")[0] for kind in KINDS)
    assert one != other


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_of_a_sample_the_share_that_is_known_counts(share: float) -> None:
    """Every page has a mirror; only some of the URLs are in the sample."""
    known = [e for e in mirrored(900, 0) if zlib.crc32(e.url.encode()) % 1000 < 1000 * share]
    assert "active" not in {rule.stage for rule in learn_site("x.com", known).rules}
    sampled = LearnSettings().with_landing(LandingSettings(known_share=share))
    assert "active" in {rule.stage for rule in learn_site("x.com", known, settings=sampled).rules}


def test_the_landing_of_whole_rule_sets() -> None:
    urls = [
        Normalized("a?1", "a", "x"),
        Normalized("a", "a", "x"),
        Normalized("b?1", "b", "y"),
        Normalized("c?1", "c", "z"),
        Normalized("c?2", "c", "z"),
        Normalized("d?1", "d", "u"),
        Normalized("d", "d", "v"),
        Normalized("e?1", "e", None, avoid=True),
    ]
    assert landing(urls) == Landing(meets=3, unknown=1, wrong=1)
