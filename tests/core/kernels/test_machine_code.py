"""Machine code on disk is loaded without preparing the compiler."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from dustream.core.kernels.hash_slots import numbered

PROGRAM = """
import numpy as np
from dustream.core.kernels.hash_slots import numbered
from numba.core.typing.context import BaseContext

def refresh(self):
    raise AssertionError("the compiler was prepared")

BaseContext.refresh = refresh
print(*numbered(np.array([7, 9, 7], np.uint64))[0])
"""


def test_loading_does_not_prepare_the_compiler() -> None:
    numbered(np.array([7, 9, 7], np.uint64))  # compiled now at the latest
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "0"]
