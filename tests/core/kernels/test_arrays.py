"""Operations on arrays of compiled code do what those of numpy do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dustream.core.kernels.arrays import ascending, copy_into, largest, stable_order
from dustream.core.kernels.compile import kernel


@kernel
def _all_of(keys: npt.NDArray[Any], target: npt.NDArray[np.int64]) -> tuple[Any, Any, Any]:
    copy_into(target, keys)
    return stable_order(keys), ascending(keys), largest(keys)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000])
def test_as_numpy(size: int) -> None:
    keys = np.random.default_rng(size).integers(-5, 5, size)
    target = np.full(size + 2, 99)
    order, ordered, most = _all_of(keys, target)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert ordered.tolist() == np.sort(keys).tolist()
    assert most == keys.max()
    assert target.tolist() == [*keys.tolist(), 99, 99]
