"""How many shingles of pages other pages have: many pairs in one call, and every set is copied once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.text.shingle_bytes import SHINGLE_BYTES, shingle_array

Shingles = NDArray[np.uint64]
Numbers = NDArray[np.int64]
Item = TypeVar("Item")


@kernel
def common_counts(
    pages: Shingles,
    page_ends: Numbers,
    needed: Numbers,
    others: Shingles,
    other_ends: Numbers,
    pairs: Numbers,
) -> Numbers:
    """Per pair: how many shingles of a page another one has, or -1 if fewer than the page needs.

    The sets of the pages and those of the others are concatenated, with their ends. `pairs` has the numbers of all
    pages, then those of the others."""
    count = len(pairs) // 2
    found = np.empty(count, dtype=np.int64)
    for pair in range(count):
        page, other = pairs[pair], pairs[count + pair]
        start, end = page_ends[page - 1] if page else 0, page_ends[page]
        i, j, other_end = start, other_ends[other - 1] if other else 0, other_ends[other]
        common, spare = 0, end - start - needed[page]
        while i < end and j < other_end and i - start - common <= spare:
            left, right = pages[i], others[j]
            common += left == right
            i += left <= right
            j += right <= left
        found[pair] = common if common >= needed[page] else -1
    return found


def common_with(
    pages: Sequence[bytes], needed: Sequence[int], others: Sequence[bytes], members: Sequence[Sequence[int]]
) -> list[int]:
    """`common_counts` of each page, given as stored, with those of the others that its members name, one after the
    other."""
    by_page = np.repeat(np.arange(len(pages)), [len(some) for some in members])
    pairs = np.concatenate([by_page, np.fromiter(chain.from_iterable(members), dtype=np.int64, count=len(by_page))])
    sets, other_sets = shingle_array(b"".join(pages)), shingle_array(b"".join(others))
    needs = np.array(needed, dtype=np.int64)
    counts: list[int] = common_counts(sets, _ends(pages), needs, other_sets, _ends(others), pairs).tolist()
    return counts


def _ends(stored: Sequence[bytes]) -> Numbers:
    return np.cumsum([len(each) // SHINGLE_BYTES for each in stored], dtype=np.int64)


def portions(items: Sequence[Item], sizes: Sequence[int], size_max: int) -> Iterator[list[Item]]:
    """The items in order, in portions of at most this size, or of one item."""
    portion: list[Item] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if portion and total + size > size_max:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size
    if portion:
        yield portion
