"""A worker's log: one line an event on stderr, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys

NOISY = ("aiokafka", "faust", "mode", "asyncio")


class JsonLines(logging.Formatter):
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


def configure_log(level: str, *, as_json: bool) -> None:
    """Our own lines at `level`; those of the libraries only when something is wrong, unless asked for everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
