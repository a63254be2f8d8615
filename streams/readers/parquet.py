"""Parquet: columns named like the fields of a crawl event (or mapped to them); other columns are not read.

Times may be timestamps, strings or numbers; html may be binary (then its charset is detected). Rows have no byte
offsets. Rows are read in small batches, so memory is bounded by a few pages of the widest columns; a row group that is
damaged costs its remaining rows and one rejection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, ClassVar, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dustream.core.errors import BadEvent
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.field_map import FieldMap, mapped_type, source_fields
from dustream.streams.readers.formats import refuse
from dustream.streams.readers.records import Input, Item, Record, readable

batch_rows: Final = 128
_no_offset: Final = -1


class ParquetTable(Input):
    """See the head of this file."""

    format: ClassVar[str] = "Parquet"

    def __init__(self, path: str, field_map: FieldMap | None = None) -> None:
        super().__init__(path)
        mapped_type(field_map or {})  # complains if two fields are read from one column
        try:
            self._file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise refuse(path, f"Parquet without a readable footer, truncated or damaged ({error})") from None
        present = set(self._file.schema_arrow.names)
        self._sources = {ours: theirs for ours, theirs in source_fields(field_map or {}).items() if theirs in present}
        self._bytes_total = os.path.getsize(path)
        self._rows_read = 0
        self._rows_total: int = self._file.metadata.num_rows
        self.notices += [
            f"--map {ours}={theirs} fits no record: there is no column {theirs}"
            for ours, theirs in (field_map or {}).items()
            if theirs not in present
        ]
        if "url" not in self._sources:
            columns = ", ".join(self._file.schema_arrow.names[:20])
            self._file.close()
            raise refuse(path, f"Parquet without a url column (columns: {columns}); name it with --map url=COLUMN")

    def __iter__(self) -> Iterator[Item]:
        position = 0
        for group in range(self._file.num_row_groups):
            end = position + self._file.metadata.row_group(group).num_rows
            if end > self.first_position:
                yield from self._row_group(group, position, end)
            position = self._rows_read = end

    def _row_group(self, group: int, position: int, end: int) -> Iterator[Item]:
        columns = list(self._sources.values())
        try:
            for batch in self._file.iter_batches(batch_rows, row_groups=[group], columns=columns):
                cells = {ours: batch.column(theirs) for ours, theirs in self._sources.items()}
                for index in range(batch.num_rows):
                    if self.gives(position):
                        yield self._item(cells, index, position)
                    position += 1
                self._rows_read = position
        except (pa.ArrowException, OSError) as error:
            reason = f"row group {group} cannot be read further, rows {position} to {end - 1} are lost ({error})"
            if self.gives(position):
                yield self.reject(position, _no_offset, reason)

    def _item(self, cells: dict[str, pa.Array], index: int, position: int) -> Item:
        row: dict[str, Any] = {}
        try:
            for name, column in cells.items():
                row[name] = column[index].as_py()
            return Record(_event(row), position, _no_offset)
        except BadEvent as error:
            reason = str(error)
        except UnicodeDecodeError as error:
            reason = f"not valid UTF-8: {error.reason}"
        except (ValueError, OverflowError) as error:  # a time no calendar has
            reason = f"not a crawl event: {error}"
        return self.reject_whole(position, _no_offset, reason, _as_json(row))

    @property
    def bytes_read(self) -> int:
        return self._bytes_total * self._rows_read // max(1, self._rows_total)

    @property
    def bytes_total(self) -> int | None:
        return self._bytes_total

    def close(self) -> None:
        self._file.close()


def _as_json(row: dict[str, Any]) -> bytes:
    """A row has no bytes of its own: its cells as JSON, bytes in base64."""
    return msgspec.json.encode(row, enc_hook=str) if row else b""


def _event(row: dict[str, Any]) -> CrawlEvent:
    """Arrow's types → ours: times, and html as the bytes that were fetched."""
    fields = {name: value for name, value in row.items() if value is not None}
    if not fields.get("url"):
        raise BadEvent("no URL")
    if isinstance(fields.get("fetched_at"), (datetime, date)):
        fields["fetched_at"] = fields["fetched_at"].isoformat()
    if isinstance(fields.get("html"), bytes):
        fields.setdefault("body", fields.pop("html"))
    for name, value in fields.items():
        if isinstance(value, bytes) and name != "body":
            fields[name] = value.decode()
    try:
        event = msgspec.convert(fields, CrawlEvent)
    except msgspec.ValidationError as error:
        raise BadEvent(f"not a crawl event: {error}") from None
    return readable(event)
