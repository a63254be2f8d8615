"""An index: the signatures of rows that were kept, against which later rows are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from dustream.core.errors import BadSetting
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import Shard
from dustream.streams.dedupe.signatures import (
    PART_SUFFIX,
    SIGNED_FORMAT,
    SignatureWriter,
    SignedCorpus,
    SignedShard,
    read_signed,
)
from dustream.streams.dedupe.verdicts import ROLES, CorpusVerdicts
from dustream.streams.readers.fingerprint import Fingerprint

ROWS_AT_ONCE: Final = 1 << 15
ID: Final = "id"


def save_index(corpus: SignedCorpus, verdicts: CorpusVerdicts, folder: Path) -> int:
    """Add the rows that are kept and were compared to an index; gives their number."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, _ = corpus.row_columns()
    columns = {name: corpus.column(name) for name in ("bytes.u64", "tokens.i64", "reasons.u8")}
    ids = corpus.ids()
    kept = np.flatnonzero((verdicts.roles != ROLES.index("duplicate")) & rows.compared)
    kept = kept[kept >= corpus.references]
    name = _part_name(folder, corpus.sources)
    settings = DedupeSettings(id=ID, threshold=corpus.settings.threshold, rules=corpus.settings.rules)
    with SignatureWriter(folder / name) as writer:
        for start in range(0, len(kept), ROWS_AT_ONCE):
            some = kept[start : start + ROWS_AT_ONCE]
            sizes = rows.ends[some] - rows.starts[some]
            own = np.concatenate([rows.shingles[a:b] for a, b in zip(rows.starts[some], rows.ends[some], strict=True)])
            files = {"keys.u64": rows.keys[some], "hashes.u64": rows.hashes[some], "ends.i64": np.cumsum(sizes)}
            files |= {each: column[some] for each, column in columns.items()}
            writer.add(files, own, {ID: ids.take(pa.array(some)).combine_chunks()})
        if not writer.rows:
            return 0
        path = f"{folder.name}/{name}"
        shard = SignedShard(
            shard=Shard(path, path), fingerprint=None, settings=settings, rows=0, position=-1, is_reference=True,
            sources=corpus.sources,
        )  # fmt: skip
        return writer.finish(shard).rows


def index_parts(folder: Path) -> list[Path]:
    """The folders of an index; one whose writing was cut off is none."""
    return [each for each in sorted(folder.iterdir()) if each.suffix != PART_SUFFIX]


def _part_name(folder: Path, sources: list[Fingerprint]) -> str:
    """The name of the part that has the rows of the same files, which is replaced, or else a new one."""
    parts = index_parts(folder)
    same = [each for each in parts if (known := read_signed(each)) is not None and known.sources == sources]
    return same[0].name if same else f"{max((int(each.name) for each in parts), default=-1) + 1:06}"


def check_index(folder: Path, settings: DedupeSettings, *, is_new: bool) -> None:
    """BadSetting if rows signed with these settings cannot be compared with the index."""
    if folder.exists() and not folder.is_dir():
        raise BadSetting(f"{folder} is a file, not a folder: name another")
    parts = index_parts(folder) if folder.is_dir() else []
    found = [read_signed(each) for each in parts]
    known = [each for each, path in zip(found, parts, strict=True) if each is not None and path.name.isdecimal()]
    if not known and not is_new:
        raise BadSetting(f"{folder} is no index: write one with `dustream dedupe … --save-index {folder}`")
    if len(known) < len(found):
        raise BadSetting(f"{folder} has other files than those of an index: name another folder")
    for each in known:
        if each.format != SIGNED_FORMAT:
            raise BadSetting(f"the index {folder} was made by another version of dustream: make it anew")
        if (each.settings.rules, each.settings.threshold) != (settings.rules, settings.threshold):
            theirs = msgspec.json.encode({"threshold": each.settings.threshold, "rules": each.settings.rules}).decode()
            raise BadSetting(f"the index {folder} was made with other settings ({theirs}): use the same")
