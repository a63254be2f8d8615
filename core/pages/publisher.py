"""Stores pages and publishes what their changes mean for others: statuses, cluster updates, the resolutions that
followers get, the counts and holds of sites, alarms, and containment drops.

Each URL's status has one writer. The resolution of a redirect is sent to its followers whenever it changes, in bounded
steps; a change during the steps restarts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from dustream.core.pages.former import FORMER_MAX
from dustream.core.pages.resolution import REDIRECT_HOPS_MAX, contained_markets, resolution
from dustream.core.pages.rows import UNKNOWN_VERSION, FollowerRow, PageRow, same_vertex, vertex_of
from dustream.core.pages.site_pages import PAGES_UPDATED_MAX, SiteOf, SitePages
from dustream.core.pages.status import MEMBERS_MAX, ClusterUpdates, holds_group, looks_alike, status, view
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.vertex import END
from dustream.core.winners import Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.pages import ContinueSite, Follow, Resolved, SiteHeld, Spread, Unfollow
from dustream.schemas.tier2 import ContainmentDropped

FOLLOWERS_NOTIFIED_MAX = 1_000
UNPARKED_MAX = 1_000


@dataclass(frozen=True)
class PagesLimits:
    """Bounds of one task of `pages`, of a step or a message unless stated otherwise."""

    redirect_hops_max: int = REDIRECT_HOPS_MAX  # of a path
    followers_notified_max: int = FOLLOWERS_NOTIFIED_MAX  # and pages answered that revisited one page
    site_pages_updated_max: int = PAGES_UPDATED_MAX
    update_members_max: int = MEMBERS_MAX
    unparked_max: int = UNPARKED_MAX  # requests of one vertex
    former_max: int = FORMER_MAX  # contents kept of a URL


class PagePublisher:
    """The pages of a task, as others see them."""

    def __init__(self, markets: Markets, site_of: SiteOf, limits: PagesLimits, send: Callable[[Send], None]) -> None:
        self._markets = markets
        self._site_of = site_of
        self._hops_max = limits.redirect_hops_max
        self._followers_notified_max = limits.followers_notified_max
        self._site_pages = SitePages(site_of, len(markets.names), limits.site_pages_updated_max)
        self._updates = ClusterUpdates(limits.update_members_max)
        self._send = send

    def open(self, state: TaskState) -> None:
        self._partition = state.partition
        self._pages: Table[PageRow] = state.table("pages")
        self._followers: Table[FollowerRow] = state.table("followers")
        self._site_pages.open(state)

    def drain(self) -> Iterator[Send]:
        """The messages that sum up a step: the counts of sites, and cluster updates."""
        yield from self._site_pages.tallies()
        yield from self._updates.drain()

    # Redirects

    def follow(self, message: Follow) -> None:
        url = message.url
        page = self._pages.get(url)
        key = f"{url}{END}{message.follower}"
        now = page or PageRow(UNKNOWN_VERSION, 0)
        if self._followers.get(key) is None:
            now = replace(now, follower_count=now.follower_count + 1)
            self._pages.put(url, now)
        self._followers.put(key, FollowerRow(message.epoch))
        answer = Resolved(message.follower, message.epoch, resolution(url, now, self._hops_max))
        self._send(Send("pages", message.follower, answer))

    def unfollow(self, message: Unfollow) -> None:
        key = f"{message.url}{END}{message.follower}"
        row = self._followers.get(key)
        page = self._pages.get(message.url)
        if row is None or page is None or row.epoch != message.epoch:
            return
        self._followers.delete(key)
        self.put_if_known(message.url, replace(page, follower_count=page.follower_count - 1))

    def resolved(self, message: Resolved) -> None:
        page = self._pages.get(message.url)
        if page is not None and page.kind == "redirect" and page.epoch == message.epoch:
            self.save(message.url, page, replace(page, upstream=message.resolution))

    def _spread(self, url: str, page: PageRow) -> PageRow:
        """Notify all followers, in bounded steps. A change during the steps restarts at the first follower."""
        if page.spread_after is not None:
            return replace(page, spread_after="")
        if page.follower_count > self._followers_notified_max:
            self._send(Send("pages", url, Spread(url)))
            return replace(page, spread_after="")
        self._notify_followers(url, page, "")
        return page

    def on_spread(self, message: Spread) -> None:
        page = self._pages.get(message.url)
        if page is None or page.spread_after is None:
            return
        last = self._notify_followers(message.url, page, page.spread_after)
        self._pages.put(message.url, replace(page, spread_after=last))
        if last is not None:
            self._send(Send("pages", message.url, Spread(message.url)))

    def _notify_followers(self, url: str, page: PageRow, after: str) -> str | None:
        """Notify some followers after `after`. Returns the last one if there may be more."""
        prefix = url + END
        rows = rows_after(self._followers, prefix, after, self._followers_notified_max)
        way = resolution(url, page, self._hops_max)
        for key, row in rows:
            follower = key[len(prefix) :]
            self._send(Send("pages", follower, Resolved(follower, row.epoch, way)))
        return rows[-1][0][len(prefix) :] if len(rows) == self._followers_notified_max else None

    # Sites and alarms

    def site_held(self, message: SiteHeld) -> None:
        if self._site_pages.set_held(message):
            self.update_site(ContinueSite(message.site))

    def update_site(self, message: ContinueSite) -> None:
        urls, markets, more = self._site_pages.next_to_update(message.site)
        for url in urls:
            page = self._pages.get(url)
            assert page is not None
            if page.site_held != page.lost & markets:
                self.save(url, page, replace(page, site_held=page.lost & markets))
        if more:
            self._send(Send("pages", self._partition, message))

    def _alarm(self, url: str, now: PageRow) -> None:
        """A group's eldest member sends its alarms: with one writer per group id, the last alarm is current."""
        kind: Literal["group_held", "group_passed"] = "group_held" if holds_group(url, now) else "group_passed"
        self._send(Send("alarms", url, Alarm(kind=kind, group=url, size=now.group_size)))

    # Statuses

    def save(self, url: str, before: PageRow | None, now: PageRow) -> None:
        """Store the page, and notify followers and publish the status if these changed."""
        if before is not None and looks_alike(before, now) and not before.unsaid:
            self._pages.put(url, now)
            return
        if before is not None and (before.contained or now.contained):
            self._report_dropped(url, before, now)
        now = self._site_pages.counted(url, before, now)
        if now.follower_count and resolution(url, before, self._hops_max) != resolution(url, now, self._hops_max):
            now = self._spread(url, now)
        if holds_group(url, before) != holds_group(url, now):
            self._alarm(url, now)
        is_new = now.unsaid and (before is None or not same_vertex(before, now) or _awaits_answer(now))
        self._pages.put(url, now if is_new else self._publish(url, before, now))

    def put_if_known(self, url: str, page: PageRow) -> None:
        """Store the row, or delete it if the URL was never fetched and nothing is known of it: no page redirects to it
        or asks for it, and no operator's decision on it is in force."""
        is_needed = page.follower_count or page.asker_count or page.kept or page.same
        if page.version == UNKNOWN_VERSION and not is_needed:
            self._pages.delete(url)
        else:
            self._pages.put(url, page)

    def _report_dropped(self, url: str, before: PageRow, now: PageRow) -> None:
        """Report to tier 2 in which markets the vertex is dropped as contained, if that changed."""
        if now.kind != "content" or before.kind != "content" or not same_vertex(before, now):
            return
        markets = contained_markets(url, now)
        if markets != contained_markets(url, before):
            self._send(Send("tier2", now.home, ContainmentDropped(vertex_of(url, now), markets)))

    def _publish(self, url: str, before: PageRow | None, now: PageRow) -> PageRow:
        names = self._markets.names
        seen, unsaid = view(url, now, names, self._hops_max), before is not None and before.unsaid
        if seen is None or (not unsaid and before is not None and seen == view(url, before, names, self._hops_max)):
            return now
        now = replace(now, status_counter=now.status_counter + 1, unsaid=False)
        published = status(now, seen)
        self._send(Send("duplicate.status", url, published))
        self._updates.add(self._site_of(url), now.first_seen_ms, published)
        return now


def _awaits_answer(page: PageRow) -> bool:
    """Whether a revisiting page has had no answer yet."""
    return page.kind == "unknown" and page.revisit != "" and not page.answers
