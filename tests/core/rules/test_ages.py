"""Differences between fetches of different times: those that a change explains do not count against a rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.rules.ages import NEVER, OUTDATED, ages_of, current_clusters
from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules
from dustream.core.rules.landing import MEETS, UNCOUNTED, WRONG, Targets, ways_in_time
from dustream.schemas.rules import UrlRule

ENTRY = st.tuples(st.integers(0, 3), st.integers(-1, 2), st.integers(0, 5), st.booleans())
Entry = tuple[int, int, int, bool]


def plain_cluster(entry: Entry, entries: list[Entry]) -> int:
    """The last page of a place that changed outdates what is older and differs."""
    place, cluster, since, _ = entry
    changes = [(at, -i, other) for i, (there, other, at, changed) in enumerate(entries)
               if there == place and changed and other >= 0]  # fmt: skip
    if cluster < 0 or not changes:
        return cluster
    at, _, newest = max(changes)
    return OUTDATED if newest != cluster and since < at else cluster


@given(st.lists(ENTRY, min_size=1))
def test_current_clusters_are_what_a_plain_count_says(entries: list[Entry]) -> None:
    places, clusters, since, changed = zip(*entries, strict=True)
    ages = ages_of(np.array(since, np.int64), np.array(changed, np.bool_))
    found = current_clusters(np.array(places, np.uint64), np.array(clusters, np.int32), *ages)
    assert found.tolist() == [plain_cluster(entry, entries) for entry in entries]


def ways(pairs: list[tuple[int, int, int, int]]) -> list[int]:
    """Of URLs with known targets: own cluster and time, the target's cluster and time; from 10 on pages had changed."""
    cluster, since, target, target_since = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    none = np.zeros(len(pairs), np.bool_)
    targets = Targets(np.arange(len(pairs), dtype=np.uint64), ~none, target.astype(np.int32), none)
    ages = [ages_of(times, times >= 10)._replace(changed=np.where(times >= 10, times, NEVER), since=times)
            for times in (since, target_since)]  # fmt: skip
    return ways_in_time(cluster.astype(np.int32), none, targets, *ages).tolist()


def test_only_a_change_explains_a_difference() -> None:
    alike = [(1, 1, 1, 1)] * 3
    assert ways([*alike, (1, 1, 2, 10)]) == [MEETS] * 3 + [UNCOUNTED]
    assert ways([*alike, (1, 12, 2, 3)]) == [MEETS] * 3 + [UNCOUNTED]
    assert ways([*alike, (1, 1, 2, 9), (1, 15, 2, 15)]) == [MEETS] * 3 + [WRONG] * 2


def test_more_differences_than_duplicates_are_not_explained_by_time() -> None:
    assert ways([(1, 1, 1, 1), (1, 1, 2, 10)]) == [MEETS, UNCOUNTED]
    assert ways([(1, 1, 1, 1), (1, 1, 2, 10), (3, 1, 4, 10)]) == [MEETS, WRONG, WRONG]


def shop(wrong_every: int, changed_every: int, fetched_again: bool) -> tuple[UrlRule, ...]:
    """Items and print views. Some items change after the first crawl; print views may be fetched again, and some show
    another page."""
    rows = []
    for item in range(400):
        edition = 1 if changed_every and item % changed_every == 0 else 0
        print_edition = edition if fetched_again else 0
        is_wrong = wrong_every and item % wrong_every == 1
        rows.append(_row(f"item/{item}", f"item {item} {edition}", item, edition))
        page = f"own page {item}" if is_wrong else f"item {item} {print_edition}"
        rows.append(_row(f"print/{item}", page, item, 0 if is_wrong else print_edition))
    return learned_rules("shop.com", rows, RulesSettings())


def _row(path: str, page: str, item: int, edition: int) -> SiteUrlRow:
    since = 10_000 * edition + item
    return SiteUrlRow(f"https://shop.com/{path}", (since, 0), page, since=since, changed=edition > 0)


@pytest.mark.parametrize("fetched_again", [True, False])
def test_a_rule_outlives_changes_of_its_pages(fetched_again: bool) -> None:
    (rule,) = shop(0, 5, fetched_again)
    assert (rule.stage, rule.false_positives) == ("active", 0)
    assert rule.support == (400 if fetched_again else 320)


@pytest.mark.parametrize("changed_every", [0, 5])
def test_a_rule_that_is_wrong_on_a_tenth_stays_out(changed_every: int) -> None:
    assert "active" not in {rule.stage for rule in shop(10, changed_every, fetched_again=True)}


def test_what_was_fetched_once_at_different_times_differs() -> None:
    """Two crawls, one of all items, a later one of all print views: nothing was seen to change."""
    rows = [_row(f"item/{i}", f"item {i}", i, 0) for i in range(400)]
    pages = [f"own page {i}" if i % 10 == 0 else f"item {i}" for i in range(400)]
    rows += [_row(f"print/{i}", page, i + 10_000, 0) for i, page in enumerate(pages)]
    assert "active" not in {rule.stage for rule in learned_rules("shop.com", rows, RulesSettings())}
