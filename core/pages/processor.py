"""The pages processor: each URL's state, the home of its token, and its published status. Keyed by URL.

Rules (docs/protocol.md):
- The latest fetch counts; of two with the same timestamp, the first in the log. A confirmation (`seen`) does not state
  what the page is, so it may come before or after the fetch that it confirms.
- A page that revisited another one asks it for the content found and takes the answer as its own (revisits.py). It
  keeps its state until the answer arrives.
- A content change too large for the rule for small changes (small_changes.py) makes a new vertex, which is stored in
  tier 2. The old vertex leaves its group and tier 2, and has a `dying` row until its group confirms that it left.
- Under the rule of representatives, a fetch is sent to its representative's record and returns with the verdict. Later
  fetches of the page take the same path meanwhile, so they return in order.
- A vertex gets a group with its first edge; most pages never have one. Its token enters the group of the vertex that it
  matches, and creates a group only if that group cannot be reached.
- Each token has its home here: requests for a vertex are routed by its page, and the highest counter names the owner.
  A request returned by a group that has passed on the token is parked until the new owner is known.
- Only this processor declares a vertex dead, and only it writes a URL's status. The status of new content is published
  after tier 2 has compared it; that of a page entering a group, after it has entered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from dustream.core.pages.former import FORMER_MAX, FormerRow
from dustream.core.pages.resolution import REDIRECT_HOPS_MAX, contained_markets, resolution
from dustream.core.pages.revisits import AskerRow, Revisits
from dustream.core.pages.rows import (
    UNKNOWN_VERSION,
    AnchorRow,
    CountRow,
    DecisionRow,
    DyingRow,
    FollowerRow,
    HomeRow,
    PageRow,
    ParkedRow,
    bare,
    home_key,
    vertex_of,
    weight,
)
from dustream.core.pages.site_pages import PAGES_UPDATED_MAX, LostRow, SiteHoldRow, SiteOf, SitePages
from dustream.core.pages.small_changes import (
    EXACT,
    ByAnchor,
    ByRepresentative,
    SmallChanges,
    finds_same,
    representative_of,
)
from dustream.core.pages.status import MEMBERS_MAX, ClusterUpdates, holds_group, looks_alike, status, view
from dustream.core.partitioning import PartitionMap, tie_of
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.vertex import END, content_name, group_key, url_of, vertex_name
from dustream.core.winners import Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.groups import Create, Deliver
from dustream.schemas.pages import (
    Answer,
    AnswerOn,
    Ask,
    Bounce,
    Consult,
    Consulted,
    Contained,
    ContinueSite,
    Crawl,
    Dead,
    Decision,
    Edge,
    Enter,
    Follow,
    Hold,
    Join,
    Leave,
    Left,
    Placed,
    Request,
    Resolved,
    Returned,
    Route,
    SiteHeld,
    Spread,
    Standing,
    Star,
    Sync,
    Unask,
    Unfollow,
    Unpark,
    Verdict,
)
from dustream.schemas.signature import PageSignature
from dustream.schemas.sites import SiteDecision
from dustream.schemas.tier2 import ContainmentDropped, Rekey, Remove, StoreVertex

FOLLOWERS_NOTIFIED_MAX = 1_000  # followers notified in one step
UNPARKED_MAX = 1_000  # requests of one vertex in one step
ENTER_HOPS_MAX = 4  # tokens on their way that one token may follow

TABLES: dict[str, Any] = {
    "pages": PageRow,
    "followers": FollowerRow,
    "dying": DyingRow,
    "parked": ParkedRow,
    "anchors": AnchorRow,
    "counts": CountRow,
    "homes": HomeRow,
    "decisions": DecisionRow,
    "lost": LostRow,
    "site_holds": SiteHoldRow,
    "former": FormerRow,
    "askers": AskerRow,
}


class PagesProcessor:
    """One task of `pages`."""

    def __init__(
        self,
        partition_map: PartitionMap,
        markets: Markets,
        site_of: SiteOf,
        *,
        small_changes: SmallChanges = EXACT,
        redirect_hops_max: int = REDIRECT_HOPS_MAX,
        followers_notified_max: int = FOLLOWERS_NOTIFIED_MAX,
        site_pages_updated_max: int = PAGES_UPDATED_MAX,
        update_members_max: int = MEMBERS_MAX,
        unparked_max: int = UNPARKED_MAX,
        former_max: int = FORMER_MAX,
    ) -> None:
        self._map = partition_map
        self._markets = markets
        self._site_of = site_of
        self._small_changes = small_changes
        self._hops_max = redirect_hops_max
        self._followers_notified_max = followers_notified_max
        self._site_pages = SitePages(site_of, len(markets.names), site_pages_updated_max)
        self._updates = ClusterUpdates(update_members_max)
        self._unparked_max = unparked_max
        self._out: list[Send] = []
        self._revisits = Revisits(partition_map, followers_notified_max, former_max, self._send)
        self._counted: Counter[str] = Counter()
        self._homed: Counter[int] = Counter()
        self._remapped: Counter[int] = Counter()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Crawl: self._crawl,
            Consult: self._consult,
            Consulted: self._consulted,
            Route: self._on_route,
            Bounce: self._bounce,
            Returned: self._returned,
            Sync: self._sync,
            Placed: self._placed,
            Star: self._star,
            Contained: self._contained,
            Left: self._left,
            Follow: self._follow,
            Unfollow: self._unfollow,
            Resolved: self._resolved,
            Ask: self._on_ask,
            Unask: self._unask,
            Answer: self._answer,
            AnswerOn: self._answer_on,
            Spread: self._on_spread,
            Decision: self._decision,
            SiteHeld: self._site_held,
            ContinueSite: self._update_site,
            Unpark: self._on_unpark,
        }

    def open(self, state: TaskState) -> None:
        self._partition = state.partition
        self._pages: Table[PageRow] = state.table("pages")
        self._followers: Table[FollowerRow] = state.table("followers")
        self._dying: Table[DyingRow] = state.table("dying")
        self._parked: Table[ParkedRow] = state.table("parked")
        self._anchors: Table[AnchorRow] = state.table("anchors")
        self._counts: Table[CountRow] = state.table("counts")
        self._homes: Table[HomeRow] = state.table("homes")
        self._decisions: Table[DecisionRow] = state.table("decisions")
        self._site_pages.open(state)
        self._revisits.open(state)

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        self._out = []
        self._counted.clear()
        self._homed.clear()
        self._remapped.clear()
        for message in messages:
            self._handlers[type(message)](message)
        for name, count in self._counted.items():
            before = self._counts.get(name)
            self._counts.put(name, CountRow(count + (before.count if before else 0)))
        self._count_homes()
        self._out += self._site_pages.tallies()
        self._out += self._updates.drain()
        return self._out

    def _count_homes(self) -> None:
        for home in sorted(self._homed.keys() | self._remapped.keys()):
            row = self._homes.get(home_key(home)) or HomeRow(0, 0)
            row = HomeRow(row.pages + self._homed[home], row.remapped + self._remapped[home])
            self._homes.put(home_key(home), row)

    def _send(self, send: Send) -> None:
        self._out.append(send)

    # A fetch

    def _crawl(self, crawl: Crawl) -> None:
        page = self._pages.get(crawl.url)
        asked = None if page is None else self._representative_to_consult(page, crawl)
        if page is None or asked is None:
            self._take(page, crawl, None)
        else:
            self._pages.put(crawl.url, replace(page, consulted=asked, consulted_count=page.consulted_count + 1))
            self._out.append(Send("pages", asked, Consult(asked, crawl)))

    def _take(self, page: PageRow | None, crawl: Crawl, verdict: Verdict | None) -> None:
        """Apply a fetch, with its representative's verdict if there is one."""
        url = crawl.url
        if END in url or END in (crawl.target or ""):
            self._counted["refused"] += 1
            return
        if page is None or page.version == UNKNOWN_VERSION:
            self._counted["new"] += 1
            first = replace(page or PageRow(UNKNOWN_VERSION, 0), version=crawl.version, first_seen_ms=crawl.version)
            self._save(url, page, self._become(_with_popularity(first, crawl), crawl))
        elif crawl.kind == "seen" or crawl.version <= page.found_at:
            self._stay(url, page, crawl)
        else:
            self._update(url, page, crawl, verdict)
        if page is not None and page.asker_count:
            now = self._pages.get(url)
            assert now is not None
            self._pages.put(url, self._revisits.answer(url, now))

    def _stay(self, url: str, page: PageRow, crawl: Crawl) -> None:
        """Apply a fetch that does not change the page: it confirms the state, or a later fetch is known."""
        newest = page.version if crawl.kind == "seen" else page.found_at
        now = _with_popularity(replace(page, version=max(page.version, crawl.version)), crawl)
        if crawl.version > newest:
            self._counted["unchanged"] += 1
        elif crawl.version == newest:
            self._counted["repeated" if finds_same(page, crawl) else "conflicting"] += 1
        else:
            self._counted["late"] += 1
            if crawl.kind == "content":
                now = self._revisits.note_late(url, now, crawl)
            elif crawl.kind == "revisit":
                self._revisits.note_revisit(url, crawl.version)
        self._rekey(url, page, now)
        self._pages.put(url, now)

    def _update(self, url: str, page: PageRow, crawl: Crawl, verdict: Verdict | None) -> None:
        now = replace(page, version=max(page.version, crawl.version), found_at=crawl.version)
        now = replace(now, canonical=crawl.canonical, truncated=crawl.truncated)
        now = _with_popularity(now, crawl)
        if crawl.kind == "revisit" and page.kind == "content":
            self._counted["revisit"] += 1
            self._rekey(url, page, now)
            self._save(url, page, self._revisit_again(url, page, now, crawl))
            return
        settled = self._settled(url, page, now, crawl, verdict)
        if settled is not None:
            self._rekey(url, page, settled)
            same = settled.truncated == page.truncated and settled.canonical == page.canonical
            if settled.verdicts is page.verdicts and same:
                self._pages.put(url, settled)
            else:
                self._save(url, page, settled)
            return
        self._counted[crawl.kind if crawl.kind != "content" else "changed"] += 1
        self._retire(url, page)
        now = self._become(bare(now), crawl)
        if page.kind == now.kind == "content" and now.home != page.home:
            self._remapped[now.home] += 1
        self._save(url, page, now)

    # Fetches that keep the page's vertex

    def _settled(self, url: str, page: PageRow, now: PageRow, crawl: Crawl, verdict: Verdict | None) -> PageRow | None:
        """The page after a fetch that keeps its vertex; None if the page needs a new one."""
        if crawl.kind != "revisit" and finds_same(page, crawl):
            self._counted["unchanged"] += 1
            return replace(now, last_digest=crawl.digest)
        if page.kind != "content" or page.revisit or crawl.signature is None:
            return None
        now = replace(now, content_hash=crawl.signature.content_hash, last_digest=crawl.digest, anchored=True)
        if isinstance(self._small_changes, ByAnchor):
            return now if self._stands(self._small_changes, url, crawl.signature) else None
        return self._represented(self._small_changes, url, page, now, crawl.signature, verdict)

    def _stands(self, rule: ByAnchor, url: str, signature: PageSignature) -> bool:
        anchor = self._anchors.get(url) if rule.keeps_shingles else None
        if anchor is None or not rule.stands_for(anchor.shingles, signature):
            return False
        self._counted["settled_by_anchor"] += 1
        return True

    def _represented(
        self,
        rule: ByRepresentative,
        url: str,
        page: PageRow,
        now: PageRow,
        signature: PageSignature,
        verdict: Verdict | None,
    ) -> PageRow | None:
        """Apply the representative's verdict, if it is still the page's winner."""
        representative = representative_of(page)
        if representative == url:
            verdict = self._compare(rule, url, page, signature)
        if verdict is None or representative not in (url, verdict.winner):
            return None
        self._counted["settled_by_representative"] += 1
        self._anchors.put(url, AnchorRow(signature.shingles))
        return now if representative == url else replace(now, verdicts=(verdict, *page.verdicts[1:]))

    def _compare(self, rule: ByRepresentative, url: str, page: PageRow, signature: PageSignature) -> Verdict | None:
        anchor = self._anchors.get(url)
        return None if anchor is None else rule.verdict(url, page, anchor.shingles, signature)

    def _representative_to_consult(self, page: PageRow, crawl: Crawl) -> str | None:
        """The representative to send a fetch to; the same as for earlier fetches that have not returned."""
        if page.consulted_count:
            return page.consulted
        if not isinstance(self._small_changes, ByRepresentative) or crawl.kind != "content":
            return None
        representative = representative_of(page)
        if representative == crawl.url or crawl.version <= page.found_at or finds_same(page, crawl):
            return None
        return representative

    def _consult(self, message: Consult) -> None:
        page, signature = self._pages.get(message.url), message.crawl.signature
        verdict = None
        if page is not None and page.kind == "content" and signature is not None:
            assert isinstance(self._small_changes, ByRepresentative)
            verdict = self._compare(self._small_changes, message.url, page, signature)
        self._out.append(Send("pages", message.crawl.url, Consulted(message.url, message.crawl, verdict)))

    def _consulted(self, message: Consulted) -> None:
        page = self._pages.get(message.crawl.url)
        assert page is not None and page.consulted == message.representative
        left = page.consulted_count - 1
        page = replace(page, consulted=page.consulted if left else "", consulted_count=left)
        self._pages.put(message.crawl.url, page)
        self._take(page, message.crawl, message.verdict)

    def _rekey(self, url: str, before: PageRow, now: PageRow) -> None:
        """Send new winner keys to tier 2 if the page's popularity or canonical link changed them."""
        unchanged = (now.popularity, now.canonical) == (before.popularity, before.canonical)
        if now.kind != "content" or unchanged:
            return
        vertex = vertex_of(url, now)
        keys = self._markets.keys(url, now, vertex)
        if keys != self._markets.keys(url, before, vertex):
            self._out.append(Send("tier2", now.home, Rekey(vertex, keys)))

    def _retire(self, url: str, page: PageRow) -> None:
        """Withdraw everything that depends on the page's previous state."""
        if page.kind == "redirect":
            self._out.append(Send("pages", page.target, Unfollow(page.target, url, page.epoch)))
        if page.revisit:
            self._out.append(Send("pages", page.revisit, Unask(page.revisit, url, page.found_at)))
        elif page.kind == "content":
            self._revisits.supersede(url, page)
        if page.kind == "content":
            self._retire_vertex(url, page)

    def _retire_vertex(self, url: str, page: PageRow) -> None:
        vertex = vertex_of(url, page)
        self._out.append(Send("tier2", page.home, Remove(vertex, self._revisits.is_kept(url, page, vertex))))
        self._homed[page.home] -= 1
        if page.owner is not None:
            self._out.append(Send("groups", page.owner, Deliver(page.owner, vertex, page.token_counter, Leave())))
            self._dying.put(vertex, DyingRow(page.owner, page.token_counter))
        elif page.entering:
            self._dies_on_the_way(vertex)
        if page.parked_count and not page.unparking:
            self._answer_parked(vertex)

    def _become(self, page: PageRow, crawl: Crawl) -> PageRow:
        """The page as the fetch found it; `page` has no content or target yet."""
        if crawl.kind == "seen":
            return page
        self._forget_anchor(crawl.url)
        page = replace(page, found_at=crawl.version)
        if crawl.kind == "content":
            return self._store(page, crawl)
        if crawl.kind == "revisit":
            return replace(self._ask(page, crawl), unsaid=True)
        page = replace(page, kind=crawl.kind, epoch=crawl.version, origin=crawl.origin)
        if crawl.kind == "redirect":
            assert crawl.target is not None
            self._out.append(Send("pages", crawl.target, Follow(crawl.target, crawl.url, crawl.version)))
            return replace(page, target=crawl.target, via=crawl.via)
        return page

    def _store(self, page: PageRow, crawl: Crawl) -> PageRow:
        """Store a new vertex: alone and its own winner until tier 2 has compared it."""
        url, epoch, signature = crawl.url, crawl.version, crawl.signature
        assert signature is not None
        turn = page.turn + 1 if page.epoch == epoch else 0
        vertex = vertex_name(page.first_seen_ms, url, epoch, turn)
        home, probes = self._map.route(shingle_array(signature.shingles), tie_of(url), signature.lang)
        page = replace(page, canonical=crawl.canonical)
        keys = self._markets.keys(url, page, vertex)
        self._out.append(Send("tier2", home, StoreVertex(vertex, signature, keys, probes)))
        self._homed[home] += 1
        if self._small_changes.keeps_shingles:
            self._anchors.put(url, AnchorRow(signature.shingles))
        return replace(
            page,
            kind="content",
            epoch=epoch,
            turn=turn,
            first_at=epoch,
            first_digest=crawl.digest,
            last_digest=crawl.digest,
            origin=crawl.origin,
            content_hash=signature.content_hash,
            truncated=crawl.truncated,
            home=home,
            standing=Standing(url, True),
            verdicts=(Verdict(url),) * len(keys),
            unsaid=True,
        )

    def _forget_anchor(self, url: str) -> None:
        if self._small_changes.keeps_shingles:
            self._anchors.delete(url)

    # Revisits

    def _ask(self, page: PageRow, crawl: Crawl) -> PageRow:
        """Ask the revisited page for its content. Returns the page as it is until the answer arrives."""
        assert crawl.target is not None
        self._revisits.note_revisit(crawl.url, crawl.version)
        self._out.append(Send("pages", crawl.target, Ask(crawl.target, crawl.url, crawl.version, crawl.digest)))
        return replace(page, revisit=crawl.target, answers=0, origin=crawl.origin)

    def _revisit_again(self, url: str, page: PageRow, now: PageRow, crawl: Crawl) -> PageRow:
        """A content page keeps its content until the answer shows whether it is the one found."""
        if not page.revisit:
            self._revisits.supersede(url, page)
        elif page.revisit != crawl.target:
            self._out.append(Send("pages", page.revisit, Unask(page.revisit, url, page.found_at)))
        return self._ask(now, crawl)

    def _answer(self, message: Answer) -> None:
        url, signature = message.url, message.signature
        page = self._pages.get(url)
        if page is None or not page.revisit or page.found_at != message.version or message.number <= page.answers:
            return
        is_same = signature is not None and not page.anchored and page.content_hash == signature.content_hash
        if page.kind == "content" and is_same:
            self._pages.put(url, replace(page, answers=message.number))
            return
        if page.kind == "content":
            self._retire_vertex(url, page)
            self._forget_anchor(url)
        now = replace(bare(page), revisit=page.revisit, answers=message.number, origin=page.origin)
        now = replace(now, epoch=page.epoch, turn=page.turn, unsaid=page.unsaid)
        if signature is not None:
            found = Crawl(url, page.found_at, "content", signature, origin=page.origin)
            now = self._store(now, found)
        self._save(url, page, now)

    def _on_ask(self, message: Ask) -> None:
        self._pages.put(message.url, self._revisits.ask(message, self._pages.get(message.url)))

    def _unask(self, message: Unask) -> None:
        page = self._pages.get(message.url)
        if page is not None:
            self._put_if_known(message.url, self._revisits.unask(message, page))

    def _answer_on(self, message: AnswerOn) -> None:
        page = self._pages.get(message.url)
        if page is not None:
            self._pages.put(message.url, self._revisits.answer_on(message.url, page))

    def _put_if_known(self, url: str, page: PageRow) -> None:
        """Store the row, or delete it if the URL was never fetched and no page redirects to it or asks for it."""
        if page.version == UNKNOWN_VERSION and not page.follower_count and not page.asker_count:
            self._pages.delete(url)
        else:
            self._pages.put(url, page)

    # The token's home

    def _on_route(self, message: Route) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is None or not _is_live(page, message.vertex):
            self._answer_dead(message.vertex, message.request)
        else:
            self._route_and_keep(url, page, message.vertex, message.request)

    def _route_and_keep(self, url: str, page: PageRow, vertex: str, request: Request) -> None:
        now = self._route(url, page, vertex, request)
        if now is not page:
            self._pages.put(url, now)

    def _route(self, url: str, page: PageRow, vertex: str, request: Request) -> PageRow:
        """Send a request to the group of a live vertex. Returns the page, which the caller stores."""
        if isinstance(request, Hold):  # a delayed Hold must not undo a later decision
            request = Hold(self._pass_from(url))
        if page.owner is not None:
            self._out.append(Send("groups", page.owner, Deliver(page.owner, vertex, page.token_counter, request)))
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
        self._out.append(Send("groups", owner, Create(owner, vertex, first)))
        if first is not request:
            self._out.append(Send("groups", owner, Deliver(owner, vertex, page.token_counter, request)))
        return replace(page, owner=owner)

    # Entering the first group

    def _enter(self, url: str, page: PageRow, vertex: str, request: Edge | Join) -> PageRow:
        via = request.other
        enter = Enter(vertex, via, request.similarity, self._pass_from(url))
        if isinstance(request, Edge):
            self._out.append(Send("pages", url_of(via), Route(via, enter)))
        else:
            self._out.append(Send("groups", request.group, Deliver(request.group, via, -1, enter)))
        return replace(page, entering=via)

    def _send_after(self, page: PageRow, enter: Enter) -> None:
        """The token to join is itself entering a group: follow it, unless that leads back to this token."""
        if page.entering == enter.other or enter.hops == ENTER_HOPS_MAX:
            self._give_back(enter, Edge(enter.via, enter.similarity))
        else:
            further = replace(enter, hops=enter.hops + 1)
            self._out.append(Send("pages", url_of(page.entering), Route(page.entering, further)))

    def _give_back(self, enter: Enter, request: Request) -> None:
        self._out.append(Send("pages", url_of(enter.other), Returned(enter.other, request)))

    def _returned(self, message: Returned) -> None:
        """The token is alone again, or creates a group if requests are parked or the vertex it matches is alive."""
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not _is_live(page, vertex):
            self._dying.delete(vertex)
            return
        before, page = page, replace(page, entering="")
        if page.parked_count or not isinstance(message.request, Dead):
            page = self._make_group(url, page, vertex, message.request)
        if page.parked_count:
            page = self._unpark(url, replace(page, unparking=page.parked_count), vertex)
        self._save(url, before, page)

    def _dies_on_the_way(self, vertex: str) -> None:
        """The vertex leaves its group as soon as it is known which one it entered."""
        self._dying.put(vertex, DyingRow("", 0, waiting=True))

    def _answer_dead(self, vertex: str, request: Request) -> None:
        """Answer a request for a dead vertex. Only pending joins and entering tokens need an answer."""
        if isinstance(request, Join):
            self._out.append(Send("pages", url_of(request.other), Route(request.other, Dead(vertex))))
        elif isinstance(request, Enter):
            at_via = vertex == request.via
            self._give_back(request, Dead(vertex) if at_via else Edge(request.via, request.similarity))

    def _bounce(self, message: Bounce) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is not None and _is_live(page, vertex):
            if message.used < page.token_counter:
                self._route_and_keep(url, page, vertex, message.request)
            else:
                self._pages.put(url, self._park(page, vertex, message.request))
        elif isinstance(message.request, Leave):
            self._bounce_leave(vertex, message.used)
        else:
            self._answer_dead(vertex, message.request)

    def _park(self, page: PageRow, vertex: str, request: Request) -> PageRow:
        self._parked.put(f"{vertex}{END}{page.parked_count:08x}", ParkedRow(request))
        return replace(page, parked_count=page.parked_count + 1)

    def _unpark(self, url: str, page: PageRow, vertex: str) -> PageRow:
        """Route the requests parked before the last Sync, in bounded steps. Later ones wait for the next Sync."""
        rows = rows_after(self._parked, vertex + END, "", self._unparked_max)
        due = [(key, row) for key, row in rows if int(key[len(vertex) + 1 :], 16) < page.unparking]
        for key, row in due:
            self._parked.delete(key)
            self._route(url, page, vertex, row.request)
        if len(due) == self._unparked_max:
            self._out.append(Send("pages", url, Unpark(vertex)))
            return page
        return replace(page, parked_count=0 if page.unparking == page.parked_count else page.parked_count, unparking=0)

    def _answer_parked(self, vertex: str) -> None:
        """Answer all parked requests of a dead vertex, in bounded steps."""
        rows = rows_after(self._parked, vertex + END, "", self._unparked_max)
        for key, row in rows:
            self._parked.delete(key)
            self._answer_dead(vertex, row.request)
        if len(rows) == self._unparked_max:
            self._out.append(Send("pages", url_of(vertex), Unpark(vertex)))

    def _on_unpark(self, message: Unpark) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is not None and _is_live(page, message.vertex):
            self._pages.put(url, self._unpark(url, page, message.vertex))
        else:
            self._answer_parked(message.vertex)

    def _bounce_leave(self, vertex: str, used: int) -> None:
        dying = self._dying.get(vertex)
        if dying is None:
            return
        if used < dying.token_counter:
            self._out.append(Send("groups", dying.owner, Deliver(dying.owner, vertex, dying.token_counter, Leave())))
        else:
            self._dying.put(vertex, replace(dying, waiting=True))

    def _sync(self, message: Sync) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not _is_live(page, vertex):
            self._sync_dying(message)
        elif message.counter > page.token_counter:
            now = replace(
                page,
                owner=message.owner,
                token_counter=message.counter,
                standing=message.standing,
                group_size=message.size,
                unparking=page.parked_count,
                entering="",
            )
            if page.parked_count and not page.unparking:  # else the steps under way include these requests
                now = self._unpark(url, now, vertex)
            self._save(url, page, now)

    def _sync_dying(self, message: Sync) -> None:
        dying = self._dying.get(message.vertex)
        if dying is None or message.counter <= dying.token_counter:
            return
        self._dying.put(message.vertex, DyingRow(message.owner, message.counter))
        if dying.waiting:
            leave = Deliver(message.owner, message.vertex, message.counter, Leave())
            self._out.append(Send("groups", message.owner, leave))

    def _left(self, message: Left) -> None:
        self._dying.delete(message.vertex)

    def _placed(self, message: Placed) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not _is_live(page, vertex):
            return
        now = page
        for market, verdict in message.verdicts:
            now = _with_verdict(now, market, verdict)
        for edge in message.edges:
            now = self._route(url, now, vertex, edge)
        self._save_or_wait(url, page, now)

    def _star(self, message: Star) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is None or not _is_live(page, message.vertex) or page.verdicts[message.market] == message.verdict:
            return
        self._save_or_wait(url, page, _with_verdict(page, message.market, message.verdict))

    def _save_or_wait(self, url: str, page: PageRow, now: PageRow) -> None:
        """While the page enters a group, its status is published together with the group, unless other pages depend on
        it: followers, or a container."""
        if now.entering and not now.follower_count and not now.contained:
            self._pages.put(url, now if now.unsaid else replace(now, unsaid=True))
        else:
            self._save(url, page, now)

    def _contained(self, message: Contained) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is not None and _is_live(page, message.vertex):
            known = page.contained or (None,) * len(page.verdicts)
            contained = (*known[: message.market], message.verdict, *known[message.market + 1 :])
            self._save(url, page, replace(page, contained=contained if any(contained) else ()))

    # The circuit breaker

    def _decision(self, message: Decision) -> None:
        """Store the decision whether or not the page is known yet: their order does not matter."""
        url, site = message.url, self._site_of(message.url)
        if message.on == "site":
            self._out.append(Send("sites", site, SiteDecision(site, message.version, message.pass_from is not None)))
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

    def _site_held(self, message: SiteHeld) -> None:
        if self._site_pages.set_held(message):
            self._update_site(ContinueSite(message.site))

    def _update_site(self, message: ContinueSite) -> None:
        urls, markets, more = self._site_pages.next_to_update(message.site)
        for url in urls:
            page = self._pages.get(url)
            assert page is not None
            if page.site_held != page.lost & markets:
                self._save(url, page, replace(page, site_held=page.lost & markets))
        if more:
            self._out.append(Send("pages", self._partition, message))

    def _alarm(self, url: str, now: PageRow) -> None:
        """A group's eldest member sends its alarms: with one writer per group id, the last alarm is current."""
        kind: Literal["group_held", "group_passed"] = "group_held" if holds_group(url, now) else "group_passed"
        self._out.append(Send("alarms", url, Alarm(kind=kind, group=url, size=now.group_size)))

    # Redirects

    def _follow(self, message: Follow) -> None:
        url = message.url
        page = self._pages.get(url)
        key = f"{url}{END}{message.follower}"
        now = page or PageRow(UNKNOWN_VERSION, 0)
        if self._followers.get(key) is None:
            now = replace(now, follower_count=now.follower_count + 1)
            self._pages.put(url, now)
        self._followers.put(key, FollowerRow(message.epoch))
        answer = Resolved(message.follower, message.epoch, resolution(url, now, self._hops_max))
        self._out.append(Send("pages", message.follower, answer))

    def _unfollow(self, message: Unfollow) -> None:
        key = f"{message.url}{END}{message.follower}"
        row = self._followers.get(key)
        page = self._pages.get(message.url)
        if row is None or page is None or row.epoch != message.epoch:
            return
        self._followers.delete(key)
        self._put_if_known(message.url, replace(page, follower_count=page.follower_count - 1))

    def _resolved(self, message: Resolved) -> None:
        page = self._pages.get(message.url)
        if page is not None and page.kind == "redirect" and page.epoch == message.epoch:
            self._save(message.url, page, replace(page, upstream=message.resolution))

    def _spread(self, url: str, page: PageRow) -> PageRow:
        """Notify all followers, in bounded steps. A change during the steps restarts at the first follower."""
        if page.spread_after is not None:
            return replace(page, spread_after="")
        if page.follower_count > self._followers_notified_max:
            self._out.append(Send("pages", url, Spread(url)))
            return replace(page, spread_after="")
        self._notify_followers(url, page, "")
        return page

    def _on_spread(self, message: Spread) -> None:
        page = self._pages.get(message.url)
        if page is None or page.spread_after is None:
            return
        last = self._notify_followers(message.url, page, page.spread_after)
        self._pages.put(message.url, replace(page, spread_after=last))
        if last is not None:
            self._out.append(Send("pages", message.url, Spread(message.url)))

    def _notify_followers(self, url: str, page: PageRow, after: str) -> str | None:
        """Notify some followers after `after`. Returns the last one if there may be more."""
        prefix = url + END
        rows = rows_after(self._followers, prefix, after, self._followers_notified_max)
        way = resolution(url, page, self._hops_max)
        for key, row in rows:
            follower = key[len(prefix) :]
            self._out.append(Send("pages", follower, Resolved(follower, row.epoch, way)))
        return rows[-1][0][len(prefix) :] if len(rows) == self._followers_notified_max else None

    # Publishing

    def _save(self, url: str, before: PageRow | None, now: PageRow) -> None:
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
        is_new = now.unsaid and (before is None or not _same_vertex(before, now) or _awaits_answer(now))
        self._pages.put(url, now if is_new else self._publish(url, before, now))

    def _report_dropped(self, url: str, before: PageRow, now: PageRow) -> None:
        """Report to tier 2 in which markets the vertex is dropped as contained, if that changed."""
        if now.kind != "content" or before.kind != "content" or not _same_vertex(before, now):
            return
        markets = contained_markets(url, now)
        if markets != contained_markets(url, before):
            self._out.append(Send("tier2", now.home, ContainmentDropped(vertex_of(url, now), markets)))

    def _publish(self, url: str, before: PageRow | None, now: PageRow) -> PageRow:
        names = self._markets.names
        seen, unsaid = view(url, now, names, self._hops_max), before is not None and before.unsaid
        if seen is None or (not unsaid and before is not None and seen == view(url, before, names, self._hops_max)):
            return now
        now = replace(now, status_counter=now.status_counter + 1, unsaid=False)
        published = status(now, seen)
        self._out.append(Send("duplicate.status", url, published))
        self._updates.add(self._site_of(url), published)
        return now


def _with_verdict(page: PageRow, market: int, verdict: Verdict) -> PageRow:
    return replace(page, verdicts=(*page.verdicts[:market], verdict, *page.verdicts[market + 1 :]))


def _with_popularity(page: PageRow, crawl: Crawl) -> PageRow:
    """The latest popularity counts, whatever the fetch found."""
    if crawl.popularity is None or crawl.version <= page.popularity_at:
        return page
    return replace(page, popularity=crawl.popularity, popularity_at=crawl.version)


def _is_live(page: PageRow, vertex: str) -> bool:
    return page.kind == "content" and vertex[vertex.rindex(" ") + 1 :] == content_name(page.epoch, page.turn)


def _same_vertex(before: PageRow, now: PageRow) -> bool:
    return before.epoch == now.epoch and before.turn == now.turn


def _awaits_answer(page: PageRow) -> bool:
    """Whether a revisiting page has had no answer yet."""
    return page.kind == "unknown" and page.revisit != "" and not page.answers
