"""The pages of sites: their contribution to the sites' counts, and which of them are held because their site is.

A page is *lost* to its site in a market if its winner there is on another site. `sites` sums the tallies and notifies
every partition of the sites that are held. The markets are stored here per site and applied to the lost pages, a
bounded number per step. A page that becomes lost while its site is held is held at once. So when no message is pending,
every lost page reflects the latest state of its site, in whatever order the messages came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.pages.resolution import effective, verdicts_of
from dustream.core.pages.rows import PageRow
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.vertex import END
from dustream.schemas.pages import SiteHeld
from dustream.schemas.sites import Tally

PAGES_UPDATED_MAX = 1_000  # in one step


class LostRow(Struct, frozen=True, array_like=True):
    """Table `lost`, by site and URL: a page with a winner on another site."""


class SiteHoldRow(Struct, frozen=True, array_like=True):
    """Table `site_holds`, by site. `told_after`: the last page updated, while some are left; None: all are."""

    markets: int
    told_after: str | None = None


class SiteOf(Protocol):
    def __call__(self, url: str, /) -> str: ...


def _has_same_winner(before: PageRow, now: PageRow) -> bool:
    """Whether two rows are certainly lost in the same markets, without computing them. A row not published yet is not
    counted."""
    one, other = before.standing, now.standing
    if before.unsaid or before.kind != "content" or now.kind != "content" or one is None or other is None:
        return False
    same = before.verdicts == now.verdicts and before.contained == now.contained and before.kept == now.kept
    return same and one.pass_from == other.pass_from and (one.alone == other.alone or not now.contained)


class SitePages:
    """The sites of one task of `pages`."""

    def __init__(self, site_of: SiteOf, markets: int, updated_max: int = PAGES_UPDATED_MAX) -> None:
        self._site_of = site_of
        self._markets = markets
        self._updated_max = updated_max
        self._tallies: dict[str, tuple[int, list[int]]] = {}

    def open(self, state: TaskState) -> None:
        self._lost: Table[LostRow] = state.table("lost")
        self._holds: Table[SiteHoldRow] = state.table("site_holds")

    # Counting

    def counted(self, url: str, before: PageRow | None, now: PageRow) -> PageRow:
        """The page with its `lost` and `site_held` markets; the change goes into the next tally."""
        if before is not None and _has_same_winner(before, now):
            return now
        lost = self._lost_markets(url, now)
        was_lost = before.lost if before is not None else 0
        pages = (now.kind == "content") - (before is not None and before.kind == "content")
        if not pages and lost == was_lost:
            return now
        site = self._site_of(url)
        self._add(site, pages, was_lost, lost)
        if lost or was_lost:
            self._list(site, url, lost)
        held = lost & self._held(site) if lost else 0
        return now if (lost, held) == (now.lost, now.site_held) else replace(now, lost=lost, site_held=held)

    def _lost_markets(self, url: str, page: PageRow) -> int:
        if page.kind != "content" or page.standing is None:
            return 0
        verdicts, standing, lost = verdicts_of(url, page), page.standing, 0
        for market, verdict in enumerate(verdicts):
            if verdict.winner != url:
                winner = effective(url, standing, verdict).winner
                if winner != url and self._is_elsewhere(winner, url):
                    lost |= 1 << market
        return lost

    def _is_elsewhere(self, winner: str, url: str) -> bool:
        site = self._site_of(url)
        return site != "" and self._site_of(winner) != site

    def _add(self, site: str, pages: int, was_lost: int, lost: int) -> None:
        known, counts = self._tallies.setdefault(site, (0, [0] * self._markets))
        for market in range(self._markets):
            counts[market] += (lost >> market & 1) - (was_lost >> market & 1)
        self._tallies[site] = known + pages, counts

    def _list(self, site: str, url: str, lost: int) -> None:
        key = f"{site}{END}{url}"
        if lost:
            self._lost.put(key, LostRow())
        else:
            self._lost.delete(key)

    def tallies(self) -> Iterator[Send]:
        """The changes of the step, one message per site."""
        for site, (pages, lost) in self._tallies.items():
            if site and (pages or any(lost)):
                yield Send("sites", site, Tally(site, pages, tuple(lost)))
        self._tallies = {}

    # Holding

    def _held(self, site: str) -> int:
        row = self._holds.get(site)
        return 0 if row is None else row.markets

    def set_held(self, message: SiteHeld) -> bool:
        """Store the held markets, and return whether to start updating the pages; if it is under way, it restarts."""
        row = self._holds.get(message.site)
        self._holds.put(message.site, SiteHoldRow(message.markets, ""))
        return row is None or row.told_after is None

    def next_to_update(self, site: str) -> tuple[list[str], int, bool]:
        """The next pages to update, the markets in which the site is held, and whether there may be more pages."""
        row = self._holds.get(site)
        if row is None or row.told_after is None:
            return [], 0, False
        prefix = site + END
        urls = [key[len(prefix) :] for key, _ in rows_after(self._lost, prefix, row.told_after, self._updated_max)]
        more = len(urls) == self._updated_max
        if more:
            self._holds.put(site, replace(row, told_after=urls[-1]))
        elif row.markets:
            self._holds.put(site, replace(row, told_after=None))
        else:
            self._holds.delete(site)
        return urls, row.markets, more
