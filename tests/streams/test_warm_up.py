"""What set-up compiles is all that runs need."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc

from dustream.core.intake import take_in
from dustream.core.kernels.compile import Kernel
from dustream.core.once.contents import MemorySpool
from dustream.core.pipeline import pipeline
from dustream.core.settings import Settings
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.generate import generate
from dustream.streams.once.engine import OnceEngine
from dustream.streams.store.memory import MemoryStore
from dustream.streams.warm_up import PARTS, _feed


def compiled():
    kernels = [each for each in gc.get_objects() if type(each) is Kernel]
    return {f"{kernel.__module__}.{kernel.__name__}{types}" for kernel in kernels for types in kernel.compiled_types}


for part in PARTS.values():
    part()
known = compiled()
crawls = take_in(generate(pages=3_000, seed=1), Settings().text_source).crawls
EmbeddedEngine(pipeline(Settings()), MemoryStore()).run([_feed(crawls)])
OnceEngine(Settings(), MemorySpool).run([_feed(crawls)])
assert len(known) > 80
print(*sorted(compiled() - known), sep="\\n")
"""


def test_a_run_of_a_small_web_needs_no_kernel_that_set_up_does_not_compile() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ""
