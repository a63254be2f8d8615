"""Lists the operators' decisions that are in force on a state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

from dustream.core.vertex import END
from dustream.schemas.crawl import CrawlEvent, DecisionName
from dustream.schemas.rules import Rewrite
from dustream.streams.questions.state import ReadableState


def read_decisions(state: ReadableState) -> Iterator[CrawlEvent]:
    """The decisions in force, as events: those on groups, on sites, on pages, on pairs, on rules."""
    partitions = range(state.settings.partitions)
    for partition in partitions:
        for url, row in state.table("pages", partition, "decisions").scan():
            pass_from: float | None = row.pass_from
            yield _event(url, row.version, _group_decision(pass_from), pass_from=pass_from or None)
    for partition in partitions:
        for site, row in state.table("sites", partition, "sites").scan():
            if row.decided_at is not None:
                yield _event(f"http://{site}/", row.decided_at, "release_site" if row.released else "hold_site")
    for partition in partitions:
        for url, row in state.table("pages", partition, "page_decisions").scan():
            yield _event(url, row.version, "not_duplicate" if row.kept else "undo_page")
    for partition in partitions:
        for key, row in state.table("pages", partition, "pair_decisions").scan():
            one, other = key.split(END)
            if one < other:  # both pages have a row
                yield _event(one, row.version, "same" if row.same else "undo_same", other=other)
    for partition in partitions:
        for key, row in state.table("rules", partition, "rule_decisions").scan():
            name = cast("DecisionName", f"{row.verdict or 'undo'}_rule")
            yield _event(f"http://{key.partition(' ')[0]}/", row.version, name, rule=row.rewrite)


def is_withdrawal(event: CrawlEvent) -> bool:
    """Whether a decision says no more than that an earlier one is withdrawn."""
    return event.decision in ("hold_group", "hold_site", "undo_page", "undo_same", "undo_rule")


def _group_decision(pass_from: float | None) -> DecisionName:
    if pass_from is None:
        return "hold_group"
    return "split_group" if pass_from else "release_group"


def _event(
    url: str,
    version_ms: int,
    name: DecisionName,
    *,
    pass_from: float | None = None,
    rule: Rewrite | None = None,
    other: str | None = None,
) -> CrawlEvent:
    at = datetime.fromtimestamp(version_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return CrawlEvent(url=url, fetched_at=at, decision=name, pass_from=pass_from, rule=rule, same_as=other)
