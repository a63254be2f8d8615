"""Rows of CSV files (RFC 4180, with a header): each record as its bytes, and its fields.

A line feed within quotes is part of a field. Quotes within a quoted field are doubled, so a record ends at a line feed
before which the number of quotes is even.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final, NamedTuple

from dustream.core.errors import BadInput
from dustream.streams.dedupe.pool import check_stopped
from dustream.streams.readers.lines import lines_of
from dustream.streams.readers.sources import open_source, read_content

DELIMITERS: Final = ",\t;|"
FIELD_BYTES_MAX: Final = (1 << 31) - 1  # lines are bounded before
_UTF8_MARK: Final = b"\xef\xbb\xbf"


class CsvRecord(NamedTuple):
    """A record without the line feed that ends it. `too_long`: only its beginning."""

    content: bytes
    too_long: bool


class CsvHeader(NamedTuple):
    """The first record, as it is; the names in it, and what is between them."""

    content: bytes
    names: list[str]
    delimiter: str

    def fields(self, record: bytes) -> list[str] | None:
        """By name; None if the record has more or fewer."""
        found = _fields(record, self.delimiter)
        return found if len(found) == len(self.names) else None

    def written(self, fields: list[str]) -> bytes:
        """A record of these fields, without its end."""
        target = io.StringIO()
        csv.writer(target, delimiter=self.delimiter, lineterminator="").writerow(fields)
        return target.getvalue().encode("utf-8", "surrogateescape")


class CsvFile:
    """The header and the records of a file."""

    def __init__(self, path: str, record_bytes_max: int) -> None:
        self._records = _records(path, record_bytes_max)
        first = next(self._records, None)
        if first is None:
            raise BadInput("no header: the file is empty")
        delimiter = _delimiter(first.content)
        names = _fields(first.content.removeprefix(_UTF8_MARK), delimiter)
        self.header = CsvHeader(first.content, names, delimiter)

    def __iter__(self) -> Iterator[CsvRecord]:
        return self._records


def _records(path: str, bytes_max: int) -> Iterator[CsvRecord]:
    """All that are not blank. One that is too long is cut off, and `too_long`."""
    source = open_source(path)
    try:
        held: list[bytes] = []
        size, quotes, offset = 0, 0, 0
        for line in lines_of(read_content(source), bytes_max):
            check_stopped()
            offset = offset if held else line.offset
            part = line.content
            size, quotes = size + len(part) + 1, quotes + part.count(b'"')
            if size <= bytes_max or not held:
                held.append(part)
            if quotes % 2 == 0:
                content = b"\n".join(held)
                if content.strip():
                    yield CsvRecord(content, size > bytes_max + 1 or line.too_long)
                held, size, quotes = [], 0, 0
        if held:
            raise BadInput(f"a quoted field that begins in the record at byte {offset:,} has no end")
    finally:
        source.close()


def _fields(record: bytes, delimiter: str) -> list[str]:
    """None at all, if the record breaks the rules of quoting."""
    csv.field_size_limit(FIELD_BYTES_MAX)
    text = record.removesuffix(b"\r").decode("utf-8", "surrogateescape")
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _delimiter(header: bytes) -> str:
    """The one that is most often in the header, outside of quotes."""
    outside = b"".join(header.split(b'"')[::2]).decode("utf-8", "replace")
    return max(DELIMITERS, key=outside.count)
