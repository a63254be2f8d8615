"""The lists and counts of the web page, and the estimate for lower thresholds."""

from __future__ import annotations

import pytest
from served import Served

from dustream.streams.serve.digest import last_name, nearest_pairs, would_keep

A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"


def test_groups_are_ordered(either: Served) -> None:
    groups = either.lookups.digest.groups
    assert groups["size"][0].group == "https://soft.example/ant" and groups["size"][0].size == 6
    assert groups["lowest"][0].lowest == pytest.approx(380 / 420) and groups["lowest"][0].group == A
    assert groups["different"][0].group == "https://soft.example/ant"
    assert [each.group for each in groups["different"] if each.is_unrelated] == ["https://soft.example/ant"]


def test_both_kinds_of_source_are_counted_alike(served: Served, once_served: Served) -> None:
    here, there = served.lookups.digest, once_served.lookups.digest
    for name in ("urls", "roles", "relations", "group_count", "largest_group", "group_sizes", "sites", "similarities"):
        assert getattr(here, name) == getattr(there, name), name
    assert here.groups["size"] == there.groups["size"] and here.alarms == there.alarms


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a.example/v1/foo.html?x=1", "foo"),
        ("https://a.example/v2/foo.html", "foo"),
        ("https://a.example/x/index.html", "x"),
        ("https://a.example/x/", "x"),
        ("https://www.a.example/", "a"),
        ("https://a.example/Login", "login"),
    ],
)
def test_mirrors_versions_and_parameters_share_a_name(url: str, name: str) -> None:
    assert last_name(url) == name


def test_pages_kept_at_a_higher_threshold(either: Served) -> None:
    digest = either.lookups.digest
    near = [pair for pairs in digest.examples for pair in pairs]
    for threshold in (0.9, 0.905, 0.95, 0.98, 1.0):
        assert would_keep(digest, threshold) == sum(pair.similarity < threshold for pair in near)
    below, above = nearest_pairs(digest, 0.95)
    assert below[0].similarity == max(pair.similarity for pair in near if pair.similarity < 0.95)
    assert above[0].similarity == min(pair.similarity for pair in near if pair.similarity >= 0.95)


def test_sample_finds_what_matches_at_a_lower_threshold(served: Served) -> None:
    sample = served.source.lower_sample()
    assert sample is not None and sample.sampled == sample.compared_with > 100
    found = {pair.url: pair for pair in sample.nearest}
    assert found[A].winner == C and found[A].similarity == pytest.approx(360 / 440)
    assert sample.share(0.8) == pytest.approx(2 / sample.sampled) and sample.share(0.85) == 0
    assert all(pair.similarity < served.source.settings.threshold for pair in sample.nearest)
