"""The vertices present in one partition, by local number: entries (at home here) and visitors (probes that matched
here)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from dustream.core.processor import Table, TaskState
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import Cover


class StarRow(Struct, frozen=True, array_like=True):
    """One market's view of a vertex (docs/protocol.md, stars)."""

    key: bytes
    winner: bool = False
    told: bool | None = None  # entry: the flag last sent to the partitions it probed; visitor: last heard from home
    local: Cover | None = None  # the best winner present that is better and matches
    said: Cover | None = None  # entry: the cover last told to its page; visitor: the local one last told to its home
    remote: dict[int, Cover] = {}  # entry: by partition, the winner that covers it there


class VertexRow(Struct, frozen=True, array_like=True):
    """Table `vertices`, by number. `home` is the partition of an entry itself, or where a visitor comes from."""

    vertex: str
    entry: bool
    home: int
    probes: tuple[int, ...]
    content_hash: bytes
    stars: tuple[StarRow, ...]


def row_key(number: int) -> str:
    return f"{number:08x}"


class Vertices:
    """Numbers, rows and contents. Numbers are dense: a vertex that goes leaves its number to the next one."""

    def __init__(self, state: TaskState) -> None:
        self._rows: Table[VertexRow] = state.table("vertices")
        self._contents: Table[PageSignature] = state.table("contents")
        self._numbers: dict[str, int] = {}
        self.is_entry: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        for key, row in self._rows.scan():
            self._note(int(key, 16), row)
        used = set(self._numbers.values())
        self._next = max(used, default=-1) + 1
        self._free = [number for number in range(self._next) if number not in used]
        heapify(self._free)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, vertex: str) -> int | None:
        return self._numbers.get(vertex)

    def numbers(self) -> list[int]:
        return sorted(self._numbers.values())

    def flags(self, market: int) -> NDArray[np.bool_]:
        """By number: who is a winner."""
        flags = np.zeros_like(self.is_entry)
        for number in self._numbers.values():
            flags[number] = self.row(number).stars[market].winner
        return flags

    def row(self, number: int) -> VertexRow:
        row = self._rows.get(row_key(number))
        assert row is not None
        return row

    def content(self, number: int) -> PageSignature:
        content = self._contents.get(row_key(number))
        assert content is not None
        return content

    def shingles(self, number: int) -> NDArray[np.uint64]:
        return np.frombuffer(self.content(number).shingles, dtype="<u8")

    def add(self, row: VertexRow, content: PageSignature) -> int:
        """The lowest free number: which one depends on the rows alone, not on when the task was opened."""
        if self._free:
            number = heappop(self._free)
        else:
            number = self._next
            self._next += 1
        self._rows.put(row_key(number), row)
        self._contents.put(row_key(number), content)
        self._note(number, row)
        return number

    def put(self, number: int, row: VertexRow) -> None:
        self._rows.put(row_key(number), row)

    def put_star(self, number: int, row: VertexRow, market: int, star: StarRow) -> VertexRow:
        row = replace(row, stars=(*row.stars[:market], star, *row.stars[market + 1 :]))
        self._rows.put(row_key(number), row)
        return row

    def remove(self, number: int, vertex: str) -> None:
        self._rows.delete(row_key(number))
        self._contents.delete(row_key(number))
        del self._numbers[vertex]
        heappush(self._free, number)

    def _note(self, number: int, row: VertexRow) -> None:
        self._numbers[row.vertex] = number
        while number >= len(self.is_entry):
            self.is_entry = np.concatenate([self.is_entry, np.zeros_like(self.is_entry)])
        self.is_entry[number] = row.entry
