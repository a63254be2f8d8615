"""A state is read while a run writes it: whole, whatever RocksDB moves meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from dustream.core.errors import StateMismatch
from dustream.streams.store.extent import count_batches, open_to_read

OPENINGS = 60
LATEST = 200  # rows, of which the write buffer holds a quarter
WRITER = """
import os, sys
from pathlib import Path
from dustream.streams.store.extent import MeasuredStore
store = MeasuredStore(Path(sys.argv[1]), memory_bytes=3 << 20)
number = 0
while os.getppid() == int(sys.argv[2]):
    number += 1
    store.write([(b"row/%08d" % number, os.urandom(20_000))])
"""


def test_no_committed_row_is_missing_while_a_run_writes(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(os.getpid())])
    try:
        while _batches(tmp_path) < LATEST:
            time.sleep(0.05)
        for _ in range(OPENINGS):
            store = open_to_read(tmp_path)
            batches = count_batches(store)
            expected = [b"row/%08d" % number for number in range(batches - LATEST + 1, batches + 1)]
            assert [key for key, _ in store.scan(b"row/", b"row/%08d" % (batches - LATEST))] == expected
            store.close()
    finally:
        writer.kill()
        writer.wait()


def _batches(path: Path) -> int:
    try:
        store = open_to_read(path)
    except StateMismatch:
        return 0
    batches = count_batches(store)
    store.close()
    return batches
