"""The processor interface: a processor maps (its state, a batch of messages) to (state changes, messages to send).

An engine runs a processor as *tasks*, one per partition of its input log. A task's state is a set of tables of typed
rows. Later reads of the same task see its writes at once. The engine commits the writes, the input position and the
messages sent atomically. Anything a processor keeps outside its tables (such as an index in arrays) must be derived
from them: the engine calls `open` after every start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

Row = TypeVar("Row")


class Send(NamedTuple):
    """A message for a topic. The key selects the partition (topology.py): text is hashed, a number is the partition."""

    topic: str
    key: str | int
    message: Any


class Table(Protocol[Row]):
    """Rows of one Struct type by text key, ordered by the key's UTF-8 bytes. Rows are values: put, don't mutate."""

    def get(self, key: str) -> Row | None: ...
    def put(self, key: str, row: Row) -> None: ...
    def delete(self, key: str) -> None: ...
    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Row]]:
        """Rows whose key starts with `prefix` and is greater than `after`, in key order."""


class TaskState(Protocol):
    """The tables of one task, by the names its processor declares in the topology."""

    @property
    def partition(self) -> int: ...
    def table(self, name: str) -> Table[Any]: ...


class Processor(Protocol):
    """One instance per task."""

    def open(self, state: TaskState) -> None:
        """Build the data derived from the tables."""

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        """Process a batch in order. The result must not depend on how messages are divided into batches."""


@runtime_checkable
class Resting(Protocol):
    """A processor with work that can be postponed until its input is exhausted."""

    def at_rest(self, state: TaskState) -> list[Send]:
        """Called when no input is left for now, possibly at any moment and any number of times. The final outcome must
        not depend on these calls."""


class RestPart(NamedTuple):
    """A part of the work at rest: how large it is, and what it consists of."""

    size: int
    content: Callable[[], Any]


@runtime_checkable
class Dividing(Protocol):
    """A processor whose work at rest consists of independent parts, which an engine may have done on other cores."""

    def parts_at_rest(self) -> list[RestPart]:
        """The parts that `at_rest` would do now."""

    def take_done(self, done: Any) -> None:
        """The outcome of all parts, for the next `at_rest`."""


def rows_after(table: Table[Row], prefix: str, after: str, limit: int) -> list[tuple[str, Row]]:
    """At most `limit` rows whose key is `prefix` and a rest greater than `after` ('' for the first ones)."""
    return list(islice(table.scan(prefix, prefix + after if after else ""), limit))
