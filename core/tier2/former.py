"""Contents for pages that revisited another one: of the vertices present, and former contents of their URLs.

`pages` says which former contents are kept, and under which name; a vertex that leaves keeps its own.
"""

from __future__ import annotations

from msgspec import Struct

from dustream.core.processor import Table, TaskState
from dustream.core.tier2.vertices import Vertices
from dustream.schemas.pages import Answer, PageCode
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import Forget, Keep, Recall


class FormerRow(Struct, frozen=True, array_like=True):
    """Table `former`, by name: a content that its URL has no more."""

    signature: PageSignature
    code: PageCode | None


class FormerContents:
    """The contents at home in one partition, by name."""

    def __init__(self, state: TaskState, vertices: Vertices) -> None:
        self._vertices = vertices
        self._codes: Table[PageCode] = state.table("codes")
        self._former: Table[FormerRow] = state.table("former")

    def note_code(self, vertex: str, code: PageCode | None) -> None:
        if code is not None:
            self._codes.put(vertex, code)

    def leave(self, vertex: str, number: int, *, keep: bool) -> None:
        """A vertex at home here is about to go."""
        code = self._codes.get(vertex)
        if keep:
            self._former.put(vertex, FormerRow(self._vertices.content(number), code))
        if code is not None:
            self._codes.delete(vertex)

    def keep(self, message: Keep) -> None:
        self._former.put(message.name, FormerRow(message.signature, message.code))

    def forget(self, message: Forget) -> None:
        self._former.delete(message.name)

    def answer(self, message: Recall) -> Answer:
        number = self._vertices.number(message.name)
        if number is not None:
            content = FormerRow(self._vertices.content(number), self._codes.get(message.name))
        else:
            former = self._former.get(message.name)
            assert former is not None, "a content was asked for that pages had given up"
            content = former
        return Answer(message.asker, message.version, message.number, content.signature, content.code)
