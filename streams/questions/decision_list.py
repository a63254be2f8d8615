"""Lists the operators' decisions that are in force on a state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from dustream.schemas.crawl import CrawlEvent, DecisionName
from dustream.streams.questions.state import StoredState


def read_decisions(state: StoredState) -> Iterator[CrawlEvent]:
    """The decisions in force, as events, those on groups first."""
    partitions = range(state.settings.partitions)
    for partition in partitions:
        for url, row in state.table("pages", partition, "decisions").scan():
            pass_from: float | None = row.pass_from
            yield _event(url, row.version, _group_decision(pass_from), pass_from or None)
    for partition in partitions:
        for site, row in state.table("sites", partition, "sites").scan():
            if row.decided_at is not None:
                yield _event(f"http://{site}/", row.decided_at, "release_site" if row.released else "hold_site")


def _group_decision(pass_from: float | None) -> DecisionName:
    if pass_from is None:
        return "hold_group"
    return "split_group" if pass_from else "release_group"


def _event(url: str, version_ms: int, name: DecisionName, pass_from: float | None = None) -> CrawlEvent:
    at = datetime.fromtimestamp(version_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return CrawlEvent(url=url, fetched_at=at, decision=name, pass_from=pass_from)
