"""The rows of a shard in batches of Arrow columns, whatever its format."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dustream.core.errors import BadInput, UnreadableInput
from dustream.streams.dedupe.csv_rows import CsvFile
from dustream.streams.dedupe.pool import check_stopped
from dustream.streams.dedupe.settings import nested_value
from dustream.streams.dedupe.shards import ShardFormat, shard_format
from dustream.streams.readers.lines import BrokenLine, Line, lines_of
from dustream.streams.readers.sources import BrokenSource, Source, open_source, read_content

BATCH_BYTES_MAX: Final = 32 << 20
BATCH_ROWS_MAX: Final = 8_192
TEXT_BYTES_MAX: Final = 512 << 20
LINE_BYTES_MAX: Final = TEXT_BYTES_MAX + BATCH_BYTES_MAX
_UTF8_MARK: Final = b"\xef\xbb\xbf"

# Why a row is not compared; 0: it is.
REASONS: Final = (None, "no_text", "too_short", "not_text", "not_json", "too_long", "not_csv")
NO_TEXT, TOO_SHORT, NOT_TEXT, NOT_JSON, TOO_LONG, NOT_CSV = range(1, 7)


class RowBatch(NamedTuple):
    """The texts, UTF-8 one behind the other, and where each begins; why a row has none; other columns by name."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    reasons: NDArray[np.uint8]
    columns: dict[str, pa.Array]


def read_batches(
    path: str, text: str, columns: Sequence[str], part: tuple[int, int] | None = None
) -> Iterator[RowBatch]:
    """Of a whole file, or of a part of it (`Shard`). UnreadableInput if it cannot be read to its end."""
    with naming(path, is_read_only=True):
        format = shard_format(path)
        if format in ("jsonl", "csv"):
            rows = _csv_rows(path, [text, *columns]) if format == "csv" else _json_rows(path, part)
            # CSV fields are decoded with surrogateescape; JSON may have halves of surrogate pairs
            yield from _batches(rows, text, columns, "surrogateescape" if format == "csv" else "surrogatepass")
            return
        for batch in record_batches(path, format, [text, *columns], part):
            yield _row_batch(
                nested(batch, text), {name: nested(batch, name) for name in columns}, np.zeros(len(batch), np.uint8)
            )


@contextmanager
def naming(path: str, *, is_read_only: bool = False) -> Iterator[None]:
    """Errors of a damaged shard name it. `is_read_only`: nothing is written within, so errors of the system are of the
    shard, too."""
    try:
        yield
    except (pa.ArrowException, BrokenSource, BrokenLine, BadInput) as error:
        if isinstance(error, UnreadableInput):
            raise
        raise UnreadableInput(f"{path}: {' '.join(str(error).split())}") from None
    except OSError as error:
        is_system = error.errno is not None and bool(error.strerror)
        if is_system and error.filename is None and not is_read_only:
            raise
        raise UnreadableInput(f"{path}: {error.strerror if is_system else ' '.join(str(error).split())}") from None


# Arrow and Parquet


def record_batches(
    path: str, format: ShardFormat, names: Sequence[str] | None = None, groups: tuple[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """In batches of bounded size. `names`: only what is needed of these columns, which may be nested."""
    if format == "parquet":
        with pq.ParquetFile(path, pre_buffer=False) as file:
            wanted = None if names is None else _checked(file.schema_arrow, names)
            for group in range(*(groups or (0, file.num_row_groups))):
                size = batch_rows(file.metadata.row_group(group))
                for batch in file.iter_batches(size, row_groups=[group], columns=wanted):
                    check_stopped()
                    yield without_views(batch)
        return
    with pa.memory_map(path) as mapped:
        reader = pa.ipc.open_file(mapped) if format == "arrow_file" else pa.ipc.open_stream(mapped)
        if names is not None:
            _checked(reader.schema, names)
        batches = (
            (reader.get_batch(number) for number in range(reader.num_record_batches))
            if format == "arrow_file"
            else iter(reader)
        )
        for batch in batches:
            size = max(1, min(BATCH_ROWS_MAX, len(batch) * BATCH_BYTES_MAX // max(1, batch.nbytes)))
            for start in range(0, len(batch), size):
                check_stopped()
                yield without_views(batch.slice(start, size))


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Views of texts, as polars writes them, as plain texts: Arrow cannot take or filter views."""
    return with_schema(batch, pa.schema([each.with_type(_viewless(each.type)) for each in batch.schema]))


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.types == schema.types:
        return batch
    columns = [column.cast(kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema.with_metadata(batch.schema.metadata))


def _viewless(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_viewless(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_viewless(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_viewless(kind.value_type)))
    return kind


def batch_rows(group: Any) -> int:
    """So many rows of a row group are read at once that they have some megabytes."""
    return max(1, min(BATCH_ROWS_MAX, int(group.num_rows) * BATCH_BYTES_MAX // max(1, int(group.total_byte_size))))


def _checked(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in schema.names and _nested_type(schema, name) is None:
            raise no_column(name, schema.names)
    return list(dict.fromkeys(names))


def no_column(name: str, names: Sequence[str]) -> BadInput:
    return BadInput(f"no column {name}; there are {', '.join(names[:20])}: name one of them")


def _nested_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    top, *rest = name.split(".")
    found = schema.field(top).type if top in schema.names else None
    for part in rest:
        index = found.get_field_index(part) if found is not None and pa.types.is_struct(found) else -1
        found = found.field(index).type if found is not None and index >= 0 else None
    return found


def nested(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column by its name, or by the names of structs and a field."""
    if name in batch.schema.names:
        return batch.column(batch.schema.names.index(name))
    top, *rest = name.split(".")
    column = batch.column(batch.schema.names.index(top))
    for part in rest:
        column = pc.struct_field(column, part)
    return column


def _row_batch(texts: pa.Array, columns: dict[str, pa.Array], reasons: NDArray[np.uint8]) -> RowBatch:
    texts = _plain(texts)
    if pa.types.is_null(texts.type):
        texts = texts.cast(pa.string())
    if not (_is_text(texts.type)):
        raise BadInput(f"the text column has the type {texts.type}, not text: name another with --text")
    texts = texts.cast(pa.large_binary() if "binary" in str(texts.type) else pa.large_string())
    too_long = np.asarray(pc.fill_null(pc.greater(pc.binary_length(texts), TEXT_BYTES_MAX), False))
    if too_long.any():
        reasons[too_long] = TOO_LONG
        texts = pc.if_else(pa.array(too_long), pa.scalar(None, texts.type), texts)
    if texts.null_count:
        texts = texts.fill_null(b"" if pa.types.is_large_binary(texts.type) else "")
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1].copy()
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]].copy()
    offsets -= offsets[0]
    reasons[(reasons == 0) & (np.diff(offsets) == 0)] = NO_TEXT
    return RowBatch(data, offsets, reasons, {name: _plain(column) for name, column in columns.items()})


def text_batch(
    texts: list[bytes | None],
    columns: dict[str, pa.Array] | None = None,
    reasons: NDArray[np.uint8] | None = None,
) -> RowBatch:
    """Of texts in UTF-8; None where there is none."""
    reasons = np.zeros(len(texts), np.uint8) if reasons is None else reasons
    return _row_batch(pa.array(texts, pa.large_binary()), columns or {}, reasons)


def _is_text(found: pa.DataType) -> bool:
    return any(
        test(found)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _plain(column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column
    return pc.take(column.dictionary.cast(_viewless(column.type.value_type)), column.indices)


# JSON lines and CSV

FoundRow = tuple[dict[str, Any], int]
"""The fields of a row, and why it is not compared."""


class JsonLine(NamedTuple):
    """A line that is not blank, without its line feed."""

    content: bytes
    too_long: bool


def json_lines(path: str, part: tuple[int, int] | None = None) -> Iterator[JsonLine]:
    """Of a file, or those that begin in a part of it, which is not compressed."""
    source = open_source(path)
    try:
        for line in _lines(source) if part is None else _lines_in(source, *part):
            check_stopped()
            content = line.content if line.offset else line.content.removeprefix(_UTF8_MARK)
            if content and not content.isspace():
                yield JsonLine(content, line.too_long)
    finally:
        source.close()


def _lines(source: Source) -> Iterator[Line]:
    return lines_of(read_content(source), LINE_BYTES_MAX)


def _lines_in(source: Source, begin: int, end: int) -> Iterator[Line]:
    """What precedes the first line feed belongs to a line of the part before."""
    before = min(begin, 1)
    source.seek(begin - before)
    lines = lines_of(iter(source.read, b""), LINE_BYTES_MAX, begin - before)
    for line in itertools.islice(lines, before, None):
        if line.offset >= end:
            return
        yield line


def _json_rows(path: str, part: tuple[int, int] | None) -> Iterator[FoundRow]:
    for line in json_lines(path, part):
        yield ({}, TOO_LONG) if line.too_long else _decoded(line.content)


def _csv_rows(path: str, names: Sequence[str]) -> Iterator[FoundRow]:
    """An empty field has no value."""
    file = CsvFile(path, LINE_BYTES_MAX)
    header = file.header
    for name in names:
        if name not in header.names:
            raise no_column(name, header.names)
    wanted = [(name, header.names.index(name)) for name in dict.fromkeys(names)]
    for record in file:
        fields = None if record.too_long else header.fields(record.content)
        if fields is None:
            yield {}, TOO_LONG if record.too_long else NOT_CSV
        else:
            yield {name: fields[place] or None for name, place in wanted}, 0


def _batches(rows: Iterator[FoundRow], text: str, columns: Sequence[str], surrogates: str) -> Iterator[RowBatch]:
    """`surrogates`: the error handler that encodes what is no Unicode text."""
    read = _ReadRows(text, columns, surrogates)
    for row, reason in rows:
        read.add(row, reason)
        if read.is_full:
            yield read.batch()
            read = _ReadRows(text, columns, surrogates)
    if read.texts:
        yield read.batch()


class _ReadRows:
    """The wanted fields of some rows."""

    def __init__(self, text: str, columns: Sequence[str], surrogates: str) -> None:
        self._text, self._names, self._surrogates = text, columns, surrogates
        self.texts: list[bytes] = []
        self._reasons: list[int] = []
        self._columns: list[list[Any]] = [[] for _ in columns]
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._bytes > BATCH_BYTES_MAX or len(self.texts) >= BATCH_ROWS_MAX

    def add(self, row: dict[str, Any], reason: int) -> None:
        value = nested_value(row, self._text)
        text = value.encode("utf-8", self._surrogates) if isinstance(value, str) else b""
        if not reason and not isinstance(value, str):
            reason = NO_TEXT if value is None else NOT_TEXT
        self.texts.append(text)
        self._reasons.append(reason)
        self._bytes += len(text)
        for name, values in zip(self._names, self._columns, strict=True):
            values.append(nested_value(row, name))

    def batch(self) -> RowBatch:
        columns = {name: json_column(values) for name, values in zip(self._names, self._columns, strict=True)}
        return text_batch(list(self.texts), columns, np.array(self._reasons, dtype=np.uint8))


def _decoded(line: bytes) -> FoundRow:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            row = json.loads(line)  # takes halves of surrogate pairs and NaN, too
        except (ValueError, RecursionError):
            return {}, NOT_JSON
    return (row, 0) if isinstance(row, dict) else ({}, NOT_JSON)


def json_column(values: list[Any]) -> pa.Array:
    """Numbers or strings as they are; a column with both, or with objects, as JSON texts."""
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds <= {str} or kinds == {bool} or kinds == {int} or kinds == {int, float} or kinds == {float}:
            return pa.array(values, pa.string() if kinds <= {str} else None)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        pass  # a number beyond 64 bits, or half of a surrogate pair
    return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return msgspec.json.encode(value).decode()


def one_type(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.DataType:
    """A type that holds the values of all these columns: theirs, if it is one; a wider number; or text."""
    types = list(dict.fromkeys(each.type for each in columns if not pa.types.is_null(each.type)))
    if len(types) <= 1:
        return types[0] if types else pa.string()
    if all(map(pa.types.is_integer, types)):
        return pa.int64() if not any(map(pa.types.is_uint64, types)) else pa.string()
    if all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in types):
        return pa.float64()
    return pa.string()


def as_type(column: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """BadInput if a value has no such form."""
    try:
        return column if column.type == wanted else column.cast(wanted)
    except pa.ArrowException as error:
        raise BadInput(f"values of type {column.type} cannot be written as {wanted}: {error}") from None
