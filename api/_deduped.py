"""Deduplicate records that have a text: no URLs, no state, one verdict for every record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from dustream._pages import Signature, extract, sign
from dustream._records import Records, records_of
from dustream.core.errors import BadInput, BadSetting
from dustream.core.once.contents import Contents, MemorySpool
from dustream.core.once.records import RecordVerdicts, judge_records
from dustream.core.similarity import similarity_at_least, threshold_ratio
from dustream.core.text.shingle_bytes import shingle_array
from dustream.streams.questions.word_diff import WordDiff, word_diff

RecordRole = Literal["unique", "winner", "duplicate"]
Prefer = Literal["first", "last", "longest"]


class RecordVerdict(Struct, frozen=True):
    """What becomes of one record. `group` is the id of the first record of its group, `winner` of the record that is
    kept for it; `similarity` is the exact Jaccard similarity to the winner."""

    id: Any
    role: RecordRole
    group: Any
    winner: Any
    similarity: float
    relation: Literal["exact", "near"] | None


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
    prefer: Prefer = "first",
) -> Deduped:
    """Find the near-duplicates among records and choose which to keep.

    `records` is an iterable of texts or dicts, a pandas or polars DataFrame, a pyarrow Table or a Hugging Face Dataset.
    `text` names the field or column with the text; `html` one with HTML pages, whose main text is compared instead.
    `id` names the field by which records are known in the answers; without it they are known by their number.

    Two records are duplicates if the Jaccard similarity of their shingles is at least `threshold`. A group is
    connected by such pairs, and a record is dropped only for a kept one that it matches itself. `prefer` says which
    record of a group is kept. A record without text is unique.

    >>> words = " ".join(map(str, range(100)))
    >>> texts = {"a": words, "b": words + " 100", "c": "another text"}
    >>> found = dedupe([{"id": name, "text": text} for name, text in texts.items()], id="id")
    >>> [record["id"] for record in found.kept()]
    ['a', 'c']
    >>> found.verdicts[1]
    RecordVerdict(id='b', role='duplicate', group='a', winner='a', similarity=0.91..., relation='near')
    >>> found.why("a", "b").words
    'near-duplicates: 0.9143 is at least 0.9'
    """
    if not 0 < threshold < 1:
        raise BadSetting(f"threshold {threshold} must be between 0 and 1, such as 0.9")
    if prefer not in ("first", "last", "longest"):
        raise BadSetting(f"prefer {prefer!r} is not known: use first, last or longest")
    view = records_of(records)
    contents, lengths = Contents(threshold, MemorySpool()), []
    for number, value in enumerate(view.column(html or text)):
        signature = _signature(value, number, is_html=html is not None)
        lengths.append(signature.token_count)
        contents.add(signature._signature)
    ids = None if id is None else list(view.column(id))
    return Deduped(
        view, html or text, html is not None, ids, threshold, judge_records(contents, _ranked(lengths, prefer))
    )


def _signature(value: Any, number: int, *, is_html: bool) -> Signature:
    if value is not None and not isinstance(value, str | bytes):
        raise BadInput(f"the text of record {number} is a {type(value).__name__}, not a string")
    found = sign(value or "", html=is_html and bool(value))
    if found.token_count:
        return found
    own = b"no text" + number.to_bytes(9, "big")  # records without text have nothing in common but that
    return Signature(replace(found._signature, content_hash=own))


def _ranked(lengths: list[int], prefer: Prefer) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers = np.arange(len(lengths), dtype=np.int64)
    if prefer == "last":
        return numbers[::-1].copy()
    return numbers if prefer == "first" else np.argsort(-np.array(lengths, dtype=np.int64), kind="stable")


class Deduped:
    """The outcome of `dedupe`."""

    def __init__(
        self, records: Records, text: str, is_html: bool, ids: list[Any] | None, threshold: float, found: RecordVerdicts
    ) -> None:
        self._records = records
        self._text = text
        self._is_html = is_html
        self._ids: Sequence[Any] = range(len(records)) if ids is None else ids
        self._has_ids = ids is not None
        self._groups, self._winners = found
        self._is_kept = self._winners.winners == np.arange(len(records))
        self.threshold = threshold

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<Deduped {len(self)} records: {int(self._is_kept.sum())} kept>"

    @cached_property
    def verdicts(self) -> list[RecordVerdict]:
        """One for every record, in the order of the input."""
        ids = self._ids
        sizes = np.bincount(self._groups, minlength=len(ids))[self._groups]
        columns = (column.tolist() for column in (self._groups, *self._winners, sizes))
        return [
            RecordVerdict(
                ids[number],
                "duplicate" if winner != number else "winner" if size > 1 else "unique",
                ids[group],
                ids[winner],
                similarity,
                None if winner == number else "exact" if exact else "near",
            )
            for number, (group, winner, similarity, exact, size) in enumerate(zip(*columns, strict=True))
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
        for number, group in enumerate(self._groups.tolist()):
            members.setdefault(group, []).append(number)
        for group, numbers in members.items():
            if len(numbers) > 1:
                kept = [self._ids[each] for each in numbers if self._is_kept[each]]
                yield Cluster(self._ids[group], [self._ids[each] for each in numbers], kept)

    @property
    def table(self) -> Any:
        """The input table with the columns `role`, `group`, `winner` and `similarity`."""
        names = ("role", "group", "winner", "similarity")
        return self._records.with_columns({name: [getattr(each, name) for each in self.verdicts] for name in names})

    def why(self, a: Any, b: Any) -> PairReport:
        """How two records relate, by their ids: similarity, whether they are in one group, and which words differ."""
        one, other = self._number(a), self._number(b)
        values = list(self._records.column(self._text))
        signatures = [_signature(values[each], each, is_html=self._is_html) for each in (one, other)]
        texts = [self._shown_text(values[each]) for each in (one, other)]
        similarity = signatures[0].jaccard(signatures[1])
        same_group = bool(self._groups[one] == self._groups[other])
        return PairReport(
            _words(signatures, similarity, self.threshold, same_group=same_group),
            similarity,
            self.threshold,
            signatures[1].contains(signatures[0]),
            signatures[0].contains(signatures[1]),
            same_group,
            word_diff(*texts),
        )

    def _shown_text(self, value: str | bytes | None) -> str:
        if self._is_html and value:
            return extract(value).text
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        numbers: dict[Any, int] = {}
        for number, each in enumerate(self._ids):
            numbers.setdefault(each, number)
        return numbers

    def _number(self, name: Any) -> int:
        if self._has_ids and name in self._numbers:
            return self._numbers[name]
        if not self._has_ids and isinstance(name, int) and 0 <= name < len(self):
            return name
        raise KeyError(f"no record has the id {name!r}")


def _words(signatures: list[Signature], similarity: float, threshold: float, *, same_group: bool) -> str:
    one, other = signatures
    if not one.token_count or not other.token_count:
        return "not comparable: one of them has no text"
    if one.content_hash == other.content_hash:
        return "the same text"
    mine, theirs = (shingle_array(each._signature.shingles) for each in signatures)
    if similarity_at_least(mine, theirs, *threshold_ratio(threshold)) >= 0.0:
        return f"near-duplicates: {similarity:.4f} is at least {threshold:g}"
    linked = ", but linked by records between them" if same_group else ""
    return f"no near-duplicates: {similarity:.4f} is below {threshold:g}{linked}"
