"""Runs a command and watches the memory of its processes."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Watched(NamedTuple):
    """Seconds by the clock, processor seconds; the peak of the resident memory of all processes together, where what n
    of them share counts a n-th for each, and of the part that is no mapped file; exit status; and what it printed, None
    if it was killed at the limit."""

    seconds: float
    cpu_seconds: float
    peak_mb: int
    anonymous_mb: int
    status: int
    output: str | None


def watched(command: list[str], limit_s: float | None = None) -> Watched:
    """Memory is read every 50 ms, or less often if reading takes long: at most a twentieth of one core."""
    peaks = [0, 0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    done = threading.Event()

    def watch() -> None:
        pause_s = 0.05
        while not done.wait(pause_s):
            began = time.perf_counter()
            now = [memory_kb(pid) for pid in descendants(process.pid)]
            peaks[:] = [max(peak, sum(each)) for peak, each in zip(peaks, zip(*now, strict=True), strict=True)]
            pause_s = max(0.05, 20 * (time.perf_counter() - began))

    watcher = threading.Thread(target=watch)
    watcher.start()
    output = _output_of(process, limit_s)
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    text = None if output is None else output.decode(errors="replace")
    return Watched(seconds, cpu, peaks[0] >> 10, peaks[1] >> 10, process.returncode, text)


def _output_of(process: subprocess.Popen[bytes], limit_s: float | None) -> bytes | None:
    """What a process prints until it ends; None if it is killed at the limit."""
    try:
        return process.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        for pid in reversed(descendants(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
        return None


def descendants(pid: int) -> list[int]:
    found, at = [pid], 0
    while at < len(found):
        with suppress(OSError):  # a process may end at any moment
            for task in Path(f"/proc/{found[at]}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        at += 1
    return found


def memory_kb(pid: int) -> tuple[int, int]:
    """Resident memory of a process, its share of what it shares with others, and how much of it is no mapped file."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(Pss|Pss_Anon):\s+(\d+)", rollup, re.M))
    return int(found.get("Pss", 0)), int(found.get("Pss_Anon", 0))
