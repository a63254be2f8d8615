"""Detects whether code is being compiled, and for how long: the reason why the first run after an update is slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dustream.core.kernels.native import Event, Listener, install_listener


class CompileClock(Listener):
    """Numba reports every compilation, but not machine code from its cache. Compilations nest."""

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
    """Measures compilation in this block; calls `on_first` when it begins."""
    clock = CompileClock(on_first)
    with install_listener("numba:compile", clock):
        yield clock
