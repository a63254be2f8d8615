"""The shingles that pages have in common with a page, counted as far as needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2.containers import common_counts

SETS = st.sets(st.integers(0, 30), max_size=20)


def stored(*sets: set[int]) -> NDArray[np.uint64]:
    return shingle_array(b"".join(np.array(sorted(each), dtype="<u8").tobytes() for each in sets))


@given(page=SETS, others=st.lists(SETS, min_size=1, max_size=4), needed=st.integers(0, 20))
def test_counts_are_exact_where_they_are_enough(page: set[int], others: list[set[int]], needed: int) -> None:
    sizes = np.array([len(each) for each in others], dtype=np.int64)
    exact = [len(page & each) for each in others]
    expected = [count if count >= needed else -1 for count in exact]
    assert common_counts(stored(page), stored(*others), sizes, needed).tolist() == expected
