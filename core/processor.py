"""What a processor is: (the state it owns, one batch of messages) give (state changes, messages to send).

An engine runs a processor as *tasks*, one per partition of its input log. A task's state is a set of tables of
typed rows. Writes through a table are seen by later reads of the same task at once; the engine makes them durable
together with the input position and the messages sent, all or nothing. What a processor keeps outside its tables
(an index in arrays) must be derived from them: the engine calls `open` after every (re)start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

Row = TypeVar("Row")


class Send(NamedTuple):
    """A message for a topic. The key picks the partition (see topology.py): a string is hashed, a number is it."""

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
        """Build what is derived from the tables."""

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        """Handle a batch in order. The result must not depend on how messages are cut into batches."""


@runtime_checkable
class Resting(Protocol):
    """A processor with work that can wait until its input has run dry."""

    def at_rest(self, state: TaskState) -> list[Send]:
        """Nothing is left to read for now. May come at any moment and any number of times: once everything has come to
        rest, the outcome must be the same."""


def rows_after(table: Table[Row], prefix: str, after: str, limit: int) -> list[tuple[str, Row]]:
    """At most `limit` rows under a prefix whose rest of the key is greater than `after` ('' for the first ones)."""
    return list(islice(table.scan(prefix, prefix + after if after else ""), limit))
