"""The shingles that pages have in common with a page, counted as far as needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.tier2.weighing import common_with, portions

SETS = st.sets(st.integers(0, 30), max_size=20)


def stored(numbers: set[int]) -> bytes:
    return np.array(sorted(numbers), dtype="<u8").tobytes()


@given(pages=st.lists(SETS, max_size=3), others=st.lists(SETS, max_size=4), data=st.data())
def test_counts_are_exact_where_they_are_enough(
    pages: list[set[int]], others: list[set[int]], data: st.DataObject
) -> None:
    needed = [data.draw(st.integers(0, 20)) for _ in pages]
    some = st.lists(st.sampled_from(range(len(others))), max_size=4) if others else st.just([])
    members = [data.draw(some) for _ in pages]
    exact = [[len(page & others[other]) for other in named] for page, named in zip(pages, members, strict=True)]
    expected = [count if count >= need else -1 for counts, need in zip(exact, needed, strict=True) for count in counts]
    assert common_with([*map(stored, pages)], needed, [*map(stored, others)], members) == expected


@given(sizes=st.lists(st.integers(0, 9)), size_max=st.integers(1, 12))
def test_portions_are_bounded_and_have_every_item_in_order(sizes: list[int], size_max: int) -> None:
    found = list(portions(sizes, sizes, size_max))
    assert [size for portion in found for size in portion] == sizes
    assert all(portion and (sum(portion) <= size_max or len(portion) == 1) for portion in found)
