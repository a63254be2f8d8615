"""Current alarms in readable form, with counts over the current statuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from dustream.core.urls.sites import site_of
from dustream.schemas.alarms import Alarm
from dustream.schemas.status import DuplicateStatus, Role
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.store.base import Store

LIVE: frozenset[Role] = frozenset({"unique", "winner", "duplicate", "held"})


class AlarmLine(Struct, frozen=True):
    """A line of alarms.jsonl. `name` is a group's id or a site, `pages` its number of pages, `held` how many are held.
    `lost` is the number of a site's pages whose winner, in the first market, is on another site."""

    kind: Literal["group_held", "site_held"]
    name: str
    pages: int
    held: int
    lost: int | None = None


def standing_alarms(store: Store) -> list[Alarm]:
    """The newest alarm of each group and site that is held."""
    decoder = msgspec.json.Decoder(Alarm)
    alarms = (decoder.decode(data) for _, data in store.scan(view_prefix("alarms")))
    return [alarm for alarm in alarms if alarm.kind in ("group_held", "site_held")]


class AlarmCounts:
    """Counts the pages of groups and sites with an alarm."""

    def __init__(self, alarms: Iterable[Alarm]) -> None:
        self._groups: dict[str, list[int]] = {}
        self._sites: dict[str, list[int]] = {}
        for alarm in alarms:
            if alarm.site is None:
                self._groups[alarm.group] = [0, 0]
            else:
                self._sites[alarm.site] = [0, 0, 0]

    def add(self, status: DuplicateStatus) -> None:
        if status.role not in LIVE:
            return
        group = self._groups.get(status.group or "")
        if group is not None:
            group[0] += 1
            group[1] += status.role == "held"
        if self._sites:
            self._add_to_site(status)

    def _add_to_site(self, status: DuplicateStatus) -> None:
        name = site_of(status.url)
        site = self._sites.get(name)
        if site is not None:
            lost = status.winner is not None and site_of(status.winner) != name
            site[0] += 1
            site[1] += status.role == "held"
            site[2] += lost

    def lines(self) -> list[AlarmLine]:
        """The most pages first."""
        return sorted(self._lines(), key=lambda line: (-line.held, line.name))

    def _lines(self) -> Iterator[AlarmLine]:
        for name, (pages, held) in self._groups.items():
            yield AlarmLine("group_held", name, pages, held)
        for name, (pages, held, lost) in self._sites.items():
            yield AlarmLine("site_held", name, pages, held, lost)


def count_alarms(store: Store) -> list[AlarmLine]:
    """The current alarms; reads all statuses if there are any."""
    alarms = standing_alarms(store)
    counts = AlarmCounts(alarms)
    decoder = msgspec.json.Decoder(DuplicateStatus)
    for _, data in store.scan(view_prefix("duplicate.status")) if alarms else ():
        counts.add(decoder.decode(data))
    return counts.lines()


def describe_alarm(line: AlarmLine) -> str:
    """The alarm as one line of text."""
    if line.kind == "group_held":
        return f"group {line.name}: {line.pages:,} pages, over the limit for a group; {line.held:,} held"
    return f"site {line.name}: {line.lost:,} of {line.pages:,} pages would go to winners elsewhere; {line.held:,} held"
