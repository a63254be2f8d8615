"""Work in several processes, in order. With one job, in this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from dustream.core.errors import DustreamError

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

TASKS_IN_FLIGHT_PER_JOB = 2


def in_processes(work: Callable[[Task], Outcome], tasks: Iterable[Task], jobs: int) -> Iterator[Outcome]:
    """The outcome of each task, in their order. Errors of a task are raised here."""
    tasks = list(tasks)
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    executor = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    in_flight: deque[Future[Outcome]] = deque()
    left = iter(tasks)
    try:
        while True:
            while len(in_flight) < jobs * TASKS_IN_FLIGHT_PER_JOB and (task := next(left, None)) is not None:
                in_flight.append(executor.submit(work, task))
            if not in_flight:
                break
            yield in_flight.popleft().result()
        executor.shutdown()
    except BrokenProcessPool:
        raise DustreamError(
            "a worker process was killed, probably for want of memory: use fewer --jobs, or free some memory"
        ) from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
            process.join()


def _start_worker() -> None:
    """The parent handles Ctrl-C, and a worker ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
