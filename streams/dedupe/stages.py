"""The stages match and resolve: from signature files to verdicts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.once.records import RowColumns, RowComparison, Threads, first_rows, judge_rows, match_rows
from dustream.core.similarity import threshold_ratio
from dustream.streams.dedupe.index import index_parts
from dustream.streams.dedupe.mapped import MappedFiles
from dustream.streams.dedupe.pool import check_stopped, in_threads
from dustream.streams.dedupe.ranking import ranked_rows
from dustream.streams.dedupe.rows import REASONS
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import Shard
from dustream.streams.dedupe.signatures import SignedCorpus, SignedShard
from dustream.streams.dedupe.verdicts import RELATIONS, ROLES, CorpusVerdicts, described

SIGNATURES: Final = "signatures"
MATCHES: Final = "matches"
SUMMARY_FILE: Final = "summary.json"
LARGEST_SHOWN: Final = 10


class UnreadShard(Struct, frozen=True):
    """A shard that is left out, and why."""

    path: str
    reason: str


class CountedShard(Struct, frozen=True, omit_defaults=True):
    """A shard with its number of rows. `has_text` is false for parts of an index and for runs: they have signatures
    only."""

    path: str
    name: str
    rows: int
    has_text: bool = True


class DedupeSummary(Struct, frozen=True, kw_only=True):
    """summary.json. `inputs` in their order; `largest`: the sizes of the largest clusters, by cluster."""

    settings: DedupeSettings
    inputs: list[CountedShard]
    references: list[CountedShard] = []
    unread: list[UnreadShard] = []
    rows: int = 0
    kept: int = 0
    dropped: int = 0
    roles: dict[str, int] = {}
    relations: dict[str, int] = {}
    reasons: dict[str, int] = {}
    clusters: int = 0
    largest: list[tuple[int, int]] = []

    @property
    def compared(self) -> int:
        return self.rows - self.roles.get("not_compared", 0)

    @property
    def nothing_compared(self) -> str:
        """Why, if no row was compared."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        return f"no row could be compared ({reasons} in {self.settings.text}): is --text right?"


def open_corpus(work: Path, indexes: list[Path] | None = None) -> SignedCorpus:
    """The signed shards in a work folder, after those in indexes."""
    for index in indexes or []:
        if not index.is_dir():
            raise BadSetting(f"{index} is no index: there is no such folder")
    folders = [folder for index in indexes or [] for folder in index_parts(index)]
    here = work / SIGNATURES
    folders += sorted(here.iterdir()) if here.is_dir() else []
    corpus = SignedCorpus(folders)
    if len(corpus) == corpus.references:
        raise BadSetting(f"{work} has no signatures of rows: run `dustream dedupe sign` with it first")
    _check_columns(corpus)
    return corpus


def _check_columns(corpus: SignedCorpus) -> None:
    """A column that no row has is named wrongly, unless no row could be read at all."""
    missing = [name for name in corpus.settings.columns if not corpus.has_values(name)]
    if missing and not corpus.column("reasons.u8")[corpus.references :].all():
        raise BadSetting(f"no row has a value for {missing[0]}, named by --id or --prefer: name another column")


def comparison_of(corpus: SignedCorpus, *, only_references: bool = False) -> RowComparison:
    return RowComparison(threshold_ratio(corpus.settings.threshold), corpus.references, only_references)


def parse_share(text: str) -> tuple[int, int]:
    """`2/8`: the second of eight shares."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise BadSetting(f"{text} is no share: write I/N with I from 1 to N, as in 1/8")
    return int(part) - 1, int(parts)


class ComparedRows(NamedTuple):
    """A corpus with what its rows are compared by; `firsts`: by row, the first one with the same tokens."""

    corpus: SignedCorpus
    rows: RowColumns
    firsts: NDArray[np.int64]
    mapped: MappedFiles

    @classmethod
    def of(cls, corpus: SignedCorpus) -> ComparedRows:
        rows, mapped = corpus.row_columns()
        return cls(corpus, rows, first_rows(rows), mapped)

    def on_rows(self) -> None:
        check_stopped()
        self.mapped.release_some()


def match(work: Path, compared: ComparedRows, shares: list[tuple[int, int]], jobs: int = 1) -> Iterator[Path]:
    """Find the matches within some shares of the buckets, a thread each, and write them to a file each."""
    corpus, rows, firsts, mapped = compared
    comparison = comparison_of(corpus)

    def matched(share: tuple[int, int]) -> Path:
        path = work / MATCHES / f"{share[0] + 1}-of-{share[1]}.npz"
        if _matches_of(path, corpus) is None:
            _write_matches(path, match_rows(rows, firsts, comparison, share, compared.on_rows), corpus)
        return path

    yield from in_threads(matched, shares, jobs)
    mapped.release()


def _write_matches(path: Path, pairs: NDArray[np.int64], corpus: SignedCorpus) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with temporary.open("wb") as file:
        np.savez(file, pairs=pairs, identity=np.array(corpus.identity))
    temporary.replace(path)


def _matches_of(path: Path, corpus: SignedCorpus) -> NDArray[np.int64] | None:
    """The pairs in a file of matches; None if there is none for this corpus."""
    if not path.exists():
        return None
    with np.load(path) as found:
        return found["pairs"] if str(found["identity"]) == corpus.identity else None


def read_matches(work: Path, corpus: SignedCorpus) -> NDArray[np.int64]:
    """The pairs of all shares; StateMismatch says which one is missing."""
    by_parts: dict[int, dict[int, NDArray[np.int64]]] = {}
    for path in sorted((work / MATCHES).glob("*-of-*.npz")):
        own, _, of = path.stem.partition("-of-")
        if (pairs := _matches_of(path, corpus)) is not None:
            by_parts.setdefault(int(of), {})[int(own)] = pairs
    for parts, found in by_parts.items():
        if len(found) == parts:
            return np.concatenate([found[part] for part in sorted(found)])
    missing = [
        f"{part}/{parts}" for parts, found in by_parts.items() for part in range(1, parts + 1) if part not in found
    ]
    what = f"the shares {', '.join(missing[:10])} are missing" if missing else "no share is there"
    raise StateMismatch(f"the matches in {work} are not complete, {what}: run `dustream dedupe match {work}`")


def resolve(
    compared: ComparedRows, pairs: NDArray[np.int64], *, only_references: bool = False, jobs: int = 1
) -> CorpusVerdicts:
    """The verdict on every row."""
    corpus, rows, firsts, mapped = compared
    settings = corpus.settings
    columns = {each.column: corpus.other(each.column) for each in settings.preferences if each.column is not None}
    ranked = ranked_rows(settings.preferences, corpus.column("tokens.i64"), columns)
    if corpus.references:
        is_reference = ranked < corpus.references
        ranked = np.concatenate((np.sort(ranked[is_reference]), ranked[~is_reference]))
    threads = Threads(jobs, partial(in_threads, jobs=jobs), compared.on_rows)
    found = judge_rows(rows, firsts, comparison_of(corpus, only_references=only_references), pairs, ranked, threads)
    mapped.release()
    return described(found, corpus.column("reasons.u8"), rows.hashes, corpus.column("bytes.u64"))


def summarize(corpus: SignedCorpus, verdicts: CorpusVerdicts, unread: list[UnreadShard]) -> DedupeSummary:
    own = slice(corpus.references, None)
    roles, clusters = verdicts.roles[own], verdicts.clusters[own]
    grouped = clusters[(roles == ROLES.index("winner")) | (roles == ROLES.index("duplicate"))]
    numbers, sizes = np.unique(grouped, return_counts=True)
    largest = np.lexsort((numbers, -sizes))[:LARGEST_SHOWN]
    dropped = int(np.count_nonzero(roles == ROLES.index("duplicate")))
    own_files, references = (
        _counted([known for known in corpus.shards if known.is_reference == is_reference])
        for is_reference in (False, True)
    )
    return DedupeSummary(
        settings=corpus.settings, inputs=own_files, references=references, unread=unread, rows=len(roles),
        kept=len(roles) - dropped, dropped=dropped, roles=_counts(ROLES, roles),
        relations=_counts(RELATIONS, verdicts.relations[own]), reasons=_counts(REASONS, verdicts.reasons[own]),
        clusters=len(numbers), largest=[(int(numbers[each]), int(sizes[each])) for each in largest],
    )  # fmt: skip


def _counted(shards: list[SignedShard]) -> list[CountedShard]:
    """Each file once, however many parts it was signed in."""
    files: dict[str, CountedShard] = {}
    for known in shards:
        name = known.shard.name
        path = os.path.abspath(known.shard.path) if known.has_text else known.shard.path
        before = files[name].rows if name in files else 0
        files[name] = CountedShard(path, name, before + known.rows, known.has_text)
    return list(files.values())


def _counts(names: tuple[Any, ...], numbers: NDArray[np.uint8]) -> dict[str, int]:
    counts = np.bincount(numbers, minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if name is not None and count}


def write_summary(summary: DedupeSummary, out: Path) -> None:
    part = out / (SUMMARY_FILE + ".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")
    part.replace(out / SUMMARY_FILE)


def read_summary(out: Path) -> DedupeSummary:
    try:
        return msgspec.json.decode((out / SUMMARY_FILE).read_bytes(), type=DedupeSummary)
    except (OSError, msgspec.MsgspecError):
        raise BadSetting(f"{out} has no results of `dustream dedupe`: name its --out folder") from None


def shards_of(summary: DedupeSummary) -> list[Shard]:
    return [Shard(each.path, each.name) for each in summary.inputs]
