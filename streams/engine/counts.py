"""Counts of records by outcome."""

from __future__ import annotations

from collections import Counter

from dustream.core.intake import Intake
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.rejections import OTHER_REASONS, kind_of, reasons_max
from dustream.streams.engine.state_rows import Counts


def add_counts(counts: Counts, records: int, intake: Intake, letters: list[DeadLetter]) -> None:
    """Add the outcome of `records` records."""
    counts.records += records
    counts.pages_taken += len(intake.crawls)
    counts.truncated += sum(crawl.truncated for crawl in intake.crawls)
    counts.rejected += len(letters)
    counts.rejected_by_reason = _added_bounded(counts.rejected_by_reason, letters)
    counts.ignored = added(counts.ignored, intake.ignored)


def added(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    if not more:
        return counts
    return {name: counts.get(name, 0) + more.get(name, 0) for name in sorted(counts.keys() | more.keys())}


def _added_bounded(counts: dict[str, int], letters: list[DeadLetter]) -> dict[str, int]:
    for kind, count in Counter(kind_of(letter.reason) for letter in letters).items():
        name = kind if kind in counts or len(counts) < reasons_max else OTHER_REASONS
        counts = {**counts, name: counts.get(name, 0) + count}
    return counts
