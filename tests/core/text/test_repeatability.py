"""Repeatability: formula (1), its direction, and the bound on what is lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.text.repeatability import (
    code_points,
    common_chars_min,
    information_loss_max,
    longest_common_substring,
    repeatability,
)

CODES = st.text(st.sampled_from("甲乙丙a\U00020000"), max_size=24)


def brute_force(a: str, b: str) -> int:
    return max(
        (end - start for start in range(len(a)) for end in range(start + 1, len(a) + 1) if a[start:end] in b), default=0
    )


@given(CODES, CODES)
def test_longest_common_substring(a: str, b: str) -> None:
    assert longest_common_substring(code_points(a), code_points(b)) == brute_force(a, b)


@pytest.mark.parametrize(
    ("of_page", "over_page", "expected"),
    [
        ("乙丙", "甲乙丙丁", 1.0),
        ("甲乙丙丁", "乙丙", 0.5),
        ("甲乙丙丁", "甲x乙x丙", 0.25),
        ("", "甲", 0.0),
        ("甲", "", 0.0),
    ],
)
def test_repeatability_is_directed(of_page: str, over_page: str, expected: float) -> None:
    assert repeatability(of_page, over_page) == expected


@given(st.integers(1, 1000), st.integers(1, 100).map(lambda percent: percent / 100))
def test_common_chars_min_is_where_the_threshold_is_reached(chars: int, delta: float) -> None:
    shortest = common_chars_min(chars, delta)
    assert shortest / chars >= delta and 1 <= shortest <= chars
    assert (shortest - 1) / chars < delta


@given(st.lists(st.tuples(CODES.filter(bool), CODES), max_size=8), st.sampled_from([0.7, 0.75, 0.9, 1.0]))
def test_dropping_what_repeats_loses_no_more_than_the_bound(pairs: list[tuple[str, str]], delta: float) -> None:
    dropped = [(of, over) for of, over in pairs if repeatability(of, over) >= delta]
    lost = sum(len(of) - brute_force(of, over) for of, over in dropped)
    assert lost <= information_loss_max(delta, (len(of) for of, _ in dropped)) + 1e-9


def test_the_bound_is_reached() -> None:
    assert repeatability("甲乙丙x", "甲乙丙丁") == Fraction(3, 4)
    assert information_loss_max(0.75, [4]) == 1.0
