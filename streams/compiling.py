"""Whether hot loops are being compiled, and for how long: the first run after an update is slow for no other reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dustream.core.kernels.native import Event, Listener, install_listener


class CompileClock(Listener):
    """Numba tells of every compilation, but not of machine code that it finds in its cache. Compilations nest."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._depth = 0
        self._started_s = 0.0
        self.seconds = 0.0

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._started_s = time.perf_counter()
            if not self.seconds:
                self._on_first()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started_s


@contextmanager
def compile_clock(on_first: Callable[[], None]) -> Iterator[CompileClock]:
    """Counts what this process compiles meanwhile; `on_first` is told when that begins."""
    clock = CompileClock(on_first)
    with install_listener("numba:compile", clock):
        yield clock
