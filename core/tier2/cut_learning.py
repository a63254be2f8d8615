"""Learns the lossless map from a sample: finds cuts that divide the pages evenly and that few pages cross.

A node has to distribute its pages over p partitions. Any division of p into two parts is possible, as long as the pages
divide in the same proportion, so every cut near one of the p − 1 quantiles is considered, in length and in the shares
of the proposed sub-dictionaries. A cut that many pages cross costs contacts; a cut that separates little leaves more
cuts to be made. The cheapest cut has the fewest crossing pages per bit of partition number settled.

The map must be even on pages outside the sample. A sub-dictionary fits the pages it was learned from far more closely
than others: cut at their median, other pages would gather on one side. So one page in PAGES_PER_LEARNER is a *learner*,
from which sub-dictionaries are learned; all others are *placers*, which only choose and place the share cuts. What
remains is sampling error: a partition filled by n placers is right to about 1/√n, and no cut placed by a sample does
better.

On the sample itself no partition may get more than UNEVENNESS_MAX times the mean, learners included, and less where the
sample is large enough (`partition_pages_max`). A node of p partitions never holds more than p times that many pages:
where the placers would exceed this, the cut moves by as little as necessary. Pages are ranked by coordinate and tie, so
any two of them can be separated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.partitioning import TIE_BITS
from dustream.core.tier2.cut_tree import (
    BY_LENGTH,
    LOSSLESS_VERSION,
    SHARE_UNITS,
    Cut,
    LosslessMap,
    LosslessMapData,
)
from dustream.core.tier2.points import BUCKET_COUNT, TAU_PARTS, PointBatch, require_partitions, tau_parts
from dustream.core.tier2.sub_dictionaries import (
    BucketProfile,
    Mask,
    Pages,
    Side,
    bucket_profile,
    count_inside,
    evenly_spaced,
    propose_sub_dictionaries,
)

UNEVENNESS_MAX = 1.04  # sample pages of the fullest partition over the mean, or one page more than the mean
UNEVENNESS_DEVIATIONS_MAX = 0.8  # distance from the mean in standard deviations of a count: stricter from 400 pages on
DEVIATIONS = np.linspace(-2.0, 2.0, 17)  # positions tried around a quantile, in standard deviations of a count
DEVIATION_TAX = 0.25  # additional cost per squared deviation: a gap in the data outweighs it, a slope does not
SAMPLE_PAGES_PER_PARTITION_MIN = 4
PAGES_PER_LEARNER = 8  # one page of this many is a learner, the others are placers
PRICING_PAGES_MAX = 12_000  # placers that choose among the proposed sub-dictionaries; all of them place the cut
QUANTILES_MAX = 64  # divisions tried per node
CROSSING_FLOOR = 1e-2  # cost of a cut that no sample page crosses: other pages may

Propose = Callable[[BucketProfile, Pages, Callable[[Pages, Mask], Side]], list[Mask]]


class CutChoice(NamedTuple):
    """A cut: pages with a lower key go below, to `below` of the partitions."""

    cost: float
    key: int
    below: int


class _Division(NamedTuple):
    mask: Mask | None
    key: int
    pages_below: Pages
    pages_above: Pages
    below: int


class _Task(NamedTuple):
    """A node still to be grown; `parent` is its parent cut, `side` 0 for below."""

    pages: Pages
    partitions: int
    parent: int
    side: int


def learn_lossless_map(
    batch: PointBatch, partitions: int, tau: float, propose: Propose = propose_sub_dictionaries
) -> LosslessMap:
    """The map for these pages. `propose` proposes sub-dictionaries for a cut; the default learns them from its
    pages."""
    require_partitions(partitions)
    parts = tau_parts(tau)
    if partitions > 1 and len(batch) < SAMPLE_PAGES_PER_PARTITION_MIN * partitions:
        raise BadSetting(
            f"{len(batch)} sample pages are too few for {partitions} partitions: give at least "
            f"{SAMPLE_PAGES_PER_PARTITION_MIN * partitions}, use fewer partitions, or use the default map"
        )
    cuts, masks = _Grower(batch, partitions, parts, propose).grow()
    packed = np.packbits(np.array(masks, np.bool_).reshape(-1, BUCKET_COUNT), axis=1).tobytes()
    return LosslessMap(
        LosslessMapData(
            version=LOSSLESS_VERSION,
            partitions=partitions,
            tau_parts=parts,
            cuts=tuple(cuts),
            masks=packed,
            sample_pages=len(batch),
        )
    )


class _Grower:
    """The growth of one map. Cuts are numbered in preorder, partitions from left to right."""

    def __init__(self, batch: PointBatch, partitions: int, tau: int, propose: Propose) -> None:
        self.profile = bucket_profile(batch)
        self.tie = batch.tie
        self.learns = np.arange(len(batch)) % PAGES_PER_LEARNER == 0
        self.partitions = partitions
        self.pages_max = partition_pages_max(len(batch), partitions)
        self.tau = tau / TAU_PARTS
        self.propose = propose

    def grow(self) -> tuple[list[Cut], list[Mask]]:
        cuts: list[Cut] = []
        masks: list[Mask] = []
        leaves = 0
        pending = [_Task(np.arange(len(self.tie)), self.partitions, -1, 0)]
        while pending:
            task = pending.pop()
            child = ~leaves if task.partitions == 1 else len(cuts)
            _attach(cuts, task, child)
            if task.partitions == 1:
                leaves += 1
                continue
            division = self._divide(task.pages, task.partitions)
            sub_dictionary = BY_LENGTH
            if division.mask is not None:
                sub_dictionary = len(masks)
                masks.append(division.mask)
            coordinate, tie_below = divmod(division.key, 1 << TIE_BITS)
            cuts.append(Cut(sub_dictionary, coordinate, tie_below, 0, 0))
            pending.append(_Task(division.pages_above, task.partitions - division.below, child, 1))
            pending.append(_Task(division.pages_below, division.below, child, 0))
        return cuts, masks

    def _divide(self, pages: Pages, partitions: int) -> _Division:
        if len(pages) < 2:
            # Pages with equal length, shares and tie all went to the other side; any cut is correct here.
            return _Division(None, 1 << TIE_BITS, pages[:0], pages, partitions // 2)
        return self._division(pages, self._coordinate_for(pages, partitions), partitions)

    def _coordinate_for(self, pages: Pages, partitions: int) -> Mask | None:
        """The coordinate to cut these pages by: the best proposed sub-dictionary, or None for length."""
        learners, placers = pages[self.learns[pages]], pages[~self.learns[pages]]
        best, best_price = None, length_price(self.profile.length[pages], partitions, self.tau)
        if len(placers) < 2:
            return best
        some_placers = evenly_spaced(placers, PRICING_PAGES_MAX)
        for mask in self.propose(self.profile, learners, lambda some, mask: self._side(some, mask, partitions)):
            price = self._side(some_placers, mask, partitions).cost
            if price < best_price:
                best, best_price = mask, price
        return best

    def _division(self, pages: Pages, mask: Mask | None, partitions: int) -> _Division:
        """The cheapest cut by this coordinate according to the placers, and the sides of all the pages."""
        keys = self._keys(pages, mask)
        of_placers = keys if mask is None else keys[~self.learns[pages]]
        place = cheapest_place(
            np.sort(of_placers), np.sort(keys), mask is None, partitions, self.tau, pages_max=self.pages_max
        )
        below = keys < place.key
        return _Division(mask, place.key, pages[below], pages[~below], place.below)

    def _side(self, some: Pages, mask: Mask, partitions: int) -> Side:
        keys = self._keys(some, mask)
        ranked = np.sort(keys)
        place = cheapest_place(ranked, ranked, False, partitions, self.tau, pages_max=len(keys))
        return Side(place.cost, keys >= place.key)

    def _keys(self, pages: Pages, mask: Mask | None) -> NDArray[np.int64]:
        """The ranking keys of pages: the coordinate, and in the low bits the tie."""
        return self._coordinates(pages, mask) << TIE_BITS | self.tie[pages]

    def _coordinates(self, pages: Pages, mask: Mask | None) -> NDArray[np.int64]:
        """Exactly the values that `_sides` in cut_tree.py compares."""
        length = self.profile.length[pages]
        if mask is None:
            return length
        inside = count_inside(self.profile, pages, mask)
        return np.where(length > 0, inside * SHARE_UNITS // np.maximum(length, 1), SHARE_UNITS)


def partition_pages_max(pages: int, partitions: int) -> int:
    """The most sample pages of a partition: whole pages, so that a node of p partitions can always be divided.

    An excess of the sample in a partition recurs in other pages, with sampling error on top. In a small sample a gap
    cannot be distinguished from a slope, and a cut that may move to the gap is more even for other pages; in a large
    one it can.
    """
    mean = pages / partitions
    slack = min(UNEVENNESS_MAX - 1, UNEVENNESS_DEVIATIONS_MAX / math.sqrt(mean)) if pages else 0.0
    return max(-(-pages // partitions), int((1 + slack) * mean))


def cheapest_place(
    placers: NDArray[np.int64],
    everyone: NDArray[np.int64],
    by_length: bool,
    partitions: int,
    tau: float,
    *,
    pages_max: int,
) -> CutChoice:
    """The cut with the fewest crossing placers per bit of partition number settled. Both arrays are ascending keys."""
    wanted, below, tax = _places(len(placers), partitions)
    rank = np.searchsorted(everyone, placers[wanted])
    rank = np.maximum(np.minimum(rank, below * pages_max), len(everyone) - (partitions - below) * pages_max)
    rank = np.clip(rank, 1, len(everyone) - 1)
    coordinate = everyone[rank] >> TIE_BITS
    tied = everyone[rank - 1] >> TIE_BITS == coordinate
    lowest, highest = _crossing_range(coordinate, tied, by_length, tau)
    crossing = _count_between(placers >> TIE_BITS, lowest, highest)
    cost = (crossing / len(placers) + CROSSING_FLOOR) * tax / _bits_settled(below / partitions)
    best = int(np.argmin(cost))
    key = everyone[rank[best]] if tied[best] else coordinate[best] << TIE_BITS
    return CutChoice(float(cost[best]), int(key), int(below[best]))


def length_price(length: NDArray[np.int64], partitions: int, tau: float) -> float:
    """Crossing pages per bit if the node were settled by length alone. Cuts by length get more expensive as they get
    closer; this shows it while enough pages are left to learn a sub-dictionary from."""
    ranked = np.sort(length)
    coordinate = ranked[np.arange(1, partitions) * len(ranked) // partitions]
    lowest, highest = _crossing_range(coordinate, np.zeros(len(coordinate), np.bool_), True, tau)
    crossing = _count_between(ranked, lowest, highest)
    return float(crossing.sum() / len(ranked) / np.log2(partitions))


def _places(page_count: int, partitions: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(rank, partitions below, tax) of every cut tried: around each quantile, within the sampling error of a count.

    Off the quantile the load is uneven. Where pages form clusters, such as topics, the size of a cluster has as large a
    sampling error, and the gap beside it is the better position, also for pages outside the sample.
    """
    quantiles = np.unique(np.arange(1, QUANTILES_MAX) * partitions // QUANTILES_MAX)
    options = np.arange(1, partitions) if partitions <= QUANTILES_MAX else quantiles[quantiles > 0]
    middle = page_count * options / partitions
    deviation = np.sqrt(np.minimum(middle, page_count - middle))
    rank = np.rint(middle[:, None] + deviation[:, None] * DEVIATIONS).astype(np.int64)
    tax = np.tile(1 + DEVIATION_TAX * DEVIATIONS**2, len(options))
    return np.clip(rank, 1, page_count - 1).ravel(), np.repeat(options, len(DEVIATIONS)), tax


def _crossing_range(
    coordinate: NDArray[np.int64], tied: NDArray[np.bool_], by_length: bool, tau: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coordinates of the pages that cross, by the bounds of cut_tree.py. Only a cost: routing uses integers."""
    if by_length:
        return np.asarray(coordinate * tau, np.float64), (coordinate - 1 + tied) / tau
    cut, cut_above = coordinate / SHARE_UNITS, (coordinate + tied) / SHARE_UNITS
    lowest: NDArray[np.float64] = np.minimum(tau * cut, 1 - (1 - cut) / tau)
    highest: NDArray[np.float64] = np.maximum(cut_above / tau, 1 - tau * (1 - cut_above))
    return lowest * SHARE_UNITS, highest * SHARE_UNITS


def _count_between(
    ranked: NDArray[np.int64], lowest: NDArray[np.float64], highest: NDArray[np.float64]
) -> NDArray[np.int64]:
    return np.searchsorted(ranked, highest, "right") - np.searchsorted(ranked, lowest, "left")


def _bits_settled(fraction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entropy of the division of partitions: on average log2 P bits must be settled from the root to a leaf."""
    rest = 1 - fraction
    return -(fraction * np.log2(fraction) + rest * np.log2(rest))


def _attach(cuts: list[Cut], task: _Task, child: int) -> None:
    if task.parent < 0:
        return
    cut = cuts[task.parent]
    below, above = (child, cut.above) if task.side == 0 else (cut.below, child)
    cuts[task.parent] = Cut(cut.sub_dictionary, cut.coordinate, cut.tie_below, below, above)
