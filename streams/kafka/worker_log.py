"""A worker's log: one line per event on stderr, as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable

from aiokafka.errors import KafkaConnectionError, KafkaError

NOISY = ("aiokafka", "faust", "mode", "asyncio")
REPEAT_S = 10.0


class Seldom(logging.Filter):
    """Rate-limits a library's repeated message: while a broker is down, it is repeated ten times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._passed_at_s: dict[tuple[str, str], float] = {}
        self._held: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], KafkaConnectionError):
            # a broker that goes away is not a bug: the traceback does not help
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
            record.exc_info = record.exc_text = None
        if not record.name.startswith(NOISY):
            return True
        kind, now_s = (record.name, str(record.msg)), self._clock()
        if now_s - self._passed_at_s.get(kind, -REPEAT_S) < REPEAT_S:
            self._held[kind] += 1
            return False
        self._passed_at_s[kind] = now_s
        if held := self._held.pop(kind, 0):
            record.msg = f"{record.getMessage()} (repeated {held} times since last logged; the worker keeps trying)"
            record.args = ()
        return True


class JsonLogLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "source": record.name,
            "text": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    """The client's own threads end in this way when they are stopped while the broker is away."""
    if isinstance(ended.exc_value, CancelledError | KafkaError):
        logging.getLogger(__name__).warning("a thread of the Kafka client ended: %r", ended.exc_value)
    else:
        threading.__excepthook__(ended)


def configure_log(level: str, *, as_json: bool) -> None:
    """Configure our own lines at `level`; those of libraries only for problems, unless `level` is debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogLines() if as_json else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    if level != "debug":
        handler.addFilter(Seldom())
    threading.excepthook = _thread_ended
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
