"""What is imported for compiled code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COMPILING = """
import sys
from dustream.core.kernels.native import UNUSED_BY_KERNELS, njit
print(njit(lambda value: value + 1)(1), [name for name in UNUSED_BY_KERNELS if name in sys.modules])
import scipy.linalg.cython_blas, yaml
"""

RUNNING = """
import sys
from dustream.streams.cli.main import main
main(["run", "crawl.jsonl", "--out", "result", "--quiet", "--jobs", "1", *sys.argv[1:]])
print({"numba", "llvmlite", "pyarrow"} & set(sys.modules))
"""


def test_numba_does_not_import_what_no_kernel_uses_and_others_still_can() -> None:
    run = subprocess.run([sys.executable, "-c", COMPILING], capture_output=True, text=True, check=True)
    assert run.stdout == "2 []\n"


def test_a_run_with_code_on_disk_does_not_import_numba(tmp_path: Path) -> None:
    pages = [{"url": f"https://a.example/{number}", "html": "<p>some words of a page</p>"} for number in range(3)]
    (tmp_path / "crawl.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    for options in ([], ["--once"]):
        program = [sys.executable, "-c", RUNNING, *options]
        for _ in range(2):  # the first one may compile
            run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout.endswith("set()\n")
