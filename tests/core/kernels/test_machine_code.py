"""Machine code on disk that other versions of the source have left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = """
from typing import NamedTuple

from dustream.core.kernels.compile import kernel


class {name}(NamedTuple):
    one: int
    other: int


@kernel
def added(pair: {name}) -> int:
    return pair.one + pair.other


def answer() -> int:
    return added({name}(1, {other}))
"""


def test_code_for_a_class_that_is_there_no_more_is_compiled_again(tmp_path: Path) -> None:
    module, folder = tmp_path / "some_kernels.py", {"NUMBA_CACHE_DIR": str(tmp_path / "code")}
    for name, other in (("Pair", 2), ("Couple", 3), ("Couple", 3)):
        source = SOURCE.format(name=name, other=other)
        if not module.exists() or module.read_text() != source:
            module.write_text(source)
        program = "import some_kernels; print(some_kernels.answer(), len(some_kernels.added.stats.cache_hits))"
        run = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | folder, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.split()[0] == str(1 + other)
    assert run.stdout.split()[1] == "1"  # read from disk
