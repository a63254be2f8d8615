"""The example site runs the kernels of the pattern tree, so that set-up compiles them."""

from __future__ import annotations

from typing import Any

import pytest

from dustream.core.rules import candidates, evidence, landing, shares
from dustream.core.rules.example_site import learn_some_rules


@pytest.mark.parametrize(
    "kernel",
    [candidates._mapped, evidence._evidence_of_slices, landing._explained, shares._members, shares._most_frequent],
    ids=lambda kernel: kernel.__name__,
)
def test_kernel_runs(kernel: Any) -> None:
    learn_some_rules()
    assert kernel.compiled_types
