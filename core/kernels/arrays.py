"""Operations on arrays for compiled code, in as little code as they need.

numba compiles those of numpy with all their cases and error messages, which takes a second or more for each type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner

Array = npt.NDArray[Any]


@inner
def copy_into(target: Array, source: Array) -> None:
    """Copy the items to the beginning of another array, of the same or another type."""
    for i in range(len(source)):
        target[i] = source[i]


@inner
def largest(items: Array) -> Any:
    """The largest of one item or more."""
    found = items[0]
    for item in items:
        found = max(found, item)
    return found


@inner
def stable_order(keys: Array) -> npt.NDArray[np.int64]:
    """The places of the keys in ascending order, those of equal keys in their order (bottom-up merge sort)."""
    size, width = len(keys), 1
    order, merged = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(size):
        order[i] = i
    while width < size:
        for start in range(0, size, 2 * width):
            left, middle, end = start, min(start + width, size), min(start + 2 * width, size)
            right = middle
            for at in range(start, end):
                if right == end or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@inner
def ascending(keys: Array) -> Array:
    """The keys in ascending order."""
    order, found = stable_order(keys), np.empty_like(keys)
    for i in range(len(keys)):
        found[i] = keys[order[i]]
    return found
