"""Applies an operator's decision to a state.

A decision is an event like any other (schemas/crawl.py), so it can be part of an input. A decision made here is
processed in the same way, and `read_decisions` (streams/questions/decision_list.py) returns it as an event for a run of
the same inputs into a fresh state.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from dustream.core.errors import BadSetting
from dustream.core.intake import take_in
from dustream.core.pipeline import PAGES
from dustream.core.processor import Send
from dustream.schemas.crawl import CrawlEvent
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
