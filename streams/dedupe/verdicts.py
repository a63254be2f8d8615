"""Verdict files: one row for every row of the input, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dustream.core.once.records import RowVerdicts
from dustream.streams.dedupe.rows import REASONS
from dustream.streams.dedupe.signatures import SignedCorpus

VERDICTS_FILE: Final = "verdicts.parquet"
VERDICT_LINES_FILE: Final = "verdicts.jsonl"
ROWS_AT_ONCE: Final = 1 << 16
ROLES: Final = ("unique", "winner", "duplicate", "not_compared")
UNIQUE, WINNER, DUPLICATE, NOT_COMPARED = range(4)
RELATIONS: Final = (None, "exact", "same_tokens", "near")
EXACT, SAME_TOKENS, NEAR = range(1, 4)


class CorpusVerdicts(NamedTuple):
    """Columns over all rows, references included: numbers of ROLES, RELATIONS and REASONS; rows by number."""

    roles: NDArray[np.uint8]
    clusters: NDArray[np.int64]
    winners: NDArray[np.int64]
    similarities: NDArray[np.float64]
    relations: NDArray[np.uint8]
    reasons: NDArray[np.uint8]

    def after(self, row: int) -> CorpusVerdicts:
        """Of the rows from this one on; they keep their numbers."""
        return CorpusVerdicts(
            self.roles[row:], self.clusters[row:], self.winners[row:], self.similarities[row:], self.relations[row:],
            self.reasons[row:],
        )  # fmt: skip


def described(
    found: RowVerdicts, reasons: NDArray[np.uint8], hashes: NDArray[np.uint64], byte_hashes: NDArray[np.uint64]
) -> CorpusVerdicts:
    """Roles, and how duplicates relate to their winners: `exact` if the texts are equal byte by byte, `same_tokens` if
    only what is compared of them is equal, else `near`."""
    rows = np.arange(len(found.winners))
    sizes = np.bincount(found.groups, minlength=len(rows))[found.groups]
    roles = np.where(found.winners != rows, DUPLICATE, np.where(sizes > 1, WINNER, UNIQUE)).astype(np.uint8)
    roles[reasons > 0] = NOT_COMPARED
    same_tokens = np.all(hashes[found.winners] == hashes, axis=1)
    same_bytes = same_tokens & (byte_hashes[found.winners] == byte_hashes)
    relations = np.where(same_bytes, EXACT, np.where(same_tokens, SAME_TOKENS, NEAR)).astype(np.uint8)
    relations[roles != DUPLICATE] = 0
    return CorpusVerdicts(roles, found.groups, found.winners, found.similarities, relations, reasons)


def verdict_schema(ids: pa.DataType, winners: pa.DataType) -> pa.Schema:
    """Winners may be references, whose ids may have another type."""
    return pa.schema(
        [
            ("file", pa.string()),
            ("row", pa.int64()),
            ("id", ids),
            ("role", pa.string()),
            ("cluster", pa.int64()),
            ("winner", winners),
            ("winner_file", pa.string()),
            ("winner_row", pa.int64()),
            ("similarity", pa.float64()),
            ("relation", pa.string()),
            ("reason", pa.string()),
        ]
    )


def verdict_tables(corpus: SignedCorpus, verdicts: CorpusVerdicts) -> Iterator[pa.Table]:
    """Of every row that is no reference, shard by shard."""
    ids, own_ids, starts, first_rows = corpus.ids(), corpus.ids(with_references=False), corpus.starts, corpus.first_rows
    names = pa.array([known.shard.name for known in corpus.shards], pa.string())
    schema = verdict_schema(own_ids.type, ids.type)
    for number, known in enumerate(corpus.shards):
        if known.is_reference:
            continue
        first, last = int(starts[number]), int(starts[number + 1])
        for start in range(first, last, ROWS_AT_ONCE):
            part = slice(start, min(last, start + ROWS_AT_ONCE))
            winners = verdicts.winners[part]
            shards = np.searchsorted(starts, winners, side="right") - 1
            columns = [
                pa.array([known.shard.name], pa.string()).take(pa.array(np.zeros(len(winners), np.int64))),
                np.arange(part.start - first, part.stop - first) + first_rows[number],
                own_ids.slice(part.start - corpus.references, len(winners)),
                _named(ROLES, verdicts.roles[part]),
                verdicts.clusters[part],
                ids.take(pa.array(winners)),
                names.take(pa.array(shards)),
                winners - starts[shards] + first_rows[shards],
                verdicts.similarities[part],
                _named(RELATIONS, verdicts.relations[part]),
                _named(REASONS, verdicts.reasons[part]),
            ]
            yield pa.table(columns, schema=schema)


def _named(names: tuple[str | None, ...], numbers: NDArray[np.uint8]) -> pa.Array:
    return pc.take(pa.array(names, pa.string()), pa.array(numbers))


def write_verdicts(corpus: SignedCorpus, verdicts: CorpusVerdicts, out: Path, *, json_lines: bool) -> None:
    """Written beside their names and renamed when they are complete."""
    part, lines = out / (VERDICTS_FILE + ".part"), out / (VERDICT_LINES_FILE + ".part")
    schema = verdict_schema(corpus.ids(with_references=False).type, corpus.ids().type)
    dictionaries = ["file", "role", "winner_file", "relation", "reason"]
    with ExitStack() as stack:
        writer = stack.enter_context(pq.ParquetWriter(part, schema, compression="zstd", use_dictionary=dictionaries))
        file = stack.enter_context(lines.open("wb")) if json_lines else None
        for table in verdict_tables(corpus, verdicts):
            writer.write_table(table)
            if file is not None:
                file.writelines(msgspec.json.encode(row, enc_hook=_shown) + b"\n" for row in table.to_pylist())
    part.replace(out / VERDICTS_FILE)
    if json_lines:
        lines.replace(out / VERDICT_LINES_FILE)
    else:
        (out / VERDICT_LINES_FILE).unlink(missing_ok=True)  # of an earlier run


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
