"""The state store: ordered bytes to bytes, with atomic batches. One interface, two backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes it."""


class Store(Protocol):
    """What an engine needs of a database. Keys are ordered by their bytes."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None:
        """Delete a key; a key that is not there is no error."""

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All pairs whose key starts with `prefix` and is greater than `after`, in key order, as they were when the
        scan began. A scan costs what it yields, wherever it starts."""

    def write(self, changes: Iterable[Change]) -> None:
        """Apply all changes or none, also when the process is killed in between. A later change of a key wins."""

    def close(self) -> None:
        """Release the files. Closing twice is no error."""
