"""The real processors under random histories, interleavings, batch cuts and crashes: what is left equals the oracle.

`python tests/model/run.py --histories 20000` runs more of them, `--mutations` disables rules one by one.
"""

from __future__ import annotations

import pytest
from model_check import run_history
from model_mutations import caught_at
from model_world import random_history

from dustream.core.tier2 import forest

HISTORIES = 2_000
HISTORIES_PER_TEST = 200
BIG_HISTORIES = 20
WALKED_HISTORIES = 40
HISTORIES_QUICK = 1_000
REAL_INDEX_HISTORIES = 20
_SITE_RULE = "a page lost under a hold is not held"
REPRESENTATIVE_HISTORIES = 300


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first >= HISTORIES_QUICK else [])
        for first in range(0, HISTORIES, HISTORIES_PER_TEST)
    ],
)
def test_random_histories(first: int) -> None:
    crashes = 0
    for seed in range(first, first + HISTORIES_PER_TEST):
        crashes += run_history(random_history(seed)).crashes
    assert crashes > HISTORIES_PER_TEST  # or the tables were never read by another than their writer


def test_big_histories() -> None:
    for seed in range(BIG_HISTORIES):
        run_history(random_history(seed, big=True))


def test_histories_with_small_components_found_by_walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are where there are many vertices; here there are so few that all labels are looked through instead."""
    monkeypatch.setattr(forest, "_LABELS_PER_WALK", 0)
    for seed in range(WALKED_HISTORIES):
        run_history(random_history(seed, big=seed % 4 == 0))


def test_histories_with_the_real_index() -> None:
    for seed in range(REAL_INDEX_HISTORIES):
        run_history(random_history(seed, real_index=True))


def test_histories_with_representatives() -> None:
    consulted = 0
    for seed in range(REPRESENTATIVE_HISTORIES):
        consulted += run_history(random_history(seed, representative=True)).messages["pages Consulted"]
    assert consulted > REPRESENTATIVE_HISTORIES // 2  # or the histories show nothing


@pytest.mark.parametrize(
    "rule",
    [
        "the dead do not answer",
        "a leave does not split",
        "no Win",
        "no replacement edges",
        _SITE_RULE,
        "a page that goes stays posted",
        "an answer about a former version counts",
        "a container that falls or rises is not told of",
        "a content that comes late is not kept",
    ],
)
def test_a_disabled_rule_is_caught(rule: str) -> None:
    """A few of the rules, to see that the checker can fail; all of them with --mutations."""
    assert caught_at(rule, histories_max=200) is not None
