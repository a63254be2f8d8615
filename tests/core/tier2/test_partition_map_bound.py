"""The law of the lossless map: two pages at Jaccard ≥ τ always meet, whichever of them comes last."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dustream.core.tier2.cut_tree import BY_LENGTH, SHARE_UNITS, Cut, LosslessMap, LosslessMapData
from dustream.core.tier2.partition_map import default_map
from dustream.core.tier2.points import BUCKET_COUNT, BUCKET_SHIFT

INSIDE, OUTSIDE = 0, 1  # buckets: the first lies in the sub-dictionary of `one_cut`, the second does not


def shingles(inside: range, outside: range) -> NDArray[np.uint64]:
    """Numbered shingles in the two buckets, ascending."""
    numbers = [(INSIDE << BUCKET_SHIFT) + one for one in inside] + [(OUTSIDE << BUCKET_SHIFT) + one for one in outside]
    return np.array(numbers, np.uint64)


def one_cut(sub_dictionary: int, coordinate: int, tie_below: int, tau: int) -> LosslessMap:
    mask = np.zeros(BUCKET_COUNT, np.bool_)
    mask[INSIDE] = True
    return LosslessMap(
        LosslessMapData(
            version=1,
            partitions=2,
            tau_parts=tau,
            cuts=(Cut(sub_dictionary, coordinate, tie_below, ~0, ~1),),
            masks=np.packbits(mask).tobytes(),
            sample_pages=0,
        )
    )


def best_on_the_other_side(partition_map: LosslessMap, inside: int, outside: int, ties: tuple[int, ...]) -> Fraction:
    """Highest Jaccard of any page, made by removing and adding, that lives in another partition than this one."""
    home = partition_map.home(shingles(range(inside), range(outside)))
    best = Fraction(0)
    reach = inside + outside
    for b_in, b_out in product(range(inside + reach + 1), range(outside + reach + 1)):
        common = min(inside, b_in) + min(outside, b_out)
        union = max(inside, b_in) + max(outside, b_out)
        if union and Fraction(common, union) > best:
            other = shingles(range(b_in), range(b_out))
            if any(partition_map.home(other, tie) != home for tie in ties):
                best = Fraction(common, union)
    return best


@pytest.mark.parametrize("tau", [5000, 8000, 9000])
@pytest.mark.parametrize(
    ("sub_dictionary", "coordinate", "tie_below"),
    [
        (BY_LENGTH, 9, 0),
        (BY_LENGTH, 9, 1 << 31),
        (0, SHARE_UNITS // 2, 0),
        (0, SHARE_UNITS // 2, 1 << 31),
        (0, SHARE_UNITS // 5, 0),
        (0, SHARE_UNITS * 9 // 10, 0),
        (0, SHARE_UNITS, 1 << 31),
    ],
)
def test_a_page_probes_exactly_where_a_near_duplicate_can_be(
    sub_dictionary: int, coordinate: int, tie_below: int, tau: int
) -> None:
    """Against every page that can be made of up to ten shingles: none missed, and few asked for nothing."""
    partition_map = one_cut(sub_dictionary, coordinate, tie_below, tau)
    ties = (0, (1 << 32) - 1)
    in_vain = 0
    for inside, outside in product(range(6), range(6)):
        best = best_on_the_other_side(partition_map, inside, outside, ties)
        probed = bool(partition_map.probes(shingles(range(inside), range(outside))))
        if inside + outside and best >= Fraction(tau, 10_000):
            assert probed, (inside, outside, best)
        in_vain += probed and best < Fraction(tau, 10_000) - Fraction(1, 5)
    assert in_vain <= 2  # whole shingles allow a little less than the real numbers of the proof


@st.composite
def near_pair(draw: st.DrawFn) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """A page over a few buckets, and the page after removing and adding shingles, often lopsided to one bucket."""
    bucket = st.integers(0, 7)
    page = draw(st.lists(bucket, min_size=0, max_size=120))
    removed = draw(st.lists(st.integers(0, 119), max_size=14))
    added_bucket = draw(bucket)
    added = [draw(bucket) if draw(st.booleans()) else added_bucket for _ in range(draw(st.integers(0, 14)))]
    whole = [(b << BUCKET_SHIFT) + at for at, b in enumerate(page)]
    kept = [one for at, one in enumerate(whole) if at not in set(removed)]
    other = kept + [(b << BUCKET_SHIFT) + 1000 + at for at, b in enumerate(added)]
    return np.sort(np.array(whole, np.uint64)), np.sort(np.array(other, np.uint64))


@st.composite
def tree(draw: st.DrawFn, page: NDArray[np.uint64]) -> LosslessMap:
    """Any tree of cuts whose coordinates lie about those of the page, where crossing is decided by a hair."""
    partitions = draw(st.integers(2, 6))
    masks = np.array([[draw(st.booleans()) for _ in range(8)] for _ in range(partitions)])
    wide = np.zeros((partitions, BUCKET_COUNT), np.bool_)
    wide[:, :8] = masks
    cuts: list[Cut] = []
    for at in range(partitions - 1):
        by_length = draw(st.booleans())
        own = len(page) if by_length else share_of(page, wide[at])
        off = draw(st.integers(-14, 14) if by_length else st.integers(-9000, 9000))
        coordinate = min(max(own + off, 0), 1000 if by_length else SHARE_UNITS)
        tie_below = draw(st.sampled_from([0, 1 << 31, 1 << 32]))
        last = at == partitions - 2
        children = (~at, ~(partitions - 1) if last else at + 1)
        below, above = children if draw(st.booleans()) else children[::-1]
        cuts.append(Cut(BY_LENGTH if by_length else at, coordinate, tie_below, below, above))
    tau = draw(st.sampled_from([5000, 8000, 9000, 9500]))
    packed = np.packbits(wide, axis=1).tobytes()
    return LosslessMap(
        LosslessMapData(version=1, partitions=partitions, tau_parts=tau, cuts=tuple(cuts), masks=packed, sample_pages=0)
    )


def share_of(page: NDArray[np.uint64], mask: NDArray[np.bool_]) -> int:
    if len(page) == 0:
        return SHARE_UNITS
    return int(mask[(page >> np.uint64(BUCKET_SHIFT)).astype(np.int64)].sum()) * SHARE_UNITS // len(page)


def jaccard(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> Fraction:
    union = len(np.union1d(one, other))
    return Fraction(len(np.intersect1d(one, other)), union) if union else Fraction(1)


@settings(max_examples=400)
@given(data=st.data(), ties=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
def test_near_duplicates_meet_in_any_tree(data: st.DataObject, ties: tuple[int, int]) -> None:
    one, other = data.draw(near_pair())
    partition_map = data.draw(tree(one))
    if jaccard(one, other) < Fraction(partition_map.data.tau_parts, 10_000):
        return
    homes = partition_map.home(one, ties[0]), partition_map.home(other, ties[1])
    assert homes[1] in {homes[0], *partition_map.probes(one, ties[0])}
    assert homes[0] in {homes[1], *partition_map.probes(other, ties[1])}


@settings(max_examples=100)
@given(pair=near_pair(), partitions=st.sampled_from([1, 2, 7, 64]))
def test_near_duplicates_meet_in_the_default_map(
    pair: tuple[NDArray[np.uint64], NDArray[np.uint64]], partitions: int
) -> None:
    one, other = pair
    partition_map = default_map(partitions, 0.8)
    if jaccard(one, other) >= Fraction(8, 10):
        assert partition_map.home(other) in {partition_map.home(one), *partition_map.probes(one)}
        assert partition_map.home(one) in {partition_map.home(other), *partition_map.probes(other)}
