"""numba is imported without the libraries that it looks for and no kernel uses."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from dustream.core.kernels import UNUSED_BY_KERNELS
from dustream.core.kernels.mix64 import mix64
mix64(1)  # loads what numba needs for any compiled function
print([name for name in UNUSED_BY_KERNELS if name in sys.modules])
import scipy.linalg.cython_blas, yaml
"""


def test_numba_does_not_import_what_no_kernel_uses_and_others_still_can() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
