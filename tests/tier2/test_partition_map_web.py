"""No pair of near duplicates in the generated web is lost: markup read, signed, routed, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dustream.core.intake import take_in
from dustream.core.partitioning import tie_of
from dustream.core.similarity import similarity_at_least, threshold_ratio
from dustream.core.text.extractors import TextSource
from dustream.core.tier2.cut_learning import UNEVENNESS_MAX
from dustream.core.tier2.partition_map import build_map, default_map, measure_balance
from dustream.core.tier2.points import PointBatch, batch_of
from dustream.streams.generate import generate

PAGES = 900


class Web:
    """The contents of a generated web: every version of every page."""

    def __init__(self, seed: int) -> None:
        crawls = [one for one in take_in(list(generate(PAGES, seed, 1_000)), TextSource()).crawls if one.signature]
        self.sets = [np.frombuffer(one.signature.shingles, "<u8") for one in crawls if one.signature]
        self.batch = batch_of(self.sets, [tie_of(one.url) for one in crawls])

    def pairs(self, tau: float) -> NDArray[np.int64]:
        """Brute force: every pair at Jaccard ≥ τ."""
        ratio = threshold_ratio(tau)
        numbered = combinations(range(len(self.sets)), 2)
        return np.array([(i, j) for i, j in numbered if similarity_at_least(self.sets[i], self.sets[j], *ratio) >= 0])


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(seed=21)


@pytest.fixture(scope="module")
def other_web() -> PointBatch:
    return Web(seed=22).batch


@pytest.mark.parametrize("tau", [0.8, 0.9])
def test_no_pair_is_lost(web: Web, other_web: PointBatch, tau: float) -> None:
    pairs = web.pairs(tau)
    assert len(pairs) > PAGES // 4
    for partitions in (8, 64):
        for name, sample in (("these pages", web.batch), ("other pages", other_web), ("nothing", None)):
            partition_map = default_map(partitions, tau) if sample is None else build_map(sample, partitions, tau)
            homes, contacted = partition_map.routes(web.batch)
            one, other = pairs[:, 0], pairs[:, 1]
            met = contacted[one, homes[other]] & contacted[other, homes[one]]
            assert met.all(), (name, partitions, pairs[~met].tolist())
            apart = int((homes[one] != homes[other]).sum())
            assert apart or partitions < 64 or sample is None, f"nothing was at stake: {name}"


@pytest.mark.parametrize("partitions", [8, 32])
def test_the_sample_is_spread_evenly(web: Web, partitions: int) -> None:
    """One version of each page, as a sample has it: versions of a page have one tie and cannot be set apart by it."""
    sample = web.batch.take(np.unique(web.batch.tie, return_index=True)[1])
    balance = measure_balance(build_map(sample, partitions, 0.9), sample)
    mean = len(sample) / partitions
    assert balance.load.max() <= max(np.ceil(mean), UNEVENNESS_MAX * mean)
    assert balance.contacts_mean <= 4
