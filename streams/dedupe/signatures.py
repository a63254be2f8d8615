"""Signature files: what the other stages need of a shard, in a folder of its own, column by column.

| file | by row |
|---|---|
| keys.u64 | the keys of the bands of its MinHash |
| hashes.u64 | the content hash, two words |
| bytes.u64 | a hash of the text as it is |
| tokens.i64 | the number of tokens |
| ends.i64 | where its shingles end in shingles.u64 |
| reasons.u8 | why it is not compared, 0 if it is |
| columns.arrow | its id, and the columns that decide which row wins |

`shard.json` is written last: a folder without it is not finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.once.records import RowColumns
from dustream.core.text.row_signing import sign_rows
from dustream.core.tier2.bands import band_keys, bands_for
from dustream.streams.dedupe.mapped import FILE_BYTES_MULTIPLE, MappedFiles
from dustream.streams.dedupe.pool import in_threads
from dustream.streams.dedupe.rows import TOO_SHORT, RowBatch, as_type, naming, one_type, read_batches
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import Shard, with_own_names
from dustream.streams.readers.fingerprint import Fingerprint, fingerprint

SIGNED_FORMAT: Final = 2
SHARD_FILE: Final = "shard.json"
PART_SUFFIX: Final = ".part"
_WORD_BYTES: Final = 8
_COLUMNS: Final = {
    "keys.u64": np.uint64, "hashes.u64": np.uint64, "bytes.u64": np.uint64, "tokens.i64": np.int64,
    "ends.i64": np.int64, "reasons.u8": np.uint8,
}  # fmt: skip
SHINGLES_FILE: Final = "shingles.u64"
COLUMNS_FILE: Final = "columns.arrow"


class SignedShard(Struct, frozen=True, kw_only=True):
    """What is known of a shard that is signed. `is_reference`: it stays as it is, others are compared with it.
    `sources`: of a part of an index, the files whose rows it has."""

    format: int = SIGNED_FORMAT
    shard: Shard
    fingerprint: Fingerprint | None
    settings: DedupeSettings
    rows: int
    position: int = 0
    is_reference: bool = False
    sources: list[Fingerprint] = []

    @property
    def has_text(self) -> bool:
        """Whether its texts can be read again: an index and a run have signatures only."""
        return self.fingerprint is not None

    @property
    def sort_key(self) -> tuple[bool, int, str, int]:
        return not self.is_reference, self.position, self.shard.path, self.shard.part[0] if self.shard.part else 0


def folder_name(shard: Shard) -> str:
    """A name for a shard's folder: readable, and another for each path."""
    readable = re.sub(r"[^\w.-]+", "_", shard.name)[-80:]
    digest = hashlib.blake2b(os.path.abspath(shard.path).encode(), digest_size=6).hexdigest()
    return f"{readable}-{digest}" + (f"-{shard.part[0]}" if shard.part else "")


class SignatureWriter:
    """Writes the columns of a shard, batch by batch; `finish` makes them visible."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._part = folder, folder.with_name(folder.name + PART_SUFFIX)
        shutil.rmtree(self._part, ignore_errors=True)
        self._part.mkdir(parents=True)
        self._stack = ExitStack()
        names = (*_COLUMNS, SHINGLES_FILE)
        self._files = {name: self._stack.enter_context((self._part / name).open("wb")) for name in names}
        self._others: dict[str, list[pa.Array]] = {}
        self._shingles = 0
        self.rows = 0

    def __enter__(self) -> SignatureWriter:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._stack.close()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def add(self, columns: dict[str, NDArray[Any]], shingles: NDArray[np.uint64], others: dict[str, pa.Array]) -> None:
        """`columns` by the names of their files, `ends.i64` counted from the first of these shingles."""
        columns["ends.i64"] = columns["ends.i64"] + self._shingles
        for name, values in columns.items():
            self._files[name].write(np.ascontiguousarray(values, dtype=_COLUMNS[name]).data)
        self._files[SHINGLES_FILE].write(np.ascontiguousarray(shingles).data)
        for name, column in others.items():
            self._others.setdefault(name, []).append(column)
        self._shingles += len(shingles)
        self.rows += len(columns["ends.i64"])

    def finish(self, known: SignedShard) -> SignedShard:
        padding = -self._shingles * _WORD_BYTES % FILE_BYTES_MULTIPLE
        self._files[SHINGLES_FILE].write(b"\0" * padding)
        self._stack.close()
        self._write_others()
        known = msgspec.structs.replace(known, rows=self.rows)
        (self._part / SHARD_FILE).write_bytes(msgspec.json.encode(known))
        shutil.rmtree(self._folder, ignore_errors=True)
        self._part.rename(self._folder)
        return known

    def _write_others(self) -> None:
        types = {name: one_type(parts) for name, parts in self._others.items()}
        columns = [
            pa.chunked_array([as_type(part, types[name]) for part in parts], types[name])
            for name, parts in self._others.items()
        ]
        table = pa.table(columns, names=list(self._others))
        with pa.OSFile(str(self._part / COLUMNS_FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


def sign_shard(
    shard: Shard,
    folder: Path,
    settings: DedupeSettings,
    *,
    position: int = 0,
    is_reference: bool = False,
    jobs: int = 1,
) -> SignedShard:
    """Sign all rows of a shard, unless that was done before, in `jobs` threads. UnreadableInput if it cannot be read to
    its end."""
    with naming(shard.path, is_read_only=True):
        own = fingerprint(shard.path)
    known = SignedShard(
        shard=shard, fingerprint=own, settings=settings, rows=0, position=position, is_reference=is_reference
    )
    if (earlier := _reused(folder, known)) is not None:
        return earlier

    def signed(batch: RowBatch) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64], dict[str, pa.Array]]:
        return *sign_batch(batch, settings), batch.columns

    with SignatureWriter(folder) as writer:
        batches = read_batches(shard.path, settings.text, settings.columns, shard.part)
        for columns, shingles, others in in_threads(signed, batches, jobs):
            writer.add(columns, shingles, others)
        return writer.finish(known)


def _reused(folder: Path, wanted: SignedShard) -> SignedShard | None:
    """The shard as it was signed before, if file and settings are the same; at the position it has now."""
    found = read_signed(folder)
    if found is None or msgspec.structs.replace(
        found, rows=0, position=wanted.position, is_reference=wanted.is_reference
    ) != msgspec.structs.replace(wanted, rows=0):
        return None
    now = msgspec.structs.replace(wanted, rows=found.rows)
    temporary = folder / (SHARD_FILE + ".part")
    temporary.write_bytes(msgspec.json.encode(now))
    temporary.replace(folder / SHARD_FILE)
    return now


def sign_batch(batch: RowBatch, settings: DedupeSettings) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64]]:
    """The columns of signature files, and the shingles."""
    bands, rows = bands_for(settings.threshold)
    signed = sign_rows(batch.data, batch.offsets, settings.rules)
    reasons = batch.reasons.copy()
    reasons[(reasons == 0) & (signed.tokens < settings.min_tokens)] = TOO_SHORT
    columns: dict[str, NDArray[Any]] = {
        "keys.u64": band_keys(signed.minhashes, bands, rows),
        "hashes.u64": signed.hashes,
        "bytes.u64": signed.byte_hashes,
        "tokens.i64": signed.tokens,
        "ends.i64": signed.ends,
        "reasons.u8": reasons,
    }
    return columns, signed.shingles


def read_signed(folder: Path) -> SignedShard | None:
    try:
        return msgspec.json.decode((folder / SHARD_FILE).read_bytes(), type=SignedShard)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None


class SignedCorpus:
    """All signed shards in some folders, in their order: references first."""

    def __init__(self, folders: Iterable[Path]) -> None:
        found = [(known, folder) for folder in folders if (known := read_signed(folder)) is not None]
        found.sort(key=lambda each: each[0].sort_key)
        self.shards = _named_apart(found)
        self._folders = [folder for _, folder in found]
        self.starts = np.cumsum([0, *(known.rows for known in self.shards)], dtype=np.int64)
        self.first_rows = _rows_before(self.shards)
        self.references = int(sum(known.rows for known in self.shards if known.is_reference))
        self._check_settings()
        self._check_sources()

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def settings(self) -> DedupeSettings:
        return self.shards[-1].settings

    def _check_settings(self) -> None:
        """Shingles and bands must be comparable; names of columns may differ between shards."""
        for known in self.shards:
            mine, theirs = self.settings, known.settings
            if known.format != SIGNED_FORMAT:
                raise StateMismatch(f"{known.shard.path} was signed by another version of dustream: sign it again")
            if (mine.rules, mine.threshold) != (theirs.rules, theirs.threshold):
                raise StateMismatch(
                    f"{known.shard.path} was signed with other settings ({theirs.rules}, threshold "
                    f"{theirs.threshold}): sign it again with the same"
                )

    def _check_sources(self) -> None:
        """Rows compared with an index that has them already would all be dropped."""
        own = self.sources
        for known, folder in zip(self.shards, self._folders, strict=True):
            if own and all(each in known.sources for each in own):
                raise BadSetting(
                    f"the index has the rows of these inputs from an earlier run, so all of them would be dropped: "
                    f"remove {folder} to repeat that run"
                )

    @property
    def sources(self) -> list[Fingerprint]:
        """The files of all rows that are no references, once each."""
        own = (known for known in self.shards if known.rows and not known.is_reference)
        return list(dict.fromkeys(known.fingerprint for known in own if known.fingerprint is not None))

    def has_values(self, name: str) -> bool:
        """Whether any row that is no reference has a value in this column."""
        own = (self._other_of(number, name) for number, known in enumerate(self.shards) if not known.is_reference)
        return any(part is not None and part.null_count < len(part) for part in own)

    @property
    def identity(self) -> str:
        """A hash of what was signed, and in which order."""
        return hashlib.blake2b(msgspec.json.encode(self.shards), digest_size=16).hexdigest()

    def column(self, name: str) -> NDArray[Any]:
        parts = [np.fromfile(folder / name, dtype=_COLUMNS[name]) for folder in self._folders]
        return np.concatenate(parts) if parts else np.empty(0, dtype=_COLUMNS[name])

    def row_columns(self) -> tuple[RowColumns, MappedFiles]:
        """What rows are compared by. The shingles are in the files."""
        mapped = MappedFiles([folder / SHINGLES_FILE for folder in self._folders])
        bands, _ = bands_for(self.settings.threshold)
        starts, ends, before = [], [], 0
        for folder in self._folders:
            own = np.fromfile(folder / "ends.i64", dtype=np.int64)
            starts.append(np.concatenate((np.zeros(min(1, len(own)), np.int64), own[:-1])) + before)
            ends.append(own + before)
            before += (folder / SHINGLES_FILE).stat().st_size // _WORD_BYTES
        columns = RowColumns(
            self.column("keys.u64").reshape(-1, bands),
            self.column("hashes.u64").reshape(-1, 2),
            np.concatenate(starts),
            np.concatenate(ends),
            mapped.words,
            self.column("reasons.u8") == 0,
        )
        return columns, mapped

    def other(self, name: str) -> pa.ChunkedArray:
        """A column of ids or preferences, of one type over all shards; nulls for shards without it."""
        parts = [self._other_of(number, name) for number in range(len(self.shards))]
        wanted = one_type([part for part in parts if part is not None])
        chunks = [
            pa.nulls(known.rows, wanted) if part is None else as_type(part, wanted)
            for part, known in zip(parts, self.shards, strict=True)
        ]
        flat = [each for part in chunks for each in _chunks(part)]
        return pa.chunked_array(flat, wanted)

    def ids(self, *, with_references: bool = True) -> pa.ChunkedArray:
        """By row: its id, or file and row number where no column has it; of one type."""
        parts = [
            self._ids_of(number)
            for number, known in enumerate(self.shards)
            if with_references or not known.is_reference
        ]
        wanted = one_type(parts)
        flat = [each for part in parts for each in _chunks(as_type(part, wanted))]
        return pa.chunked_array(flat, wanted)

    def _ids_of(self, number: int) -> pa.ChunkedArray | pa.Array:
        known = self.shards[number]
        if not known.rows:
            return pa.nulls(0)
        if known.settings.id is not None:
            found = self._other_of(number, known.settings.id)
            if found is not None:
                return found
        rows = pa.array(np.arange(known.rows) + self.first_rows[number]).cast(pa.string())
        return pc.binary_join_element_wise(known.shard.name, rows, ":")

    def _other_of(self, number: int, name: str) -> pa.ChunkedArray | None:
        path = self._folders[number] / COLUMNS_FILE
        if not self.shards[number].rows:
            return None
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        return table[name] if name in table.column_names else None


def _named_apart(found: list[tuple[SignedShard, Path]]) -> list[SignedShard]:
    """Shards with names of their own, whichever command signed them; a reference has none that a file of the corpus
    has. Parts of a file have one name."""
    names: dict[str, str] = {}
    for is_reference in (False, True):
        files = {
            path: Shard(path, known.shard.name)
            for known, folder in found
            if known.is_reference == is_reference and (path := _path_of(known, folder)) not in names
        }
        names |= {each.path: each.name for each in with_own_names(list(files.values()), names.values())}
    replaced = msgspec.structs.replace
    return [
        replaced(known, shard=replaced(known.shard, name=names[_path_of(known, folder)])) for known, folder in found
    ]


def _path_of(known: SignedShard, folder: Path) -> str:
    """A part of an index has no file: it is known by its folder."""
    return str(folder) if known.sources else known.shard.path


def _rows_before(shards: list[SignedShard]) -> NDArray[np.int64]:
    """By shard: the rows of its file that precede it."""
    counts: Counter[str] = Counter()
    before = []
    for known in shards:
        before.append(counts[known.shard.name])
        counts[known.shard.name] += known.rows
    return np.array(before, dtype=np.int64)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]
