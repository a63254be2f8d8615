"""Operators' decisions on a state: lists those in force, and applies a new one.

A decision is an event like any other (schemas/crawl.py), so it can be part of an input. A decision made here is
processed in the same way, and `read_decisions` returns it as an event for a run of the same inputs into a fresh state.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dustream.core.errors import BadSetting
from dustream.core.intake import take_in
from dustream.core.pipeline import PAGES, SITES
from dustream.core.processor import Send
from dustream.schemas.crawl import CrawlEvent, DecisionName
from dustream.streams.embedded.session import Session
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import Outcome, write_results
from dustream.streams.job import outcome_fields
from dustream.streams.questions.state import EmbeddedState


def decide(path: Path, event: CrawlEvent, out: Path | None) -> None:
    """Apply a decision. When this returns, all its consequences are in the state, and in `out` if given."""
    with EmbeddedState(path) as state:
        settings = state.settings
    session = Session(path, settings)
    try:
        intake = take_in([event], settings.text_source)
        if intake.rejected:
            raise BadSetting(intake.rejected[0].reason)
        session.engine.run([Feed([Send(PAGES, decision.url, decision) for decision in intake.decisions])])
        if out is not None:
            _update_summary(out / "summary.json", write_results(session.store, out))
    finally:
        session.store.close()


def _update_summary(path: Path, outcome: Outcome) -> None:
    """Replace the fields of the outcome; those about the run stay."""
    if path.exists():
        summary = msgspec.json.decode(path.read_bytes()) | outcome_fields(outcome)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")


def read_decisions(state: EmbeddedState) -> Iterator[CrawlEvent]:
    """The decisions in force, as events, those on groups first."""
    partitions = range(state.settings.partitions)
    for partition in partitions:
        for url, row in state.table(PAGES, partition, "decisions").scan():
            pass_from: float | None = row.pass_from
            yield _event(url, row.version, _group_decision(pass_from), pass_from or None)
    for partition in partitions:
        for site, row in state.table(SITES, partition, "sites").scan():
            if row.decided_at is not None:
                yield _event(f"http://{site}/", row.decided_at, "release_site" if row.released else "hold_site")


def _group_decision(pass_from: float | None) -> DecisionName:
    if pass_from is None:
        return "hold_group"
    return "split_group" if pass_from else "release_group"


def _event(url: str, version_ms: int, name: DecisionName, pass_from: float | None = None) -> CrawlEvent:
    at = datetime.fromtimestamp(version_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return CrawlEvent(url=url, fetched_at=at, decision=name, pass_from=pass_from)
