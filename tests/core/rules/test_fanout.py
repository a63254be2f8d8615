"""The fan-out baseline: pairs that differ in one key, induced level by level to wildcards."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.rules.candidates import CandidateSettings
from dustream.core.rules.fanout import ANY, SOME, FanoutRule, fanout_rules, pattern_of, select_naively
from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.rewrite import matching_rows
from dustream.core.rules.training import KnownUrl, TrainingSet, training_set
from dustream.core.urls.keys import is_named

EVERYTHING = CandidateSettings(
    fpr_max=1.0, support_min=1, support_share_min=0.0, landing=LandingSettings(wrong_share_max=1, unknown_share_max=1)
)
Found = tuple[int, tuple[int, ...], int]
"""The key that is rewritten, the pattern, and the value."""


def plain_induction(training: TrainingSet, fan_out: int) -> Counter[Found]:
    """The same, pair by pair and rule by rule."""
    rows = [tuple(column) for column in training.values.T.tolist()]
    pairs = []
    for one in range(len(rows)):
        for other in range(len(rows)):
            differing = [key for key, (a, b) in enumerate(zip(rows[one], rows[other], strict=True)) if a != b]
            if training.clusters[one] == training.clusters[other] >= 0 and len(differing) == 1:
                pairs.append((rows[one], rows[other], differing[0]))
    contexts = defaultdict(set)
    for row, _, key in pairs:
        contexts[key, _masked(row, key, 0)].add(row[key])
    ignoring = {
        (key, _masked(context, key, ANY if 0 in values else SOME), _stand_in(training, key))
        for (key, context), values in contexts.items()
        if len(values) >= fan_out
    }
    changes = Counter((key, row[key], other[key]) for row, other, key in pairs)
    replacing = {(key, row, other[key]) for row, other, key in pairs if changes[key, row[key], other[key]] >= fan_out}
    found, level = Counter(ignoring), ignoring | replacing
    while level:
        level = _induced(level, fan_out)
        found.update(level)
    return found


def _induced(level: set[Found], fan_out: int) -> set[Found]:
    groups = defaultdict(set)
    for key, pattern, value in level:
        for other in range(len(pattern)):
            if other != key and pattern[other] >= 0:
                groups[key, value, other, _masked(pattern, other, 0)].add(pattern[other])
    return {
        (key, _masked(context, other, ANY if 0 in values else SOME), value)
        for (key, value, other, context), values in groups.items()
        if len(values) >= fan_out
    }


def _masked(row: tuple[int, ...], key: int, value: int) -> tuple[int, ...]:
    return (*row[:key], value, *row[key + 1 :])


def _stand_in(training: TrainingSet, key: int) -> int:
    if is_named(training.keys[key]):
        return 0
    codes, counts = np.unique(training.values[key], return_counts=True)
    return int(codes[np.argmax(counts)])


URLS = st.builds(
    lambda directory, name, query: f"http://x.com/{directory}/{name}{query}",
    st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "3", "4"]),
    st.sampled_from(["", "?s=1", "?s=2", "?s=3", "?p=1", "?p=1&s=1"]),
)  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(URLS, st.integers(0, 5), min_size=2, max_size=40), st.integers(2, 4))
@settings(max_examples=150)
def test_as_many_rules_are_induced_as_pair_by_pair(known: dict[str, int], fan_out: int) -> None:
    training = training_set(KnownUrl(url, cluster) for url, cluster in known.items())
    found, plain = fanout_rules(training, fan_out, EVERYTHING), plain_induction(training, fan_out)
    assert found.raw == plain.total()
    assert {(rule.key, tuple(rule.pattern.tolist()), rule.value) for rule in found.qualified} <= set(plain)


def prints(pages: int) -> TrainingSet:
    known = [KnownUrl(f"http://x.com/p/{i}{query}", i) for i in range(pages) for query in ("", "?print=1")]
    return training_set(known)


@pytest.mark.parametrize(("fan_out", "expected"), [(5, 2), (10, 2), (11, 0)])
def test_a_wildcard_needs_as_many_values_as_the_fan_out(fan_out: int, expected: int) -> None:
    """Ten pages: one rule drops ?print=1, one adds it."""
    found = fanout_rules(prints(10), fan_out)
    assert (found.raw, len(found.qualified)) == (expected, expected)


def test_of_two_ways_one_is_selected_and_its_pattern_matches_its_urls() -> None:
    training = prints(10)
    found = fanout_rules(training, 5)
    (rule,) = select_naively(found.qualified)
    rows = matching_rows(training, pattern_of(rule))
    assert len(rows) == 10 == rule.evidence.gain and training.keys[rule.key] == "?print="
    assert tuple(rule.pattern.tolist()).count(SOME) == 1


def test_a_key_that_does_not_matter_is_ignored() -> None:
    known = [KnownUrl(f"http://x.com/p/{i}?sid={i * 10 + n}", i) for i in range(12) for n in range(6)]
    training = training_set(known)
    chosen = select_naively(fanout_rules(training, 5).qualified)
    dropped = [rule for rule in chosen if training.keys[rule.key] == "?sid=" and rule.value == 0]
    assert dropped and max(rule.evidence.gain for rule in dropped) == 60


def test_rules_with_false_positives_are_not_qualified() -> None:
    known = [KnownUrl(f"http://x.com/p/{i}", i) for i in range(20)]
    known += [KnownUrl(f"http://x.com/p/{i}?print=1", i if i % 2 else 100 + i) for i in range(20)]
    found = fanout_rules(training_set(known), 5)
    assert found.raw > 0 and found.qualified == []


def test_the_smaller_the_fan_out_the_more_rules() -> None:
    known = [KnownUrl(f"http://x.com/{s}/{i}{q}", f"{s}{i}") for s in "ab" for i in range(8 if s == "a" else 15)
             for q in ("", "?print=1")]  # fmt: skip
    training = training_set(known)
    assert fanout_rules(training, 5).raw > fanout_rules(training, 10).raw > fanout_rules(training, 20).raw == 0


def test_learning_by_fan_out_gives_rules_that_can_be_applied() -> None:
    known = [SiteUrl(f"http://x.com/p/{i}{query}", str(i)) for i in range(30) for query in ("", "?print=1")]
    (rule,) = learn_site("x.com", known, "fanout", LearnSettings(fan_out=10)).rules
    assert (rule.learner, rule.stage, rule.text) == ("fanout", "active", "drop ?print=1 in http://x.com/p/<*>")
    assert isinstance(rule.saved, int) and rule.saved == 30


def test_no_rules_form_a_circle() -> None:
    training = prints(10)
    both = fanout_rules(training, 5).qualified
    assert len({rule.value for rule in both}) == 2
    chosen: list[FanoutRule] = select_naively(both)
    assert len(chosen) == 1
