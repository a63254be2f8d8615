"""Worker processes: how they start, and that they end with their parent and leave Ctrl-C to it.

Those that read or learn are forked from a server, which imports what they need while the main process imports its own,
and has no threads, which do not survive a fork. Those of an executor are started afresh.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

SHARED_BYTES_MIN = 8 << 20  # less is read and signed sooner by one process than it takes to start workers

_PRELOADED = ["dustream.streams.engine.shared_reading", "dustream.core.rules.processor"]


def worker_context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def start_server_for(paths: Iterable[str], jobs: int) -> None:
    """Start it now, if workers will be wanted for these inputs."""
    if jobs > 1 and sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) >= SHARED_BYTES_MIN:
        worker_context()
        with interrupts_ignored():
            forkserver.ensure_running()


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C, which a terminal sends to all its processes: the main process
    handles it and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def follow_parent() -> None:
    """In a worker: leave Ctrl-C to the parent, and end with it. Otherwise the worker would wait for ever and keep the
    parent's output files open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()


def worker_executor(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=follow_parent)
    with interrupts_ignored():
        for _ in range(workers):
            executor.submit(int)  # starts a worker if none is idle
    return executor


def pickled(error: Exception) -> bytes:
    """The error, or one with the same text, for another process to raise."""
    try:
        pickle.loads(data := pickle.dumps(error))
    except Exception:  # not every exception survives it
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


def peak_memory_mb() -> int:
    """Largest resident size of this process so far (without others that it started)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10))
