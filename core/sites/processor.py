"""The sites processor: the circuit breaker for sites that are about to lose most of their pages. Keyed by site.

A page is lost to its site if its winner is on another site. A site with enough pages that would lose more than a
configured share of them, in any market, is *held*: its lost pages are not dropped, and an alarm is sent. Whether a site
is held is a function of its current counts and the operator's latest decision. When the share falls, the site is
released automatically.

`pages` sends the changes of each step. The held markets are sent to every partition of `pages`, which applies them to
the pages concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import Send, Table, TaskState
from dustream.schemas.alarms import Alarm
from dustream.schemas.pages import SiteHeld
from dustream.schemas.sites import SiteDecision, SitesMessage, Tally

SITE_SHARE_MAX = 0.5
SITE_PAGES_MIN = 100


class SiteRow(Struct, frozen=True, array_like=True):
    """Table `sites`, by site. `lost` is per market; `held` are the markets (bit by bit) in which the site is held."""

    pages: int = 0
    lost: tuple[int, ...] = ()
    decided_at: int | None = None
    released: bool = False
    held: int = 0


TABLES: dict[str, Any] = {"sites": SiteRow}


class SitesProcessor:
    """One task of `sites`."""

    def __init__(
        self, pages_partitions: int, *, share_max: float = SITE_SHARE_MAX, pages_min: int = SITE_PAGES_MIN
    ) -> None:
        self._pages_partitions = pages_partitions
        self._share_max = share_max
        self._pages_min = pages_min

    def open(self, state: TaskState) -> None:
        self._sites: Table[SiteRow] = state.table("sites")

    def process(self, state: TaskState, messages: Sequence[SitesMessage]) -> list[Send]:
        """Count all messages of the batch before sending anything: changes that cancel out within it send nothing."""
        rows: dict[str, SiteRow] = {}
        for message in messages:
            row = rows.get(message.site) or self._sites.get(message.site) or SiteRow()
            rows[message.site] = _counted(row, message) if isinstance(message, Tally) else _decided(row, message)
        return [send for site, row in rows.items() for send in self._settle(site, row)]

    def _settle(self, site: str, row: SiteRow) -> Iterator[Send]:
        held = self._held_markets(row)
        if held != row.held:
            for partition in range(self._pages_partitions):
                yield Send("pages", partition, SiteHeld(site, held))
        if bool(held) != bool(row.held):
            yield Send("alarms", site, _alarm(site, row, held))
        row = replace(row, held=held)
        if row.pages or row.decided_at is not None:
            self._sites.put(site, row)
        else:
            self._sites.delete(site)

    def _held_markets(self, row: SiteRow) -> int:
        if row.released or row.pages < self._pages_min:
            return 0
        return sum(1 << market for market, lost in enumerate(row.lost) if lost > self._share_max * row.pages)


def _counted(row: SiteRow, tally: Tally) -> SiteRow:
    before = row.lost or (0,) * len(tally.lost)
    lost = tuple(old + change for old, change in zip(before, tally.lost, strict=True))
    return replace(row, pages=row.pages + tally.pages, lost=lost)


def _decided(row: SiteRow, decision: SiteDecision) -> SiteRow:
    """The later decision counts; of two with one timestamp, the more careful one."""
    known = row.decided_at
    if known is not None and (decision.version, not decision.released) <= (known, not row.released):
        return row
    return replace(row, decided_at=decision.version, released=decision.released)


def _alarm(site: str, row: SiteRow, held: int) -> Alarm:
    kind: Literal["site_held", "site_passed"] = "site_held" if held else "site_passed"
    return Alarm(kind=kind, group="", size=row.pages, site=site, lost=max(row.lost, default=0))
