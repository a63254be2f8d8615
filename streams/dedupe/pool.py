"""Work in several threads or processes, in order. With one job, in this process and thread.

Threads start at once and share memory. Compiled code and Arrow run beside each other in threads; Python code does not,
and needs processes.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from dustream.core.errors import DustreamError
from dustream.streams.engine.worker_processes import worker_executor

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

TASKS_IN_FLIGHT_PER_JOB = 2
ITEMS_AHEAD = 2


_own = threading.local()


class Stopped(Exception):
    """The work of this thread was given up, because another thread failed or was interrupted."""


def check_stopped() -> None:
    """Called now and then by work in threads: raises Stopped if the outcome is not wanted any more."""
    stop: threading.Event | None = getattr(_own, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def in_threads(work: Callable[[Task], Outcome], tasks: Iterable[Task], jobs: int) -> Iterator[Outcome]:
    """The outcome of each task, in their order. Tasks are taken when a thread is free. An error of a task is raised
    here, and stops the others."""
    if jobs <= 1:
        yield from map(work, tasks)
        return
    stop = threading.Event()

    def begin() -> None:
        _own.stop = stop

    executor = ThreadPoolExecutor(jobs, initializer=begin)
    in_flight: deque[Future[Outcome]] = deque()
    try:
        for task in tasks:
            in_flight.append(executor.submit(work, task))
            if len(in_flight) > jobs:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()
    finally:
        stop.set()
        executor.shutdown(cancel_futures=True)


def ahead(items: Iterable[Task], jobs: int) -> Iterator[Task]:
    """The items; with several jobs, some of them are made in another thread before they are asked for."""
    if jobs <= 1:
        yield from items
        return
    end, iterator = object(), iter(items)
    executor = ThreadPoolExecutor(1)
    waiting: deque[Future[Any]] = deque(executor.submit(next, iterator, end) for _ in range(ITEMS_AHEAD))
    try:
        while (item := waiting.popleft().result()) is not end:
            waiting.append(executor.submit(next, iterator, end))
            check_stopped()
            yield item
    finally:
        executor.shutdown(cancel_futures=True)


def in_processes(work: Callable[[Task], Outcome], tasks: Iterable[Task], jobs: int) -> Iterator[Outcome]:
    """The outcome of each task, in their order. Errors of a task are raised here."""
    tasks = list(tasks)
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    executor = worker_executor(min(jobs, len(tasks)))
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
