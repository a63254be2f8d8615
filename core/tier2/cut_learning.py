"""Growing the lossless map from a sample: which cut divides these pages evenly and makes the fewest of them cross.

A node has to spread its pages over p partitions. Any division of p into two parts will do, as long as the pages divide
in the same proportion, so every cut near one of the p − 1 quantiles is looked at, in length and in the shares of the
sub-dictionaries proposed. A cut that many pages cross costs contacts; one that sets little apart leaves more cuts to be
made. The cheapest cut is the one with the fewest crossing pages per bit of partition number settled.

The map must be even on pages it has not seen. A sub-dictionary fits the pages it was learned from far closer than any
others: cut at their median, unseen pages would gather on one side. So one page in PAGES_PER_LEARNER is a *learner* and
teaches sub-dictionaries; all others are *placers*, have no part in any, and choose and place the share cuts. What
remains is chance: a partition filled by n placers is right to about 1/√n, and no cut placed by a sample does better.

On the sample itself no partition may get more than UNEVENNESS_MAX times the mean, learners included, and less where the
sample is large enough to tell less (`partition_pages_max`). A node of p partitions never holds more than p times that
many pages: where the placers would have it otherwise the cut moves, by as little as it takes. Pages are ranked by
coordinate and tie, so there is a place between any two of them.
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
UNEVENNESS_DEVIATIONS_MAX = 0.8  # and how far above the mean in standard deviations of a count: from 400 pages on, less
DEVIATIONS = np.linspace(-2.0, 2.0, 17)  # places looked at about a quantile, in standard deviations of a count
DEVIATION_TAX = 0.25  # what a place costs more for each squared deviation: a gap is worth it, a slope is not
SAMPLE_PAGES_PER_PARTITION_MIN = 4
PAGES_PER_LEARNER = 8  # one page of so many teaches sub-dictionaries, the others place cuts
PRICING_PAGES_MAX = 12_000  # placers that choose among the sub-dictionaries offered; all of them place the cut
QUANTILES_MAX = 64  # divisions looked at per node
CROSSING_FLOOR = 1e-2  # what a cut costs that no sample page crosses: other pages may

Propose = Callable[[BucketProfile, Pages, Callable[[Pages, Mask], Side]], list[Mask]]


class CutChoice(NamedTuple):
    """A cut: pages whose key is lower go below, where `below` of the partitions are."""

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
    """A node still to be grown; `parent` is the cut it hangs on, `side` 0 for below."""

    pages: Pages
    partitions: int
    parent: int
    side: int


def learn_lossless_map(
    batch: PointBatch, partitions: int, tau: float, propose: Propose = propose_sub_dictionaries
) -> LosslessMap:
    """The map for these pages. `propose` offers sub-dictionaries for a cut; the default learns them from its pages."""
    require_partitions(partitions)
    parts = tau_parts(tau)
    if partitions > 1 and len(batch) < SAMPLE_PAGES_PER_PARTITION_MIN * partitions:
        raise BadSetting(
            f"{len(batch)} sample pages are too few for {partitions} partitions: give at least "
            f"{SAMPLE_PAGES_PER_PARTITION_MIN * partitions}, ask for fewer partitions, or use the default map"
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
    """One growth. Cuts are numbered in preorder, partitions from left to right."""

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
            # Pages that neither length, shares nor ties set apart all went elsewhere; any cut is right here.
            return _Division(None, 1 << TIE_BITS, pages[:0], pages, partitions // 2)
        return self._division(pages, self._coordinate_for(pages, partitions), partitions)

    def _coordinate_for(self, pages: Pages, partitions: int) -> Mask | None:
        """What to cut these pages by: the best sub-dictionary offered, or None for length."""
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
        """The cheapest cut by this coordinate, as the placers have it, and where it sends all the pages."""
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
        """What pages are ranked by: the coordinate, and in the low bits the tie."""
        return self._coordinates(pages, mask) << TIE_BITS | self.tie[pages]

    def _coordinates(self, pages: Pages, mask: Mask | None) -> NDArray[np.int64]:
        """Exactly what `_sides` in cut_tree.py compares."""
        length = self.profile.length[pages]
        if mask is None:
            return length
        inside = count_inside(self.profile, pages, mask)
        return np.where(length > 0, inside * SHARE_UNITS // np.maximum(length, 1), SHARE_UNITS)


def partition_pages_max(pages: int, partitions: int) -> int:
    """Whole pages, so that p partitions have room for p times as many and a node can always be divided.

    What the sample has too much in a partition, other pages have too, and chance on top. A few pages cannot tell a gap
    from a slope, and a cut that is free to find the gap is the more even one for others; many pages can.
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
    """Where to cut: the fewest placers crossing per bit of partition number settled. Both come as ascending keys."""
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
    """Crossing pages per bit if length alone settled the node: that cuts by length get dearer as they get closer
    must not be found out where too few pages are left to learn a sub-dictionary from."""
    ranked = np.sort(length)
    coordinate = ranked[np.arange(1, partitions) * len(ranked) // partitions]
    lowest, highest = _crossing_range(coordinate, np.zeros(len(coordinate), np.bool_), True, tau)
    crossing = _count_between(ranked, lowest, highest)
    return float(crossing.sum() / len(ranked) / np.log2(partitions))


def _places(page_count: int, partitions: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(rank, partitions below, tax) of every cut looked at: about each quantile, as far as chance moves a count.

    Off the quantile the load is uneven. Where pages come in clumps, such as topics, a clump's own number is as far off
    by chance, and the gap beside it is the better place, also for pages not seen yet.
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
    """Entropy of the division of partitions: log2 P bits have to be settled from the root to a leaf, on average."""
    rest = 1 - fraction
    return -(fraction * np.log2(fraction) + rest * np.log2(rest))


def _attach(cuts: list[Cut], task: _Task, child: int) -> None:
    if task.parent < 0:
        return
    cut = cuts[task.parent]
    below, above = (child, cut.above) if task.side == 0 else (cut.below, child)
    cuts[task.parent] = Cut(cut.sub_dictionary, cut.coordinate, cut.tie_below, below, above)
