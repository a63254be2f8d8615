"""The home of memberships: routes requests to the group that owns a vertex's membership.

- The highest counter names the owner. A request returned by a group that has passed on the membership is parked until
  the new owner is known.
- A vertex gets a group with its first edge; most pages never have one. Its membership enters the group of the vertex
  that it matches, and creates a group only if that group cannot be reached.
- A dead vertex has a `dying` row until its group confirms that it left.
- An operator's decision on a group is stored by the group's id, and sent to the group with the membership.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dustream.core.pages.publisher import PagePublisher
from dustream.core.pages.rows import DecisionRow, DyingRow, PageRow, ParkedRow, is_live, vertex_of, weight
from dustream.core.pages.site_pages import SiteOf
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.vertex import END, group_key, url_of
from dustream.schemas.groups import Create, Deliver
from dustream.schemas.pages import (
    Bounce,
    Dead,
    Decision,
    Edge,
    Enter,
    Hold,
    Join,
    Leave,
    Left,
    Request,
    Returned,
    Route,
    Sync,
    Unpark,
)
from dustream.schemas.sites import SiteDecision

ENTER_HOPS_MAX = 4  # memberships on their way that one membership may follow


class MembershipHomes:
    """The memberships of a task's pages."""

    def __init__(
        self, publisher: PagePublisher, site_of: SiteOf, unparked_max: int, send: Callable[[Send], None]
    ) -> None:
        self._publisher = publisher
        self._site_of = site_of
        self._unparked_max = unparked_max
        self._send = send

    def open(self, state: TaskState) -> None:
        self._pages: Table[PageRow] = state.table("pages")
        self._dying: Table[DyingRow] = state.table("dying")
        self._parked: Table[ParkedRow] = state.table("parked")
        self._decisions: Table[DecisionRow] = state.table("decisions")

    # Routing

    def on_route(self, message: Route) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is None or not is_live(page, message.vertex):
            self._answer_dead(message.vertex, message.request)
        else:
            self._route_and_keep(url, page, message.vertex, message.request)

    def _route_and_keep(self, url: str, page: PageRow, vertex: str, request: Request) -> None:
        now = self.route(url, page, vertex, request)
        if now is not page:
            self._pages.put(url, now)

    def route(self, url: str, page: PageRow, vertex: str, request: Request) -> PageRow:
        """Send a request to the group of a live vertex. Returns the page, which the caller stores."""
        if isinstance(request, Hold):  # a delayed Hold must not undo a later decision
            request = Hold(self._pass_from(url))
        if page.owner is not None:
            self._send(Send("groups", page.owner, Deliver(page.owner, vertex, page.membership_counter, request)))
            return page
        if not page.entering:
            if isinstance(request, Edge | Join):
                return self._enter(url, page, vertex, request)
            return self._make_group(url, page, vertex, request)
        if isinstance(request, Enter):
            self._send_after(page, request)
            return page
        return self._park(page, vertex, request)

    def _make_group(self, url: str, page: PageRow, vertex: str, request: Request) -> PageRow:
        """Create a group for the vertex and send the request to it."""
        owner, pass_from = group_key(0, vertex), self._pass_from(url)
        first = request if pass_from is None else Hold(pass_from)
        self._send(Send("groups", owner, Create(owner, vertex, first)))
        if first is not request:
            self._send(Send("groups", owner, Deliver(owner, vertex, page.membership_counter, request)))
        return replace(page, owner=owner)

    def bounce(self, message: Bounce) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is not None and is_live(page, vertex):
            if message.used < page.membership_counter:
                self._route_and_keep(url, page, vertex, message.request)
            else:
                self._pages.put(url, self._park(page, vertex, message.request))
        elif isinstance(message.request, Leave):
            self._bounce_leave(vertex, message.used)
        else:
            self._answer_dead(vertex, message.request)

    # Entering the first group

    def _enter(self, url: str, page: PageRow, vertex: str, request: Edge | Join) -> PageRow:
        via = request.other
        enter = Enter(vertex, via, request.similarity, self._pass_from(url))
        if isinstance(request, Edge):
            self._send(Send("pages", url_of(via), Route(via, enter)))
        else:
            self._send(Send("groups", request.group, Deliver(request.group, via, -1, enter)))
        return replace(page, entering=via)

    def _send_after(self, page: PageRow, enter: Enter) -> None:
        """The membership to join is itself entering a group: follow it, unless that leads back to this membership."""
        if page.entering == enter.other or enter.hops == ENTER_HOPS_MAX:
            self._give_back(enter, Edge(enter.via, enter.similarity))
        else:
            further = replace(enter, hops=enter.hops + 1)
            self._send(Send("pages", url_of(page.entering), Route(page.entering, further)))

    def _give_back(self, enter: Enter, request: Request) -> None:
        self._send(Send("pages", url_of(enter.other), Returned(enter.other, request)))

    def returned(self, message: Returned) -> None:
        """The vertex is alone again, or creates a group if requests are parked or the vertex it matches is alive."""
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not is_live(page, vertex):
            self._dying.delete(vertex)
            return
        before, page = page, replace(page, entering="")
        if page.parked_count or not isinstance(message.request, Dead):
            page = self._make_group(url, page, vertex, message.request)
        if page.parked_count:
            page = self._unpark(url, replace(page, unparking=page.parked_count), vertex)
        self._publisher.save(url, before, page)

    # Parked requests

    def _park(self, page: PageRow, vertex: str, request: Request) -> PageRow:
        self._parked.put(f"{vertex}{END}{page.parked_count:08x}", ParkedRow(request))
        return replace(page, parked_count=page.parked_count + 1)

    def _unpark(self, url: str, page: PageRow, vertex: str) -> PageRow:
        """Route the requests parked before the last Sync, in bounded steps. Later ones wait for the next Sync."""
        rows = rows_after(self._parked, vertex + END, "", self._unparked_max)
        due = [(key, row) for key, row in rows if int(key[len(vertex) + 1 :], 16) < page.unparking]
        for key, row in due:
            self._parked.delete(key)
            self.route(url, page, vertex, row.request)
        if len(due) == self._unparked_max:
            self._send(Send("pages", url, Unpark(vertex)))
            return page
        return replace(page, parked_count=0 if page.unparking == page.parked_count else page.parked_count, unparking=0)

    def _answer_parked(self, vertex: str) -> None:
        """Answer all parked requests of a dead vertex, in bounded steps."""
        rows = rows_after(self._parked, vertex + END, "", self._unparked_max)
        for key, row in rows:
            self._parked.delete(key)
            self._answer_dead(vertex, row.request)
        if len(rows) == self._unparked_max:
            self._send(Send("pages", url_of(vertex), Unpark(vertex)))

    def on_unpark(self, message: Unpark) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is not None and is_live(page, message.vertex):
            self._pages.put(url, self._unpark(url, page, message.vertex))
        else:
            self._answer_parked(message.vertex)

    # Owners

    def sync(self, message: Sync) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not is_live(page, vertex):
            self._sync_dying(message)
        elif message.counter > page.membership_counter:
            now = replace(
                page,
                owner=message.owner,
                membership_counter=message.counter,
                standing=message.standing,
                group_size=message.size,
                unparking=page.parked_count,
                entering="",
            )
            if page.parked_count and not page.unparking:  # else the steps under way include these requests
                now = self._unpark(url, now, vertex)
            self._publisher.save(url, page, now)

    def _sync_dying(self, message: Sync) -> None:
        dying = self._dying.get(message.vertex)
        if dying is None or message.counter <= dying.membership_counter:
            return
        self._dying.put(message.vertex, DyingRow(message.owner, message.counter))
        if dying.waiting:
            leave = Deliver(message.owner, message.vertex, message.counter, Leave())
            self._send(Send("groups", message.owner, leave))

    def left(self, message: Left) -> None:
        self._dying.delete(message.vertex)

    # Dead vertices

    def retire(self, page: PageRow, vertex: str) -> None:
        """The vertex is dead: its membership leaves its group, and its parked requests are answered."""
        if page.owner is not None:
            self._send(Send("groups", page.owner, Deliver(page.owner, vertex, page.membership_counter, Leave())))
            self._dying.put(vertex, DyingRow(page.owner, page.membership_counter))
        elif page.entering:
            self._dies_on_the_way(vertex)
        if page.parked_count and not page.unparking:
            self._answer_parked(vertex)

    def _dies_on_the_way(self, vertex: str) -> None:
        """The vertex leaves its group as soon as it is known which one it entered."""
        self._dying.put(vertex, DyingRow("", 0, waiting=True))

    def _answer_dead(self, vertex: str, request: Request) -> None:
        """Answer a request for a dead vertex. Only pending joins and entering memberships need an answer."""
        if isinstance(request, Join):
            self._send(Send("pages", url_of(request.other), Route(request.other, Dead(vertex))))
        elif isinstance(request, Enter):
            at_via = vertex == request.via
            self._give_back(request, Dead(vertex) if at_via else Edge(request.via, request.similarity))

    def _bounce_leave(self, vertex: str, used: int) -> None:
        dying = self._dying.get(vertex)
        if dying is None:
            return
        if used < dying.membership_counter:
            self._send(Send("groups", dying.owner, Deliver(dying.owner, vertex, dying.membership_counter, Leave())))
        else:
            self._dying.put(vertex, replace(dying, waiting=True))

    # Decisions

    def decision(self, message: Decision) -> None:
        """Store the decision whether or not the page is known yet: their order does not matter."""
        url, site = message.url, self._site_of(message.url)
        if message.on == "site":
            self._send(Send("sites", site, SiteDecision(site, message.version, message.pass_from is not None)))
            return
        known = self._decisions.get(url)
        if known is not None and weight(message) <= weight(known):
            return
        self._decisions.put(url, DecisionRow(message.version, message.pass_from))
        page = self._pages.get(url)
        if page is not None and page.kind == "content" and (page.owner is not None or page.entering):
            self._route_and_keep(url, page, vertex_of(url, page), Hold(message.pass_from))

    def _pass_from(self, url: str) -> float | None:
        row = self._decisions.get(url)
        return None if row is None else row.pass_from
