"""Bands derived from τ, and the threshold in integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.errors import BadSetting
from dustream.core.similarity import (
    intersection_needed,
    intersection_size,
    jaccard,
    matches_threshold,
    similarity_at_least,
    threshold_ratio,
)
from dustream.core.tier2.bands import band_keys, bands_for, miss_probability

sets = st.sets(st.integers(0, 40), max_size=30)


def ascending(values: set[int]) -> np.ndarray:
    return np.array(sorted(values), dtype=np.uint64)


@settings(deadline=None)  # the first call compiles
@given(st.floats(1e-6, 1.0), st.sampled_from([16, 64, 128, 256]))
def test_a_pair_at_tau_is_missed_below_the_limit_and_no_longer_band_would_do(tau: float, permutations: int) -> None:
    bands, rows = bands_for(tau, permutations)
    assert bands * rows <= permutations
    assert miss_probability(tau, bands, rows) < 1e-4
    for longer in range(rows + 1, permutations + 1):
        assert miss_probability(tau, permutations // longer, longer) >= 1e-4
    assert bands == 1 or miss_probability(tau, bands - 1, rows) >= 1e-4


@pytest.mark.parametrize(("tau", "expected"), [(1.0, (1, 128)), (0.9, (15, 7)), (0.8, (24, 5)), (0.05, (1, 0))])
def test_bands_at_the_thresholds_in_use(tau: float, expected: tuple[int, int]) -> None:
    assert bands_for(tau) == expected


@pytest.mark.parametrize("tau", [0.0, -0.1, 1.0000001, 80, math.nan, math.inf])
def test_a_threshold_outside_0_to_1_is_refused(tau: float) -> None:
    with pytest.raises(BadSetting, match="above 0 and at most 1"):
        bands_for(tau)
    with pytest.raises(BadSetting, match="above 0 and at most 1"):
        matches_threshold(1, 1, tau)


@pytest.mark.parametrize(("permutations", "miss_max"), [(0, 1e-4), (128, 0.0), (128, 1.0)])
def test_impossible_bands_are_refused(permutations: int, miss_max: float) -> None:
    with pytest.raises(BadSetting):
        bands_for(0.8, permutations, miss_max)


def test_band_keys_are_equal_exactly_where_all_rows_are() -> None:
    one = np.arange(128, dtype=np.uint32)
    other = one.copy()
    other[[7, 127]] += np.uint32(1)  # rows 7 and 127: band 1 of 5 rows, and beyond the 24th band
    keys = band_keys(np.stack((one, other)), 24, 5)
    assert np.flatnonzero(keys[0] != keys[1]).tolist() == [1]
    assert len(np.unique(keys[0])) == 24


def test_band_keys_do_not_change() -> None:
    """Nothing stored depends on them, but two workers must propose the same pairs."""
    keys = band_keys(np.arange(128, dtype=np.uint32).reshape(1, -1), 2, 5)
    assert [hex(key) for key in keys[0]] == ["0xd8d181526f1067f2", "0xba49afaa591964b0"]


@pytest.mark.parametrize(
    ("tau", "ratio"), [(0.8, (4, 5)), (0.9, (9, 10)), (2 / 3, (2, 3)), (0.123456789, (123456789, 10**9)), (1.0, (1, 1))]
)
def test_tau_is_the_fraction_that_was_meant(tau: float, ratio: tuple[int, int]) -> None:
    assert threshold_ratio(tau) == ratio


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_similarity_of_exactly_tau_matches_and_a_shingle_less_does_not(one: int, other: int) -> None:
    intersection, union = sorted((one, other))
    assert matches_threshold(intersection, union, intersection / union)
    assert not matches_threshold(intersection - 1, union, intersection / union)


def test_plain_floating_point_would_lose_the_tie() -> None:
    assert 0.07 * 100 > 7
    assert matches_threshold(7, 100, 0.07)
    assert Fraction(0.8) > Fraction(4, 5)
    assert matches_threshold(4, 5, 0.8)


def test_empty_sets_and_sets_with_nothing_in_common_never_match() -> None:
    assert not matches_threshold(0, 0, 1e-12)
    assert not matches_threshold(0, 10, 1e-12)


@settings(deadline=None)  # the first call compiles
@given(sets, sets)
def test_jaccard_is_intersection_over_union(a: set[int], b: set[int]) -> None:
    expected = len(a & b) / len(a | b) if a and b else 0.0
    assert jaccard(ascending(a), ascending(b)) == expected


@settings(deadline=None)  # the first call compiles
@given(sets, sets, st.integers(0, 40))
def test_giving_up_early_never_hides_an_intersection_that_suffices(a: set[int], b: set[int], needed: int) -> None:
    common = intersection_size(ascending(a), ascending(b), needed)
    assert common == len(a & b) if len(a & b) >= needed else common < needed


@settings(deadline=None)  # the first call compiles
@given(sets, sets, st.integers(1, 20), st.integers(1, 20))
def test_the_compiled_threshold_agrees_with_the_rational_one(a: set[int], b: set[int], one: int, other: int) -> None:
    numerator, denominator = sorted((one, other))
    expected = bool(a and b) and Fraction(len(a & b), len(a | b)) >= Fraction(numerator, denominator)
    assert (similarity_at_least(ascending(a), ascending(b), numerator, denominator) >= 0.0) == expected


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.integers(1, 10**9), st.integers(1, 10**9))
def test_the_needed_intersection_is_exact_up_to_the_stated_limits(a: int, b: int, one: int, other: int) -> None:
    numerator, denominator = sorted((one, other))
    needed = intersection_needed(a, b, numerator, denominator)
    assert needed * denominator >= numerator * (a + b - needed)
    assert needed == 0 or (needed - 1) * denominator < numerator * (a + b - needed + 1)
