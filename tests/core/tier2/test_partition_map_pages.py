"""Maps built from pages: no pair lost against brute force, even loads, few contacts, spikes split."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dustream.core.tier2.cut_learning import PAGES_PER_LEARNER, UNEVENNESS_MAX
from dustream.core.tier2.partition_map import (
    build_map,
    chance_imbalance,
    default_map,
    imbalance_factor,
    map_to_bytes,
    measure_balance,
)
from dustream.core.tier2.points import BUCKET_SHIFT, PointBatch, batch_of

TOPICS = 12
TAU = 0.9


def topic_page(draws: np.random.Generator, topic: int, size: int) -> NDArray[np.uint64]:
    """Half of a page's shingles start with a word of its topic, the rest with words that all pages have."""
    of_topic = draws.random(size) < 0.5
    bucket = np.where(of_topic, 200 + topic * 64 + draws.integers(0, 64, size), draws.integers(0, 200, size))
    rest = draws.integers(0, 1 << BUCKET_SHIFT, size, dtype=np.uint64)
    return np.unique((bucket.astype(np.uint64) << np.uint64(BUCKET_SHIFT)) | rest)


def near_duplicate(draws: np.random.Generator, page: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Jaccard about τ: some 10 % of the shingles gone, or new, or 5 % of each, the new ones in one bucket."""
    removed, added = [(0.1, 0.0), (0.0, 0.11), (0.05, 0.05)][int(draws.integers(0, 3))]
    kept = page[draws.random(len(page)) >= removed]
    bucket = np.uint64(int(draws.integers(0, 4096))) << np.uint64(BUCKET_SHIFT)
    new = draws.integers(0, 1 << BUCKET_SHIFT, int(added * len(page)), dtype=np.uint64) | bucket
    return np.unique(np.concatenate([kept, new]))


def generated_pages(count: int, seed: int, copies: float = 0.4) -> list[NDArray[np.uint64]]:
    draws = np.random.default_rng(seed)
    pages: list[NDArray[np.uint64]] = []
    while len(pages) < count:
        if pages and draws.random() < copies:
            pages.append(near_duplicate(draws, pages[int(draws.integers(0, len(pages)))]))
        else:
            pages.append(topic_page(draws, int(draws.integers(0, TOPICS)), int(draws.lognormal(5.0, 0.7))))
    return pages


def matching_pairs(pages: list[NDArray[np.uint64]], tau: float) -> list[tuple[int, int]]:
    """Brute force over all pairs."""
    pairs = []
    for i, one in enumerate(pages):
        for j in range(i):
            if min(len(one), len(pages[j])) >= tau * max(len(one), len(pages[j])):
                common = len(np.intersect1d(one, pages[j], assume_unique=True))
                if common >= tau * (len(one) + len(pages[j]) - common):
                    pairs.append((i, j))
    return pairs


@pytest.fixture(scope="module")
def pages() -> list[NDArray[np.uint64]]:
    return generated_pages(500, seed=3)


@pytest.fixture(scope="module")
def batch(pages: list[NDArray[np.uint64]]) -> PointBatch:
    return batch_of(pages)


@pytest.mark.parametrize("partitions", [1, 2, 8, 64])
@pytest.mark.parametrize("built_from", ["these pages", "other pages", "nothing"])
def test_no_pair_is_lost(pages: list[NDArray[np.uint64]], batch: PointBatch, partitions: int, built_from: str) -> None:
    if built_from == "nothing":
        partition_map = default_map(partitions, TAU)
    else:
        sample = batch if built_from == "these pages" else batch_of(generated_pages(300, seed=4))
        partition_map = build_map(sample, partitions, TAU)
    homes, contacted = partition_map.routes(batch)
    pairs = matching_pairs(pages, TAU)
    assert len(pairs) > 60
    assert [(i, j) for i, j in pairs if not (contacted[i, homes[j]] and contacted[j, homes[i]])] == []
    if partitions >= 64 or (partitions == 8 and built_from == "nothing"):
        assert any(homes[i] != homes[j] for i, j in pairs)  # else nothing was at stake


@pytest.mark.parametrize(("partitions", "contacts_max"), [(2, 1.3), (8, 2.0), (64, 5.0)])
def test_loads_are_even_and_contacts_few_on_pages_not_in_the_sample(partitions: int, contacts_max: float) -> None:
    """A partition filled by n sample pages is right to about 1/√n; over all partitions, four times that at most."""
    sample, unseen = (batch_of(generated_pages(4000, seed, copies=0.05)) for seed in (5, 6))
    balance = measure_balance(build_map(sample, partitions, TAU), unseen)
    chance = 4 * np.sqrt((1 + PAGES_PER_LEARNER / (PAGES_PER_LEARNER - 1)) * partitions / len(sample))
    assert balance.imbalance_factor <= 1 + chance
    assert balance.contacts_mean <= contacts_max
    assert int(balance.load.sum()) == len(unseen)


@pytest.mark.parametrize("partitions", [2, 7, 64])
@pytest.mark.parametrize("spike", [0, 1, 900])
def test_no_partition_gets_more_of_the_sample_than_allowed(partitions: int, spike: int) -> None:
    """Learners, which fit their sub-dictionaries closer than others, and pages at one point included; 4 % above the
    mean, and less from 400 pages to a partition on."""
    pages = generated_pages(1800, seed=12)
    batch = batch_of([*pages, *([pages[3]] * spike)])
    load = measure_balance(build_map(batch, partitions, TAU), batch).load
    mean = len(batch) / partitions
    assert load.max() <= max(np.ceil(mean), (1 + min(0.04, 0.8 / np.sqrt(mean))) * mean)
    assert load.sum() == len(batch)


def test_a_page_alone_is_routed_as_in_a_batch(pages: list[NDArray[np.uint64]], batch: PointBatch) -> None:
    learned = [build_map(batch, 16, TAU, kind) for kind in ("ours", "zhu3")]
    for partition_map in (*learned, default_map(8), default_map(64, 0.7), default_map(1)):
        homes, contacted = partition_map.routes(batch)
        for at in range(0, len(pages), 25):
            tie = int(batch.tie[at])
            home, probes = partition_map.route(pages[at], tie)
            assert (home, probes) == (partition_map.home(pages[at], tie), partition_map.probes(pages[at], tie))
            assert home == homes[at] and home not in probes
            assert sorted((home, *probes)) == np.flatnonzero(contacted[at]).tolist()


def test_the_same_sample_gives_the_same_map(batch: PointBatch) -> None:
    assert map_to_bytes(build_map(batch, 8, TAU)) == map_to_bytes(build_map(batch, 8, TAU))


@pytest.mark.parametrize("spike", ["empty", "template"])
def test_a_spike_is_split_and_only_its_pages_pay(pages: list[NDArray[np.uint64]], spike: str) -> None:
    """Six hundred identical pages among five hundred others, at eight partitions."""
    same = np.zeros(0, np.uint64) if spike == "empty" else pages[7]
    batch = batch_of([*pages, *([same] * 600)])
    partition_map = build_map(batch, 8, TAU)
    homes, contacted = partition_map.routes(batch)
    assert imbalance_factor(np.bincount(homes, minlength=8)) <= UNEVENNESS_MAX
    of_spike = np.arange(len(pages), len(batch))
    assert contacted[of_spike][:, np.unique(homes[of_spike])].all()
    others = contacted[: len(pages)].sum(axis=1).mean()
    assert others <= 2.0 < contacted[of_spike].sum(axis=1).mean()


def test_pages_that_nothing_sets_apart_still_give_a_map(pages: list[NDArray[np.uint64]]) -> None:
    """The same page under the same tie: one partition has it all, and every near duplicate finds it."""
    batch = batch_of([pages[0]] * 100, ties=[5] * 100)
    partition_map = build_map(batch, 8, TAU)
    homes = partition_map.homes(batch)
    assert len(set(homes.tolist())) == 1
    changed = pages[0][len(pages[0]) // 12 :]
    assert homes[0] in {partition_map.home(changed, 9), *partition_map.probes(changed, 9)}


def test_empty_and_one_word_pages_have_a_home(batch: PointBatch) -> None:
    nothing, one_word = np.zeros(0, np.uint64), np.array([77 << BUCKET_SHIFT], np.uint64)
    for partition_map in (build_map(batch, 8, TAU), default_map(8), build_map(batch, 8, TAU, "zhu3")):
        assert partition_map.home(nothing) == partition_map.home(nothing, tie=2**32 - 1)
        assert partition_map.probes(nothing) == ()
        assert 0 <= partition_map.home(one_word) < 8


@pytest.mark.parametrize(("partitions", "pages"), [(1, 100), (8, 4_000), (64, 20_000)])
def test_what_chance_alone_gives(partitions: int, pages: int) -> None:
    draws = np.random.default_rng(2)
    thrown = [imbalance_factor(np.bincount(draws.integers(0, partitions, pages))) for _ in range(300)]
    assert chance_imbalance(partitions, pages) - 1 == pytest.approx(np.mean(thrown) - 1, rel=0.06)
    assert chance_imbalance(partitions, pages, pages) - 1 == pytest.approx(np.mean(thrown) * 2**0.5 - 2**0.5, rel=0.06)


@pytest.mark.parametrize(("median", "spread"), [(60, 1.2), (240, 1.3), (900, 1.5)])
def test_the_default_map_suits_any_wide_distribution_of_lengths(median: int, spread: float) -> None:
    """Twenty thousand pages leave chance about 2 % of a partition's load."""
    quantiles = np.random.default_rng(9).normal(size=20_000)
    lengths = np.clip(median * np.exp(spread * quantiles), 1, 20_000).astype(np.int64)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    batch = PointBatch(np.zeros(start[-1], np.uint64), start, np.zeros(len(lengths), np.int64))
    balance = measure_balance(default_map(8), batch)
    assert balance.imbalance_factor <= 1.12
    assert balance.contacts_mean <= 2.2
