"""The stage filter: the rows that are kept or dropped, or all rows with their verdicts, in the input's own format."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeVar, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

from dustream.core.errors import UnreadableInput
from dustream.streams.dedupe.csv_rows import CsvFile, CsvHeader, CsvRecord
from dustream.streams.dedupe.pool import ahead
from dustream.streams.dedupe.rows import (
    BATCH_BYTES_MAX,
    LINE_BYTES_MAX,
    json_lines,
    naming,
    record_batches,
    with_schema,
)
from dustream.streams.dedupe.shards import METADATA_NAMES, Shard, compression, files_under, shard_format
from dustream.streams.dedupe.verdicts import VERDICTS_FILE

Row = TypeVar("Row")
Output = Literal["kept", "dropped", "annotated"]
OUTPUTS: Final[tuple[Output, ...]] = ("kept", "dropped", "annotated")
ANNOTATIONS: Final = ("role", "cluster", "winner", "similarity", "relation", "reason")
PREFIX: Final = "dedupe_"
BLOCK_ROWS: Final = 256
ROW_GROUP_BYTES_MAX: Final = 8 * BATCH_BYTES_MAX


class FilterTask(NamedTuple):
    """What to write of a shard."""

    shard: Shard
    output: Output


def filter_shard(task: FilterTask, out: Path, jobs: int = 1) -> None:
    """Write one shard's rows to OUT/kept, OUT/dropped or OUT/annotated, by the verdicts in OUT. With several jobs, rows
    are read in another thread."""
    shard, output = task
    verdicts = pq.read_table(out / VERDICTS_FILE, filters=[("file", "==", shard.name)])
    target = out / output / shard.name
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with naming(shard.path):
            write = {"jsonl": _write_lines, "csv": _write_records}.get(shard_format(shard.path), _write_batches)
            rows = write(shard.path, verdicts, output, part, jobs)
        if rows != len(verdicts):
            raise UnreadableInput(
                f"{shard.path} has {rows:,} rows, and {len(verdicts):,} when it was signed: it has changed, "
                "deduplicate it again"
            )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _mask(verdicts: pa.Table, output: Output) -> pa.Array:
    dropped = pc.equal(verdicts["role"], "duplicate").combine_chunks()
    return dropped if output == "dropped" else pc.invert(dropped)


def _annotated(batch: pa.RecordBatch, verdicts: pa.Table, at: int) -> pa.RecordBatch:
    """The batch with the verdicts on its rows; columns of an earlier annotation are replaced."""
    columns = [batch.column(number) for number in _own_columns(batch.schema)]
    columns += [verdicts[name].slice(at, len(batch)).combine_chunks() for name in ANNOTATIONS]
    return pa.RecordBatch.from_arrays(columns, schema=_annotated_schema(batch.schema, verdicts))


def _annotated_schema(schema: pa.Schema, verdicts: pa.Table) -> pa.Schema:
    added = [pa.field(PREFIX + name, verdicts.schema.field(name).type) for name in ANNOTATIONS]
    own = [schema.field(number) for number in _own_columns(schema)]
    return pa.schema([*own, *added], metadata=schema.metadata)


def _own_columns(schema: pa.Schema) -> list[int]:
    annotations = [PREFIX + name for name in ANNOTATIONS]
    return [number for number, name in enumerate(schema.names) if name not in annotations]


def _chosen(path: str, verdicts: pa.Table, output: Output, rows: list[int]) -> Iterator[pa.RecordBatch]:
    """The batches to write. Counts all rows in `rows`."""
    keep = _mask(verdicts, output)
    for batch in record_batches(path, shard_format(path)):
        at, rows[0] = rows[0], rows[0] + len(batch)
        if rows[0] > len(verdicts):
            continue
        yield _annotated(batch, verdicts, at) if output == "annotated" else batch.filter(keep.slice(at, len(batch)))


def _write_batches(path: str, verdicts: pa.Table, output: Output, target: Path, jobs: int) -> int:
    rows = [0]
    format = shard_format(path)
    schema = _schema(path, format, verdicts, output)
    batches = ahead((with_schema(batch, schema) for batch in _chosen(path, verdicts, output, rows)), jobs)
    if format == "parquet":
        _write_parquet(path, schema, batches, target)
    else:
        new = pa.ipc.new_file if format == "arrow_file" else pa.ipc.new_stream
        with pa.OSFile(str(target), "wb") as file, new(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return rows[0]


def _schema(path: str, format: str, verdicts: pa.Table, output: Output) -> pa.Schema:
    if format == "parquet":
        schema = pq.read_schema(path)
    else:
        with pa.memory_map(path) as file:
            schema = (pa.ipc.open_file if format == "arrow_file" else pa.ipc.open_stream)(file).schema
    return _annotated_schema(schema, verdicts) if output == "annotated" else schema


def _write_parquet(path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], target: Path) -> None:
    """With the compression of the input, column by column."""
    metadata = pq.read_metadata(path)
    used = metadata.row_group(0) if metadata.num_row_groups else None
    names = [used.column(number).path_in_schema for number in range(used.num_columns)] if used else []
    codecs = {name: used.column(number).compression for number, name in enumerate(names)} if used else {}
    codec: Any = {name: "NONE" if each == "UNCOMPRESSED" else each for name, each in codecs.items()} or "snappy"
    with pq.ParquetWriter(target, schema, compression=codec) as writer:
        for table in _gathered(batches, schema, _group_rows(metadata)):
            writer.write_table(table, row_group_size=max(1, len(table)))


def _group_rows(metadata: Any) -> int:
    """The rows of the largest row group: outputs have row groups about as large."""
    return max((metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)), default=1) or 1


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema, rows_max: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= rows_max or sum(each.nbytes for each in held) >= ROW_GROUP_BYTES_MAX:
            yield pa.Table.from_batches(held, schema)
            held = []
    if held:
        yield pa.Table.from_batches(held, schema)


# JSON lines


def _write_lines(path: str, verdicts: pa.Table, output: Output, target: Path, jobs: int) -> int:
    """Lines are written as they are; annotations are added before the last brace, and those of an earlier run
    replaced."""
    keep = _mask(verdicts, output).to_numpy(zero_copy_only=False)
    count = 0
    with ExitStack() as stack:
        file = stack.enter_context(_opened(target, compression(path)))
        added = _annotation_lines(verdicts) if output == "annotated" else None
        for line in _in_blocks(json_lines(path), jobs):
            if count < len(keep):
                if added is not None:
                    file.write(_with_fields(line.content, next(added)) + b"\n")
                elif keep[count]:
                    file.write(line.content + b"\n")
            count += 1
    return count


def _write_records(path: str, verdicts: pa.Table, output: Output, target: Path, jobs: int) -> int:
    """Records are written as they are; annotations are added at the end of those that have all fields."""
    keep = _mask(verdicts, output).to_numpy(zero_copy_only=False)
    count, records = 0, CsvFile(path, LINE_BYTES_MAX)
    annotated = _AnnotatedCsv(records.header, verdicts) if output == "annotated" else None
    with _opened(target, compression(path)) as file:
        file.write((annotated.header if annotated is not None else records.header.content) + b"\n")
        for record in _in_blocks(iter(records), jobs):
            if count < len(keep):
                if annotated is not None:
                    file.write(annotated.record(record) + b"\n")
                elif keep[count]:
                    file.write(record.content + b"\n")
            count += 1
    return count


def _in_blocks(rows: Iterator[Row], jobs: int) -> Iterator[Row]:
    """The rows. They come from another thread in blocks: handing each over would take longer than reading it."""
    blocks = iter(lambda: list(islice(rows, BLOCK_ROWS)), [])
    return chain.from_iterable(ahead(blocks, jobs))


class _AnnotatedCsv:
    """The header and the records with the verdicts on them; columns of an earlier annotation are replaced."""

    def __init__(self, header: CsvHeader, verdicts: pa.Table) -> None:
        self._header, self._verdicts = header, _annotation_lines(verdicts)
        self._added = [PREFIX + name for name in ANNOTATIONS]
        self._stay = [place for place, name in enumerate(header.names) if name not in self._added]
        self.header = self._joined(header.content, header.names, self._added)

    def record(self, record: CsvRecord) -> bytes:
        verdict = next(self._verdicts)
        fields = None if record.too_long else self._header.fields(record.content)
        if fields is None:
            return record.content
        values = (_plain(value) for value in verdict.values())
        return self._joined(record.content, fields, ["" if each is None else str(each) for each in values])

    def _joined(self, content: bytes, fields: list[str], added: list[str]) -> bytes:
        end = b"\r" if content.endswith(b"\r") else b""
        if len(self._stay) < len(fields):
            return self._header.written([*(fields[place] for place in self._stay), *added]) + end
        return content.removesuffix(b"\r") + self._header.delimiter.encode() + self._header.written(added) + end


def _opened(target: Path, kind: str) -> AbstractContextManager[Any]:
    if kind == "gzip":
        # without name and time, so that the same rows give the same file
        return _Closing(target, lambda file: gzip.GzipFile("", "wb", 6, file, mtime=0))
    if kind == "zstd":
        return _Closing(target, lambda file: zstandard.ZstdCompressor().stream_writer(file, closefd=False))
    return target.open("wb")


class _Closing:
    """A compressed file: closes the compressor, then the file."""

    def __init__(self, target: Path, wrap: Callable[[BinaryIO], Any]) -> None:
        self._file = target.open("wb")
        self._wrapped = wrap(self._file)

    def __enter__(self) -> Any:
        return self._wrapped

    def __exit__(self, *error: object) -> None:
        try:
            self._wrapped.close()
        finally:
            self._file.close()


def _annotation_lines(verdicts: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in verdicts.select(list(ANNOTATIONS)).to_batches(max_chunksize=4_096):
        yield from batch.to_pylist()


def _with_fields(line: bytes, verdict: dict[str, Any]) -> bytes:
    """A line that is no object stays as it is."""
    text = line.rstrip()
    if verdict["reason"] == "not_json" or not text.endswith(b"}"):
        return line
    fields = {PREFIX + name: _plain(value) for name, value in verdict.items()}
    inner = msgspec.json.encode(fields)[1:]
    body = (_without(text, fields) if b'"' + PREFIX.encode() in text else text)[:-1].rstrip()
    return body + (b"" if body.endswith(b"{") else b", ") + inner


def _without(line: bytes, names: Collection[str]) -> bytes:
    """A line without these fields, or as it is if it has none of them. The values of the others stay as they are."""
    try:
        found = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        others = {name: bytes(value) for name, value in found.items() if name not in names}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = json.loads(line)  # takes halves of surrogate pairs and NaN, too
        others = {name: json.dumps(value).encode() for name, value in found.items() if name not in names}
    if len(others) == len(found):
        return line
    return b"{" + b", ".join(json.dumps(name).encode() + b": " + value for name, value in others.items()) + b"}"


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


# Hugging Face


def copy_metadata(inputs: list[str], names: Callable[[str], str | None], out: Path, outputs: list[Output]) -> None:
    """The files by which Hugging Face `load_from_disk` knows a folder, for every output. `names`: the path of a file
    below its output folder."""
    for path in (path for folder in inputs if os.path.isdir(folder) for path in files_under(folder)):
        name = names(path) if os.path.basename(path) in METADATA_NAMES else None
        for output in outputs if name is not None else ():
            target = out / output / cast("str", name)
            if target.parent.is_dir():
                _copy_metadata(path, target, output, pq.read_schema(out / VERDICTS_FILE))


def _copy_metadata(path: str, target: Path, output: Output, verdicts: pa.Schema) -> None:
    try:
        content = json.loads(Path(path).read_bytes())
    except ValueError:
        shutil.copyfile(path, target)
        return
    if target.name == "state.json" and isinstance(content.get("_fingerprint"), str):
        # a new one: caches of transformations are known by it
        named = f"{content['_fingerprint']} {output}".encode()
        content["_fingerprint"] = hashlib.blake2b(named + _verdicts_digest(target), digest_size=8).hexdigest()
    if target.name == "dataset_info.json" and output == "annotated" and isinstance(content.get("features"), dict):
        types = {name: str(verdicts.field(name).type).replace("double", "float64") for name in ANNOTATIONS}
        content["features"] |= {PREFIX + name: {"dtype": kind, "_type": "Value"} for name, kind in types.items()}
    target.write_text(json.dumps(content, indent=2))


def _verdicts_digest(target: Path) -> bytes:
    """Of the data beside it."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(target.parent.glob("*.arrow")):
        digest.update(str(path.stat().st_size).encode())
    return digest.digest()
