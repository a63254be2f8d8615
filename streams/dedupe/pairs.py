"""Pairs of duplicates and winners by their stored similarity, and their texts: of `dustream dedupe` and of a run."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.intake import text_of
from dustream.core.settings import Settings
from dustream.core.text.row_signing import TokenRules
from dustream.core.urls.identity import page_identity
from dustream.streams.dedupe.rows import read_batches
from dustream.streams.dedupe.stages import SUMMARY_FILE, DedupeSummary
from dustream.streams.dedupe.verdicts import VERDICTS_FILE
from dustream.streams.questions.shown_tokens import PAGES, decoded
from dustream.streams.readers import Record, open_inputs

STATUS_FILE: Final = "status.jsonl"
THRESHOLDS: Final = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))

Place = str | tuple[str, int]
"""Where a text is: the URL of a page, or a file and a row."""


class StoredPair(NamedTuple):
    """A duplicate and its winner, which has no place if its text is not kept anywhere."""

    similarity: float
    cluster: Any
    names: tuple[str, str]
    places: tuple[Place, Place | None]


class ThresholdRow(Struct, frozen=True):
    """How many rows go at a threshold; None if similarities so low are not stored."""

    threshold: float
    dropped: int | None
    share: float | None


class StoredOutcome:
    """The results of `dustream dedupe` or `dustream run` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            summary = json.loads((folder / SUMMARY_FILE).read_bytes())
            self.threshold = float(summary["settings"]["threshold"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadSetting(f"{folder} has no results: name the --out folder of a run or of `dedupe`") from None
        self.is_corpus = (folder / VERDICTS_FILE).exists()
        self._summary: dict[str, Any] = summary
        self.rows = int(summary["rows"] if self.is_corpus else summary["pages"])

    @property
    def rules(self) -> TokenRules:
        """What the texts were compared by."""
        return self._corpus.settings.rules if self.is_corpus else PAGES

    @cached_property
    def _corpus(self) -> DedupeSummary:
        return msgspec.convert(self._summary, DedupeSummary)

    def similarities(self) -> NDArray[np.float64]:
        """Of every duplicate to its winner; pages that a longer one contains are not counted."""
        if self.is_corpus:
            table = pq.read_table(self.folder / VERDICTS_FILE, columns=["role", "similarity"])
            found = table.filter(pc.equal(table["role"], "duplicate"))["similarity"]
            return np.asarray(found, dtype=np.float64)
        return np.array([status["similarity"] for status in self._statuses()], dtype=np.float64)

    def thresholds(self) -> list[ThresholdRow]:
        similarities = np.sort(self.similarities())
        rows = []
        for threshold in THRESHOLDS:
            if threshold < self.threshold:
                rows.append(ThresholdRow(threshold, None, None))
                continue
            dropped = len(similarities) - int(np.searchsorted(similarities, threshold))
            rows.append(ThresholdRow(threshold, dropped, dropped / max(1, self.rows)))
        return rows

    def pairs(self, low: float, high: float, count: int) -> tuple[list[StoredPair], int]:
        """Near-duplicates with a similarity between two values, those nearest to the middle first, of different
        clusters as far as there are enough; and how many more there are whose winners have no text, because they are
        in an index or a run."""
        between = [pair for pair in self._pairs() if low <= pair.similarity <= high]
        found = sorted(
            (pair for pair in between if pair.places[1] is not None),
            key=lambda pair: (abs(pair.similarity - (low + high) / 2), pair.names),
        )
        seen: set[Any] = set()
        first: list[StoredPair] = []
        others: list[StoredPair] = []
        for pair in found:
            (others if pair.cluster in seen else first).append(pair)
            seen.add(pair.cluster)
        return (first + others)[:count], len(between) - len(found)

    def _pairs(self) -> Iterator[StoredPair]:
        if not self.is_corpus:
            for each in self._statuses():
                if each["relation"] == "near":
                    names = (each["url"], each["winner"])
                    yield StoredPair(each["similarity"], each["group"], names, names)
            return
        without_text = {each.name for each in self._corpus.references if not each.has_text}
        columns = ["file", "row", "id", "cluster", "winner", "winner_file", "winner_row", "similarity", "relation"]
        table = pq.read_table(self.folder / VERDICTS_FILE, columns=columns, filters=[("relation", "==", "near")])
        for batch in table.to_batches():
            for row in batch.to_pylist():
                winner = None if row["winner_file"] in without_text else (row["winner_file"], row["winner_row"])
                yield StoredPair(
                    row["similarity"],
                    row["cluster"],
                    (str(row["id"]), str(row["winner"])),
                    ((row["file"], row["row"]), winner),
                )

    def _statuses(self) -> Iterator[dict[str, Any]]:
        try:
            with (self.folder / STATUS_FILE).open("rb") as file:
                for line in file:
                    status = msgspec.json.decode(line)
                    if status["role"] == "duplicate" and status["relation"] in ("exact", "near"):
                        yield status
        except OSError:
            raise BadSetting(f"{self.folder} has neither {VERDICTS_FILE} nor {STATUS_FILE}") from None

    def texts(self, pairs: Sequence[StoredPair], inputs: Sequence[str]) -> dict[Place, str]:
        """The texts of these pairs, read again; a run does not store where its inputs are."""
        places = {place for pair in pairs for place in pair.places if place is not None}
        if self.is_corpus:
            return dict(self._row_texts(places))
        if not inputs and places:
            raise BadSetting("a run does not store where its inputs are: name them, too")
        return _page_texts(places, inputs, self._summary["settings"])

    def missing_files(self, pair: StoredPair) -> list[str]:
        """The files of its texts that are not there any more."""
        paths = [self._paths[place[0]] for place in pair.places if isinstance(place, tuple)]
        return [path for path in dict.fromkeys(paths) if not os.path.exists(path)]

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {each.name: each.path for each in [*self._corpus.inputs, *self._corpus.references]}

    def _row_texts(self, places: Iterable[Place]) -> Iterator[tuple[Place, str]]:
        paths, text = self._paths, self._corpus.settings.text
        wanted: dict[str, set[int]] = defaultdict(set)
        for file, row in (place for place in places if isinstance(place, tuple)):
            wanted[file].add(row)
        for file, rows in wanted.items():
            if not os.path.exists(paths[file]):
                continue
            before = 0
            for batch in read_batches(paths[file], text, []):
                for row in [row for row in rows if before <= row < before + len(batch.reasons)]:
                    start, end = batch.offsets[row - before : row - before + 2]
                    yield (file, row), decoded(batch.data[start:end].tobytes())
                    rows.discard(row)
                before += len(batch.reasons)
                if not rows:
                    break


def _page_texts(places: set[Place], inputs: Sequence[str], settings: dict[str, Any]) -> dict[Place, str]:
    """The texts of pages by URL, as of their last fetch that has one."""
    source = msgspec.convert(settings, Settings).text_source
    found: dict[Place, tuple[Any, str]] = {}
    for opened in open_inputs(inputs):
        for item in opened:
            if not isinstance(item, Record):
                continue
            url = page_identity(item.event.url)
            text = text_of(item.event, source) if url in places else None
            if text is not None and (url not in found or str(item.event.fetched_at) >= found[url][0]):
                found[url] = (str(item.event.fetched_at), text)
    return {url: text for url, (_, text) in found.items()}
