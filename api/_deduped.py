"""Deduplicate records that have a text: no URLs, no state, one verdict for every record."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream._pages import extract
from dustream._records import Records, records_of
from dustream.core.errors import BadInput, BadSetting
from dustream.core.once.records import RowColumns, RowComparison, first_rows, judge_rows, match_rows
from dustream.core.similarity import TAU_DENOMINATOR_MAX, intersection_size, jaccard, threshold_ratio
from dustream.core.text.row_signing import TokenKind, TokenRules
from dustream.streams.dedupe.filtered import PREFIX
from dustream.streams.dedupe.ranking import ranked_rows
from dustream.streams.dedupe.rows import (
    BATCH_BYTES_MAX,
    BATCH_ROWS_MAX,
    NO_TEXT,
    NOT_TEXT,
    REASONS,
    RowBatch,
    json_column,
    text_batch,
)
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.signatures import sign_batch
from dustream.streams.dedupe.verdicts import DUPLICATE, RELATIONS, ROLES, CorpusVerdicts, described
from dustream.streams.questions.shown_tokens import decoded
from dustream.streams.questions.word_diff import WordDiff, word_diff

RecordRole = Literal["unique", "winner", "duplicate", "not_compared"]


class RecordVerdict(Struct, frozen=True):
    """What becomes of one record. `group` is the id of the first record of its group, `winner` of the record that is
    kept for it; `similarity` is the exact Jaccard similarity to the winner. `relation`: `exact` if both texts are equal
    byte by byte, `same_tokens` if only what is compared of them is equal, else `near`. `reason` says why a record was
    not compared. `against`: its winner is one of the records that were given as `against`."""

    id: Any
    role: RecordRole
    group: Any
    winner: Any
    similarity: float
    relation: Literal["exact", "same_tokens", "near"] | None
    reason: str | None = None
    against: bool = False


class Cluster(Struct, frozen=True):
    """A group of more than one record: the ids of all, and of those that are kept."""

    group: Any
    members: list[Any]
    winners: list[Any]


class PairReport(Struct, frozen=True):
    """How two records relate. `a_in_b`: the share of the first one's shingles that the second has."""

    words: str
    similarity: float
    threshold: float
    a_in_b: float
    b_in_a: float
    same_group: bool
    diff: WordDiff


def dedupe(
    records: Any,
    *,
    text: str = "text",
    html: str | None = None,
    id: str | None = None,
    threshold: float = 0.9,
    prefer: str | Sequence[str] = "first",
    tokens: TokenKind = "words",
    ngram: int = 0,
    min_tokens: int = 1,
    keep_case: bool = False,
    fold_chinese: bool = False,
    against: Any = None,
    only_against: bool = False,
) -> Deduped:
    """Find the near-duplicates among records and choose which to keep.

    `records` is an iterable of texts or dicts, a pandas or polars DataFrame, a pyarrow Table or a Hugging Face Dataset;
    `dedupe_files` takes files.
    `text` names the field or column with the text; `html` one with HTML pages, whose main text is compared instead.
    `id` names the field by which records are known in the answers; without it they are known by their number.

    Two records are duplicates if the Jaccard similarity of their shingles is at least `threshold`. A group is
    connected by such pairs, and a record is dropped only for a kept one that it matches itself. A record without text,
    or with a text that is no string, is not compared, and kept.

    `prefer` says which record of a group is kept: `first`, `last`, `longest`, `shortest`, `FIELD:asc` or `FIELD:desc`;
    several in order. `tokens`, `ngram`, `min_tokens`, `keep_case` and `fold_chinese` say what is compared, as in
    `dustream dedupe`.
    `against` are other records: what they have is dropped, and with `only_against` nothing else.

    >>> words = " ".join(map(str, range(100)))
    >>> texts = {"a": words, "b": words + " 100", "c": "another text"}
    >>> found = dedupe([{"id": name, "text": text} for name, text in texts.items()], id="id")
    >>> [record["id"] for record in found.kept()]
    ['a', 'c']
    >>> found.verdicts[1]
    RecordVerdict(id='b', role='duplicate', group='a', winner='a', similarity=0.98..., relation='near', ...)
    >>> found.why("a", "b").words
    'near-duplicates: 0.9897 is at least 0.9'
    """
    if only_against and against is None:
        raise BadSetting("only_against needs records in against")
    settings = DedupeSettings(
        text=html or text,
        id=id,
        threshold=threshold,
        rules=TokenRules(tokens, ngram, keep_case, fold_chinese),
        min_tokens=min_tokens,
        prefer=(prefer,) if isinstance(prefer, str) else tuple(prefer),
    )
    views = [
        _View(records_of(data), settings, is_html=html is not None) for data in (against, records) if data is not None
    ]
    references = 0 if against is None else len(views[0])
    return Deduped(views, settings, _verdicts(views, settings, references, only_against=only_against))


class _View:
    """Records, and how their texts are taken."""

    def __init__(self, records: Records, settings: DedupeSettings, *, is_html: bool) -> None:
        self.records, self._settings, self.is_html = records, settings, is_html

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def ids(self) -> Sequence[Any]:
        name = self._settings.id
        return range(len(self)) if name is None else list(self.records.column(name))

    def batches(self) -> Iterator[RowBatch]:
        texts: list[bytes | None] = []
        reasons: list[int] = []
        size = 0
        for value in self.records.column(self._settings.text):
            texts.append(self.text_bytes(value))
            reasons.append(0 if value is None or isinstance(value, str | bytes) else NOT_TEXT)
            size += len(texts[-1] or b"")
            if len(texts) == BATCH_ROWS_MAX or size > BATCH_BYTES_MAX:
                yield text_batch(texts, reasons=np.array(reasons, dtype=np.uint8))
                texts, reasons, size = [], [], 0
        if texts:
            yield text_batch(texts, reasons=np.array(reasons, dtype=np.uint8))

    def text_bytes(self, value: Any) -> bytes | None:
        """None if it is no text."""
        if self.is_html and isinstance(value, str | bytes) and value:
            value = extract(value).text
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        return value if isinstance(value, bytes) else None


class _Signed(NamedTuple):
    """The columns of signatures, all rows of all views."""

    rows: RowColumns
    tokens: NDArray[np.int64]
    byte_hashes: NDArray[np.uint64]
    reasons: NDArray[np.uint8]


def _signed(batches: Iterator[RowBatch], settings: DedupeSettings) -> _Signed:
    signed = [sign_batch(batch, settings) for batch in batches] or [sign_batch(text_batch([]), settings)]
    columns = {name: np.concatenate([each[name] for each, _ in signed]) for name in signed[0][0]}
    reasons = columns["reasons.u8"]
    if len(reasons) and np.all((reasons == NOT_TEXT) | (reasons == NO_TEXT)) and np.any(reasons == NOT_TEXT):
        raise BadInput(f"no record has a text in {settings.text!r}: its values are no strings, name another")
    sizes = np.concatenate([np.diff(each["ends.i64"], prepend=0) for each, _ in signed])
    ends = np.cumsum(sizes, dtype=np.int64)
    rows = RowColumns(
        columns["keys.u64"],
        columns["hashes.u64"],
        ends - sizes,
        ends,
        np.concatenate([shingles for _, shingles in signed]),
        columns["reasons.u8"] == 0,
    )
    return _Signed(rows, columns["tokens.i64"], columns["bytes.u64"], columns["reasons.u8"])


def _verdicts(views: list[_View], settings: DedupeSettings, references: int, *, only_against: bool) -> CorpusVerdicts:
    signed = _signed((batch for view in views for batch in view.batches()), settings)
    named = [each.column for each in settings.preferences if each.column is not None]
    columns = {
        name: json_column([value for view in views for value in _values(view, name, is_needed=view is views[-1])])
        for name in named
    }
    ranked = ranked_rows(settings.preferences, signed.tokens, columns)
    ranked = np.concatenate((np.arange(references), ranked[ranked >= references]))
    comparison = RowComparison(threshold_ratio(settings.threshold), references, only_against)
    firsts = first_rows(signed.rows)
    found = judge_rows(signed.rows, firsts, comparison, match_rows(signed.rows, firsts, comparison), ranked)
    return described(found, signed.reasons, signed.rows.hashes, signed.byte_hashes)


def _values(view: _View, name: str, *, is_needed: bool) -> Iterator[Any]:
    """References win anyway: they need no such column."""
    return view.records.column(name) if is_needed else iter([None] * len(view))


class Deduped:
    """The outcome of `dedupe`."""

    def __init__(self, views: list[_View], settings: DedupeSettings, found: CorpusVerdicts) -> None:
        self._view, self._settings = views[-1], settings
        self._records = self._view.records
        self._all_ids = [each for view in views for each in view.ids] if len(views) > 1 else views[0].ids
        self._ids = self._view.ids
        self._first = len(self._all_ids) - len(self._ids)
        self._found = found.after(self._first)
        self._is_kept = self._found.roles != DUPLICATE
        self.threshold = settings.threshold

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<Deduped {len(self)} records: {int(self._is_kept.sum())} kept>"

    @cached_property
    def verdicts(self) -> list[RecordVerdict]:
        """One for every record, in the order of the input."""
        ids, found = self._all_ids, self._found
        return [
            RecordVerdict(
                own_id,
                ROLES[role],
                ids[group],
                ids[winner],
                similarity,
                RELATIONS[relation],
                REASONS[reason],
                winner < self._first,
            )
            for own_id, (role, group, winner, similarity, relation, reason) in zip(
                self._ids, zip(*(column.tolist() for column in found), strict=True), strict=True
            )
        ]

    def kept(self) -> Any:
        """The records that are kept, in their order: a table of the input's kind, or an iterator of records."""
        return self._records.pick(np.flatnonzero(self._is_kept).tolist())

    def dropped(self) -> Any:
        """The others."""
        return self._records.pick(np.flatnonzero(~self._is_kept).tolist())

    def clusters(self) -> Iterator[Cluster]:
        """The groups of more than one record, in the order of their first records."""
        members: dict[int, list[int]] = {}
        for number, group in enumerate(self._found.clusters.tolist()):
            members.setdefault(group, []).append(number)
        for group, numbers in members.items():
            if len(numbers) > 1:
                kept = [self._ids[each] for each in numbers if self._is_kept[each]]
                yield Cluster(self._all_ids[group], [self._ids[each] for each in numbers], kept)

    @property
    def table(self) -> Any:
        """The input table with the columns `dedupe_role`, `dedupe_group`, `dedupe_winner` and `dedupe_similarity`.
        Columns of these names that it has are replaced."""
        names = ("role", "group", "winner", "similarity")
        values = {PREFIX + name: [getattr(each, name) for each in self.verdicts] for name in names}
        return self._records.with_columns(values)

    def why(self, a: Any, b: Any) -> PairReport:
        """How two records relate, by their ids: similarity, whether they are in one group, and which words differ."""
        one, other = self._number(a), self._number(b)
        values = list(self._records.column(self._settings.text))
        texts = [self._view.text_bytes(values[each]) or b"" for each in (one, other)]
        signed = _signed(iter([text_batch(list(texts))]), self._settings)
        one_set, other_set = [
            signed.rows.shingles[start:end] for start, end in zip(signed.rows.starts, signed.rows.ends, strict=True)
        ]
        same_group = bool(self._found.clusters[one] == self._found.clusters[other])
        similarity, common = float(jaccard(one_set, other_set)), int(intersection_size(one_set, other_set, 0))
        return PairReport(
            _words(signed, similarity, self.threshold, same_group=same_group),
            similarity,
            self.threshold,
            common / max(1, len(one_set)),
            common / max(1, len(other_set)),
            same_group,
            word_diff(decoded(texts[0]), decoded(texts[1]), self._settings.rules),
        )

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        numbers: dict[Any, int] = {}
        try:
            for number, each in enumerate(self._ids):
                numbers.setdefault(each, number)
        except TypeError:
            raise BadInput(
                f"the id of record {number} is a {type(each).__name__}, by which no record can be found: name another "
                "column as id, or none"
            ) from None
        return numbers

    def _number(self, name: Any) -> int:
        has_ids = self._settings.id is not None
        if has_ids and self._numbers and isinstance(name, Hashable) and name in self._numbers:
            return self._numbers[name]
        if not has_ids and isinstance(name, int) and 0 <= name < len(self):
            return name
        raise KeyError(f"no record has the id {name!r}")


def _words(signed: _Signed, similarity: float, threshold: float, *, same_group: bool) -> str:
    if not signed.rows.compared.all():
        return "not comparable: one of them has no text, or too little"
    if signed.byte_hashes[0] == signed.byte_hashes[1]:
        return "the same text"
    if np.all(signed.rows.hashes[0] == signed.rows.hashes[1]):
        return "the same tokens"
    if Fraction(similarity).limit_denominator(TAU_DENOMINATOR_MAX) >= Fraction(*threshold_ratio(threshold)):
        return f"near-duplicates: {similarity:.4f} is at least {threshold:g}"
    linked = ", but linked by records between them" if same_group else ""
    return f"no near-duplicates: {similarity:.4f} is below {threshold:g}{linked}"
