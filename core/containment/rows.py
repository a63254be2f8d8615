"""The rows of `containment`: posted pages, several of one tier-2 partition per row, in columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.schemas.containment import Postings

SERIAL_BITS = 48
_SERIAL_MASK = (1 << SERIAL_BITS) - 1
_ROW_BITS = 4  # pages per row: enough that few rows are written, few enough that removing one is cheap


def page_id(home: int, serial: int) -> int:
    """The id of a posted page: its tier-2 partition, and its serial there, which is never reused."""
    return home << SERIAL_BITS | serial


def home_of(page: int) -> int:
    return page >> SERIAL_BITS


def serial_of(page: int) -> int:
    return page & _SERIAL_MASK


def row_key(home: int, serial: int) -> str:
    """The key of the row that contains a page."""
    return f"{home:03x}{serial >> _ROW_BITS:011x}"


class PostedPages(NamedTuple):
    """Postings as arrays."""

    serials: NDArray[np.int64]
    sizes: NDArray[np.int32]
    masks: NDArray[np.uint64]
    counts: NDArray[np.int32]
    terms: NDArray[np.uint64]
    kinds: NDArray[np.uint8]

    @classmethod
    def of(cls, postings: Postings) -> PostedPages:
        return cls(
            np.frombuffer(postings.serials, dtype="<i8"),
            np.frombuffer(postings.sizes, dtype="<i4"),
            np.frombuffer(postings.masks, dtype="<u8").reshape(-1, 4),
            np.frombuffer(postings.counts, dtype="<i4"),
            np.frombuffer(postings.terms, dtype="<u8"),
            np.frombuffer(postings.kinds, dtype="u1"),
        )

    def row_keys(self, home: int) -> list[str]:
        return [row_key(home, serial) for serial in self.serials.tolist()]

    def part(self, first: int, end: int) -> PostedPages:
        """The pages from `first` to `end`."""
        ends = np.cumsum(self.counts)
        start, stop = (int(ends[at - 1]) if at else 0 for at in (first, end))
        pages, terms = slice(first, end), slice(start, stop)
        return PostedPages(
            self.serials[pages], self.sizes[pages], self.masks[pages], self.counts[pages], self.terms[terms],
            self.kinds[terms],
        )  # fmt: skip

    def joined(self, others: PostedPages) -> PostedPages:
        columns = [np.concatenate([mine, other]) for mine, other in zip(self, others, strict=True)]
        return PostedPages(*columns)

    def postings(self) -> Postings:
        return Postings(*(column.tobytes() for column in self))


class PartedPostings(NamedTuple):
    """A row without one of its pages, and the page's terms."""

    left: Postings
    terms: bytes


def without(row: Postings, serial: int) -> PartedPostings | None:
    """The row without the page; None if the page is not in the row."""
    serials = np.frombuffer(row.serials, dtype="<i8").tolist()
    if serial not in serials:
        return None
    at, counts = serials.index(serial), np.frombuffer(row.counts, dtype="<i4").tolist()
    first = sum(counts[:at])
    last = first + counts[at]

    def other(column: bytes, start: int, end: int, width: int) -> bytes:
        return column[: start * width] + column[end * width :]

    left = Postings(
        other(row.serials, at, at + 1, 8),
        other(row.sizes, at, at + 1, 4),
        other(row.masks, at, at + 1, 32),
        other(row.counts, at, at + 1, 4),
        other(row.terms, first, last, 8),
        other(row.kinds, first, last, 1),
    )
    return PartedPostings(left, row.terms[8 * first : 8 * last])
