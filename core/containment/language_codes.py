"""The codes of one language: an index that all markets share, and per market who contains whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dustream.core.containment.containers import Containers, Who
from dustream.core.containment.index import ContainmentIndex
from dustream.core.containment.rows import CodeRow, CodeRows, MarketRow
from dustream.core.processor import Send
from dustream.schemas.containment import CodeNews, DropCode, KeepCode, PlaceCode, ReorderCode


class LanguageCodes:
    """The rows are the task's; what is here is derived from those of the language."""

    def __init__(self, language: str, delta: float, markets: int, rows: CodeRows) -> None:
        self._language = language
        self._rows = rows
        self._index = ContainmentIndex(delta)
        self._markets = [Containers(delta, market, rows, self._index) for market in range(markets)]

    def add(self, vertex: str, row: CodeRow) -> None:
        """A row that was there before; what was decided stays so."""
        self._put_into_index(row.code)
        for market, each in zip(self._markets, row.markets, strict=True):
            market.add(vertex, row.code, each)

    def settle(self, looks_max: int, who: Who) -> Iterator[Send]:
        for market in self._markets:
            yield from market.settle(looks_max, who)

    @property
    def is_cut(self) -> bool:
        """More was to be looked at than a step does."""
        return any(market.is_cut for market in self._markets)

    def take(self, news: CodeNews) -> None:
        vertex = news.vertex
        if isinstance(news, KeepCode):
            self._keep(vertex, CodeRow(self._language, news.code, tuple(map(MarketRow, news.orders))))
            return
        row = self._rows.get(vertex)
        if row is None:
            return
        if isinstance(news, PlaceCode):
            each = zip(row.markets, news.places, strict=True)
            self._change(vertex, row, [replace(market, place=place) for market, place in each])
        elif isinstance(news, ReorderCode):
            orders = zip(row.markets, news.orders, strict=True)
            self._change(vertex, row, [replace(market, order=order) for market, order in orders])
        else:
            assert isinstance(news, DropCode)
            self._drop(vertex, row)

    def _keep(self, vertex: str, row: CodeRow) -> None:
        self._rows.put(vertex, row)
        self._put_into_index(row.code)
        for market, each in zip(self._markets, row.markets, strict=True):
            market.come(vertex, row.code, each)

    def _change(self, vertex: str, row: CodeRow, changed: Iterable[MarketRow]) -> None:
        for number, (before, now) in enumerate(zip(row.markets, changed, strict=True)):
            if before != now:
                self._markets[number].go(vertex, row.code, before)
                self._markets[number].come(vertex, row.code, now)

    def _drop(self, vertex: str, row: CodeRow) -> None:
        for market, each in zip(self._markets, row.markets, strict=True):
            market.go(vertex, row.code, each)
        self._rows.delete(vertex)
        if not self._markets[0].has(row.code):
            self._index.remove(row.code)

    def _put_into_index(self, code: str) -> None:
        if not self._markets[0].has(code):
            self._index.put(code, code)
