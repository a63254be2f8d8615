"""The rows of `containment`: a table, and all of it in memory, since every search may need any row."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import Table
from dustream.schemas.containment import Place


class MarketRow(Struct, frozen=True, array_like=True):
    """A vertex in one market. `container` is the vertex that it is contained in, "" for none, as its page was told;
    `waiting`: whether there is a better one is still to be looked at."""

    order: bytes
    place: Place = "alone"
    container: str = ""
    share: float = 0.0
    waiting: bool = False

    @property
    def is_kept(self) -> bool:
        return self.place != "duplicate" and not self.container


class CodeRow(Struct, frozen=True, array_like=True):
    """Table `codes`, by vertex. The language is that of the code's anchors."""

    language: str
    code: str
    markets: tuple[MarketRow, ...]


class CodeRows:
    def __init__(self, table: Table[CodeRow]) -> None:
        self._table = table
        self._rows = dict(table.scan())

    def get(self, vertex: str) -> CodeRow | None:
        return self._rows.get(vertex)

    def __contains__(self, vertex: str) -> bool:
        return vertex in self._rows

    def code(self, vertex: str) -> str:
        return self._rows[vertex].code

    def market(self, vertex: str, market: int) -> MarketRow:
        return self._rows[vertex].markets[market]

    def put(self, vertex: str, row: CodeRow) -> None:
        self._rows[vertex] = row
        self._table.put(vertex, row)

    def put_market(self, vertex: str, market: int, row: MarketRow) -> None:
        known = self._rows[vertex]
        self.put(vertex, replace(known, markets=(*known.markets[:market], row, *known.markets[market + 1 :])))

    def delete(self, vertex: str) -> None:
        del self._rows[vertex]
        self._table.delete(vertex)

    def items(self) -> Iterator[tuple[str, CodeRow]]:
        return iter(self._rows.items())
