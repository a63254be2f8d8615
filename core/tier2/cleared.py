"""Up to which key the rows under a prefix are known to be deleted."""

from __future__ import annotations


class Cleared:
    """Work stored in rows is taken from the front. A scan from the front would read the tombstones of all rows that
    earlier steps deleted; a scan after the last deleted row reads only rows that exist.

    Known in memory only: after a task is opened, the first scan starts at the front.
    """

    def __init__(self) -> None:
        self._prefix = ""
        self._until = ""

    def after(self, prefix: str) -> str:
        """No row under the prefix is at or before this key."""
        return self._until if prefix == self._prefix else ""

    def deleted(self, prefix: str, key: str) -> None:
        """All rows under the prefix up to this key have been deleted."""
        self._prefix, self._until = prefix, key

    def written(self, key: str) -> None:
        """A row was stored: the next scan must include it."""
        if key <= self._until and key.startswith(self._prefix):
            self._until = key[:-1]
