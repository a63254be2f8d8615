"""Up to where the rows under a prefix are known to be deleted."""

from __future__ import annotations


class Cleared:
    """Work kept in rows is taken from the front. A scan that began there would read all that earlier steps deleted and
    the store keeps for a while; one that begins behind the last deleted row reads what it yields.

    Known in memory only: a task that was opened anew begins at the front once more.
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
        """A row was put: the scan may not begin behind it."""
        if key <= self._until and key.startswith(self._prefix):
            self._until = key[:-1]
