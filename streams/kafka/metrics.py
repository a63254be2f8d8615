"""A worker's metrics, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import get_args

from dustream.schemas.status import Role

HELP: dict[str, tuple[str, str]] = {
    "messages": ("counter", "messages processed"),
    "handed_over": ("counter", "messages passed directly between tasks within a transaction, without a log"),
    "batches": ("counter", "times a stage's task had a part in a transaction"),
    "transactions": ("counter", "transactions committed"),
    "transaction_failures": ("counter", "transactions that failed or were refused"),
    "records_out": ("counter", "records written, state rows included"),
    "state_rows": ("counter", "state rows changed"),
    "dead_letters": ("counter", "records and messages that could not be used"),
    "handling_seconds": ("counter", "seconds spent in handlers"),
    "writing_seconds": ("counter", "seconds from the end of the work to the commit"),
    "repeated_batches": ("counter", "batches from other tasks that arrived again and were skipped"),
    "holes": ("counter", "records lost before they reached a handler, and fetched again"),
    "lost_records": ("counter", "input records deleted by retention before they were read"),
    "recovered_rows": ("counter", "changelog records read while opening tasks"),
    "rebuilt_rows": ("counter", "state rows read while opening tasks, to rebuild what is derived from them"),
    "task_opens": ("counter", "tasks opened"),
    "task_failures": ("counter", "tasks closed by an error"),
    "rebalances": ("counter", "times the partitions were reassigned"),
    "restarts": ("counter", "times the worker restarted after a failure"),
    "position": ("gauge", "offset of the next input record"),
    "lag": ("gauge", "input records not processed yet, transaction markers included; absent while the broker is away"),
    "lag_seconds": ("gauge", "age of the newest crawl record fetched, while more are waiting; else 0"),
    "pages_taken": ("counter", "crawl events taken in"),
    "events_rejected": ("counter", "crawl events that cannot be used"),
    "events_ignored": ("counter", "crawl events without information about their page"),
    "statuses": ("counter", "statuses written, by role"),
    "groups": ("gauge", "groups of more than one page"),
    "tier2_pages": ("gauge", "pages by the tier-2 partition that is their home"),
    "tier2_imbalance": ("gauge", "pages in the fullest tier-2 partition over the mean, of the URLs of this partition"),
    "remapped_pages": ("gauge", "times a changed page was remapped to another tier-2 partition"),
    "alarms": ("gauge", "groups and sites that are held"),
    "held_pages": (
        "gauge",
        "pages that would be dropped and are held: all but one of held groups, the lost pages of held sites",
    ),
    "tasks": ("gauge", "tasks of this worker"),
    "ready": ("gauge", "1 when all tasks of this worker are open and the broker answers"),
    "contact_seconds": ("gauge", "seconds since the broker last answered"),
    "disk_full": ("gauge", "1 while the worker waits for room on its disk"),
    "unsettled": ("gauge", "records and postponed work not yet reflected in the statuses; 0: all is"),
}

BY_PROCESSOR = (
    "messages",
    "batches",
    "state_rows",
    "dead_letters",
    "handling_seconds",
    "repeated_batches",
    "holes",
    "recovered_rows",
    "rebuilt_rows",
    "task_opens",
    "task_failures",
)
ROLES: tuple[str, ...] = get_args(Role)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and gauges with labels; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, Labels], float] = {}

    def begin(self, processors: Sequence[str]) -> None:
        """Create every counter at the start: a rate over a counter that appears with its first event would miss it."""
        for name, (kind, _) in HELP.items():
            if kind != "counter":
                continue
            if name in BY_PROCESSOR:
                labels: list[dict[str, str]] = [{"processor": processor} for processor in processors]
            elif name == "statuses":
                labels = [{"role": role} for role in ROLES]
            else:
                labels = [{"reason": ""}] if name == "events_ignored" else [{}]
            for each in labels:
                self._start(name, **each)

    def _start(self, name: str, **labels: str) -> None:
        with self._lock:
            self._values.setdefault((name, tuple(sorted(labels.items()))), 0)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        if amount:
            key = (name, tuple(sorted(labels.items())))
            with self._lock:
                self._values[key] = self._values.get(key, 0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        with self._lock:
            self._values[name, tuple(sorted(labels.items()))] = value

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of a metric over all other labels; None if there is none."""
        wanted = set(labels.items())
        with self._lock:
            found = [value for key, value in self._values.items() if key[0] == name and wanted <= set(key[1])]
        return sum(found) if found else None

    def highest(self, name: str) -> float | None:
        """The highest value of a metric; None if there is none."""
        with self._lock:
            return max((value for key, value in self._values.items() if key[0] == name), default=None)

    def drop(self, *names: str, **labels: str) -> None:
        """Remove the gauges of a name with these labels (they may have more)."""
        gone = set(labels.items())
        with self._lock:
            self._values = {
                key: value for key, value in self._values.items() if key[0] not in names or not gone <= set(key[1])
            }

    def text(self) -> str:
        """The exposition format, version 0.0.4."""
        with self._lock:
            values = sorted(self._values.items())
        lines: list[str] = []
        previous = ""
        for (name, labels), value in values:
            kind, help_text = HELP[name]
            full = f"dustream_{name}_total" if kind == "counter" else f"dustream_{name}"
            if name != previous:
                lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
                previous = name
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            lines.append(f"{full}{{{shown}}} {value:.10g}" if shown else f"{full} {value:.10g}")
        return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
