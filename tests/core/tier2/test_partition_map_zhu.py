"""Zhu et al., section 4: the paper's own examples, and what its bounding space loses."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.tier2.partition_map import measure_balance
from dustream.core.tier2.points import BUCKET_SHIFT, batch_of
from dustream.core.tier2.zhu_map import (
    ONE_CELL,
    PACKINGS,
    LanguageGrid,
    ZhuMap,
    ZhuMapData,
    _equal_runs,
    enlarging_factor,
    fine_intervals,
    interval_ranges,
    learn_zhu_map,
    measure_variation,
    merge_intervals,
    morton_order,
)


def random_page(draws: np.random.Generator, size: int) -> NDArray[np.uint64]:
    return np.unique(draws.integers(0, 1 << 64, size, dtype=np.uint64))


def test_fine_intervals_of_section_4_3() -> None:
    assert fine_intervals(np.arange(1, 11), 0.8) == (1, 2, 3, 4, 6, 8)


@given(sizes=st.lists(st.integers(0, 5000), min_size=1), tau=st.sampled_from([0.5, 0.8, 0.9]))
def test_left_bounds_keep_spotsigs_condition(sizes: list[int], tau: float) -> None:
    bounds = fine_intervals(np.array(sizes), tau)
    assert bounds[0] == min(sizes)
    assert all(one < tau * other for one, other in pairwise(bounds))
    for size in sizes:
        own = max(bound for bound in bounds if bound <= size)
        assert own == size or own >= tau * size  # no size could have opened an interval of its own


@pytest.mark.parametrize(
    ("pages", "merged"), [((2, 3, 4, 5, 2, 1), (5, 4, 5, 3)), ((2, 3, 4, 10, 2, 1), (5, 4, 10, 3))]
)
def test_merged_intervals_of_section_4_3(pages: tuple[int, ...], merged: tuple[int, ...]) -> None:
    starts = merge_intervals(np.array(pages), 4)
    assert tuple(int(part.sum()) for part in np.split(np.array(pages), starts[1:])) == merged


def figure_2_map() -> ZhuMap:
    grid = LanguageGrid((), ((0, 300), (0, 300)), (0, 1, 2, 3))
    return ZhuMap(
        ZhuMapData(
            version=1, partitions=4, tau_parts=9000, rho_parts=10_000, dimensions=2, grids=(grid,), sample_pages=0
        )
    )


@pytest.mark.parametrize(("lengths", "home", "contacted"), [((100, 500), 1, [1]), ((280, 500), 1, [1, 3])])
def test_partitions_contacted_in_figure_2(lengths: tuple[int, int], home: int, contacted: list[int]) -> None:
    batch = batch_of([np.zeros(0, np.uint64)], token_lengths=np.array([lengths]))
    homes, table = figure_2_map().routes(batch)
    assert homes.tolist() == [home]
    assert np.flatnonzero(table[0]).tolist() == contacted


def test_the_bounding_space_is_open() -> None:
    """(90, 111.1…) for 100 at τ = .9, ρ = 1: 90 itself is out, 111 is in; with ρ = 1.1 it is (81.8, 122.2)."""
    bounds = np.array([0, 90, 91, 111, 112])
    assert [int(one[0]) for one in interval_ranges(np.array([100]), bounds, 9000, 10_000)] == [2, 3]
    wider = np.array([0, 82, 123])
    assert [int(one[0]) for one in interval_ranges(np.array([100]), wider, 9000, 11_000)] == [1, 1]


def test_rho_of_section_4_2() -> None:
    assert enlarging_factor(0.0, 0.0) == 1.0
    assert enlarging_factor(0.1, 0.05) == pytest.approx(1.1 * 1.05 / (0.9 * 0.95))
    assert enlarging_factor(1.0, 0.0) == math.inf
    measured = measure_variation(np.array([[10, 10], [12, 8]]), np.array([20, 18]), 1.0)
    assert measured.delta == pytest.approx(0.25)  # 20 / (2 · 8) − 1
    assert measured.epsilon == pytest.approx(0.1)


def test_a_larger_rho_contacts_more_and_loses_less() -> None:
    """Near duplicates whose changes all fall into one sub-dictionary leave the space of ρ = 1."""
    draws = np.random.default_rng(5)
    pages = [random_page(draws, int(size)) for size in draws.integers(20, 400, 400)]
    changed = [np.unique(np.append(page, np.arange(len(page) // 10, dtype=np.uint64))) for page in pages]
    originals, copies = batch_of(pages), batch_of(changed)
    recall, contacts = [], []
    for rho in (1.0, 1.1, 1.3):
        partition_map = learn_zhu_map(originals, 27, 0.9, 3, rho)
        homes = partition_map.homes(copies)
        contacted = partition_map.routes(originals)[1]
        recall.append(contacted[np.arange(len(pages)), homes].mean())
        contacts.append(contacted.sum(axis=1).mean())
    assert recall[0] < recall[1] < recall[2] and recall[2] > 0.99
    assert contacts[0] < contacts[1] < contacts[2]


def test_languages_come_first() -> None:
    draws = np.random.default_rng(6)
    pages = [random_page(draws, int(size)) for size in draws.integers(5, 300, 300)]
    langs = ["en"] * 200 + ["zh"] * 95 + ["th"] * 5
    batch = batch_of(pages, langs=langs)
    partition_map = learn_zhu_map(batch, 12, 0.9, 3)
    contacted = partition_map.routes(batch)[1]
    reached = [set(np.flatnonzero(contacted[np.array(langs) == lang].any(axis=0)).tolist()) for lang in ("en", "zh")]
    assert not reached[0] & reached[1]
    assert len(reached[0]) > len(reached[1]) > 1
    assert partition_map.home(pages[0], lang="unknown") in reached[0]


def test_the_morton_order_keeps_neighbours_together() -> None:
    assert morton_order((2, 2)).tolist() == [0, 2, 1, 3]
    order = np.stack(np.unravel_index(morton_order((8, 8, 8)), (8, 8, 8)), axis=1)
    for at in range(0, 512, 8):  # eight in a row are a cube of 2 × 2 × 2
        assert np.ptp(order[at : at + 8], axis=0).tolist() == [1, 1, 1]
    assert sorted(morton_order((3, 5)).tolist()) == list(range(15))


def test_runs_have_the_least_greatest_load() -> None:
    draws = np.random.default_rng(3)
    for _ in range(50):
        loads = draws.integers(0, 9, 7)
        order = draws.permutation(7)
        packed = np.array(_equal_runs(loads, order, 3))
        assert (np.diff(packed[order]) >= 0).all() and packed.max() < 3
        cuts = [(a, b) for a in range(8) for b in range(a, 8)]
        run_loads = [[loads[order[i:j]].sum() for i, j in ((0, a), (a, b), (b, 7))] for a, b in cuts]
        assert max(np.bincount(packed, loads, 3)) == min(map(max, run_loads))


def test_packed_along_the_morton_order_a_page_contacts_fewer_partitions() -> None:
    draws = np.random.default_rng(9)
    pages = [random_page(draws, int(size)) for size in np.exp(draws.normal(5.5, 1, 6_000)).clip(20, 3_000)]
    sample, batch = batch_of(pages[:3_000]), batch_of(pages[3_000:])
    morton, spread = (
        measure_balance(learn_zhu_map(sample, 27, 0.9, 3, intervals=32, packing=one), batch) for one in PACKINGS
    )
    coarse = measure_balance(learn_zhu_map(sample, 27, 0.9, 3, intervals=ONE_CELL), batch)
    assert morton.contacts_mean < spread.contacts_mean / 2
    assert morton.imbalance_factor < 1.6 < coarse.imbalance_factor


def test_settings_out_of_range() -> None:
    batch = batch_of([np.arange(5, dtype=np.uint64) << np.uint64(BUCKET_SHIFT)] * 8)
    with pytest.raises(BadSetting, match="dimensions"):
        learn_zhu_map(batch, 2, 0.9, 4)
    with pytest.raises(BadSetting, match="rho"):
        learn_zhu_map(batch, 2, 0.9, 3, rho=0.9)
    with pytest.raises(BadSetting, match="65 intervals"):
        learn_zhu_map(batch, 2, 0.9, 3, intervals=65)
    with pytest.raises(BadSetting, match="2-D map"):
        learn_zhu_map(batch_of([batch.shingles], token_lengths=np.array([[1, 2, 3]])), 2, 0.9, 2)
