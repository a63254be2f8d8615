"""The state store: ordered bytes to bytes, with atomic batches. One interface, two backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes it."""


class Store(Protocol):
    """The database interface of an engine. Keys are ordered by their bytes."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None:
        """Delete a key; a missing key is not an error."""

    def scan(self, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All pairs whose key starts with `prefix` and is greater than `after`, in key order, as of the start of the
        scan. The cost depends on the pairs read, wherever the scan starts."""

    def write(self, changes: Iterable[Change]) -> None:
        """Apply all changes or none, even if the process is killed meanwhile. The last change of a key counts."""

    def close(self) -> None:
        """Release the files. Closing twice is not an error."""
