"""Contents for pages that revisited another one: those of the vertices present, and former contents of their URLs.

`pages` decides which former contents are kept, and under which name; a vertex that leaves keeps its own name.
"""

from __future__ import annotations

from dustream.core.processor import Table, TaskState
from dustream.core.tier2.vertices import Vertices
from dustream.schemas.pages import Answer
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import Forget, Keep, Recall


class FormerContents:
    """The contents of the entries of one partition, by name. Table `former`: those that their URLs no longer have."""

    def __init__(self, state: TaskState, vertices: Vertices) -> None:
        self._vertices = vertices
        self._former: Table[PageSignature] = state.table("former")

    def leave(self, vertex: str, number: int, *, keep: bool) -> None:
        """An entry is about to be removed."""
        if keep:
            self._former.put(vertex, self._vertices.content(number))

    def keep(self, message: Keep) -> None:
        self._former.put(message.name, message.signature)

    def forget(self, message: Forget) -> None:
        self._former.delete(message.name)

    def answer(self, message: Recall) -> Answer:
        number = self._vertices.number(message.name)
        content = self._former.get(message.name) if number is None else self._vertices.content(number)
        assert content is not None, "a content was asked for after pages had dropped it"
        return Answer(message.asker, message.version, message.number, content)
