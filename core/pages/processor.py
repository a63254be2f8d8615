"""The pages processor: each URL's state, the home of its membership, and its published status. Keyed by URL.

Rules (docs/explanation/protocol.md):
- The latest fetch counts; of two with the same timestamp, the first in the log. A confirmation (`seen`) does not state
  what the page is, so it may come before or after the fetch that it confirms.
- A page that revisited another one asks it for the content found and takes the answer as its own (revisits.py). It
  keeps its state until the answer arrives.
- A content change too large for the rule for small changes (small_changes.py) makes a new vertex, which is stored in
  tier 2. The old vertex leaves its group and tier 2, and has a `dying` row until its group confirms that it left.
- Under the rule of representatives, a fetch is sent to its representative's record and returns with the verdict. Later
  fetches of the page take the same path meanwhile, so they return in order.
- Each membership has its home here: requests for a vertex are routed by its page (memberships.py).
- Only this processor declares a vertex dead, and only it writes a URL's status (publisher.py). The status of new
  content is published after tier 2 has compared it; that of a page entering a group, after it has entered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from dustream.core.pages.decisions import Decisions
from dustream.core.pages.former import FormerRow
from dustream.core.pages.memberships import MembershipHomes
from dustream.core.pages.publisher import PagePublisher, PagesLimits
from dustream.core.pages.revisits import AskerRow, Revisits
from dustream.core.pages.rows import (
    UNKNOWN_VERSION,
    AnchorRow,
    CountRow,
    DecisionRow,
    DyingRow,
    FollowerRow,
    HomeRow,
    PageDecisionRow,
    PageRow,
    PairDecisionRow,
    ParkedRow,
    bare,
    home_key,
    is_live,
    vertex_of,
)
from dustream.core.pages.site_pages import LostRow, SiteHoldRow, SiteOf
from dustream.core.pages.small_changes import (
    EXACT,
    ByAnchor,
    ByRepresentative,
    SmallChanges,
    finds_same,
    representative_of,
)
from dustream.core.partitioning import PartitionMap, tie_of
from dustream.core.processor import Send, Table, TaskState
from dustream.core.text.shingle_bytes import shingle_array, shingle_count
from dustream.core.vertex import END, url_of, vertex_name
from dustream.core.winners import Markets
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
    Decision,
    Follow,
    Left,
    PageDecision,
    PairDecision,
    Placed,
    Resolved,
    Returned,
    Route,
    RuleDecision,
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
from dustream.schemas.tier2 import Rekey, Remove, Renew, StoreVertex

TABLES: dict[str, Any] = {
    "pages": PageRow,
    "followers": FollowerRow,
    "dying": DyingRow,
    "parked": ParkedRow,
    "anchors": AnchorRow,
    "counts": CountRow,
    "homes": HomeRow,
    "decisions": DecisionRow,
    "page_decisions": PageDecisionRow,
    "pair_decisions": PairDecisionRow,
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
        limits: PagesLimits = PagesLimits(),  # noqa: B008 - a value
    ) -> None:
        self._map = partition_map
        self._markets = markets
        self._small_changes = small_changes
        self._out: list[Send] = []
        self._publisher = PagePublisher(markets, site_of, limits, self._send)
        self._memberships = MembershipHomes(self._publisher, site_of, limits.unparked_max, self._send)
        self._decisions = Decisions(self._publisher, site_of, self._renew, self._send)
        self._revisits = Revisits(partition_map, limits.followers_notified_max, limits.former_max, self._send)
        self._counted: Counter[str] = Counter()
        self._homed: Counter[int] = Counter()
        self._remapped: Counter[int] = Counter()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Crawl: self._crawl,
            Consult: self._consult,
            Consulted: self._consulted,
            Route: self._memberships.on_route,
            Bounce: self._memberships.bounce,
            Returned: self._memberships.returned,
            Sync: self._memberships.sync,
            Placed: self._placed,
            Star: self._star,
            Contained: self._contained,
            Left: self._memberships.left,
            Follow: self._publisher.follow,
            Unfollow: self._publisher.unfollow,
            Resolved: self._publisher.resolved,
            Ask: self._on_ask,
            Unask: self._unask,
            Answer: self._answer,
            AnswerOn: self._answer_on,
            Spread: self._publisher.on_spread,
            Decision: self._memberships.decision,
            PageDecision: self._decisions.on_page,
            PairDecision: self._decisions.on_pair,
            RuleDecision: self._decisions.on_rule,
            SiteHeld: self._publisher.site_held,
            ContinueSite: self._publisher.update_site,
            Unpark: self._memberships.on_unpark,
        }

    def open(self, state: TaskState) -> None:
        self._pages: Table[PageRow] = state.table("pages")
        self._anchors: Table[AnchorRow] = state.table("anchors")
        self._counts: Table[CountRow] = state.table("counts")
        self._homes: Table[HomeRow] = state.table("homes")
        self._publisher.open(state)
        self._memberships.open(state)
        self._decisions.open(state)
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
        self._out += self._publisher.drain()
        return self._out

    def _count_homes(self) -> None:
        for home in sorted(self._homed.keys() | self._remapped.keys()):
            row = self._homes.get(home_key(home)) or HomeRow(0, 0)
            row = HomeRow(row.pages + self._homed[home], row.remapped + self._remapped[home])
            self._homes.put(home_key(home), row)

    def _send(self, send: Send) -> None:
        self._out.append(send)

    # Fetches

    def _crawl(self, crawl: Crawl) -> None:
        page = self._pages.get(crawl.url)
        asked = None if page is None else self._representative_to_consult(page, crawl)
        if page is None or asked is None:
            self._take(page, crawl, None)
        else:
            self._pages.put(crawl.url, replace(page, consulted=asked, consulted_count=page.consulted_count + 1))
            self._send(Send("pages", asked, Consult(asked, crawl)))

    def _take(self, page: PageRow | None, crawl: Crawl, verdict: Verdict | None) -> None:
        """Apply a fetch, with its representative's verdict if there is one."""
        url = crawl.url
        if END in url or END in (crawl.target or ""):
            self._counted["refused"] += 1
            return
        if page is None or page.version == UNKNOWN_VERSION:
            self._counted["new"] += 1
            first = replace(page or PageRow(UNKNOWN_VERSION, 0), version=crawl.version, first_seen_ms=crawl.version)
            self._publisher.save(url, page, self._become(_with_popularity(first, crawl), crawl))
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
            self._publisher.save(url, page, self._revisit_again(url, page, now, crawl))
            return
        settled = self._settled(url, page, now, crawl, verdict)
        if settled is not None:
            self._rekey(url, page, settled)
            same = settled.truncated == page.truncated and settled.canonical == page.canonical
            if settled.verdicts is page.verdicts and same:
                self._pages.put(url, settled)
            else:
                self._publisher.save(url, page, settled)
            return
        self._counted[crawl.kind if crawl.kind != "content" else "changed"] += 1
        self._retire(url, page)
        now = self._become(bare(now), crawl)
        if page.kind == now.kind == "content" and now.home != page.home:
            self._remapped[now.home] += 1
        self._publisher.save(url, page, now)

    # Fetches that keep the page's vertex

    def _settled(self, url: str, page: PageRow, now: PageRow, crawl: Crawl, verdict: Verdict | None) -> PageRow | None:
        """The page after a fetch that keeps its vertex; None if the page needs a new one."""
        if crawl.kind != "revisit" and finds_same(page, crawl):
            self._counted["unchanged"] += 1
            return replace(now, last_digest=crawl.digest)
        if page.kind != "content" or page.revisit or crawl.signature is None:
            return None
        content_hash, size = crawl.signature.content_hash, crawl.size
        now = replace(now, content_hash=content_hash, last_digest=crawl.digest, anchored=True, size=size)
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
        self._send(Send("pages", message.crawl.url, Consulted(message.url, message.crawl, verdict)))

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
            self._send(Send("tier2", now.home, Rekey(vertex, keys)))

    def _retire(self, url: str, page: PageRow) -> None:
        """Withdraw everything that depends on the page's previous state."""
        if page.kind == "redirect":
            self._send(Send("pages", page.target, Unfollow(page.target, url, page.epoch)))
        if page.revisit:
            self._send(Send("pages", page.revisit, Unask(page.revisit, url, page.found_at)))
        elif page.kind == "content":
            self._revisits.supersede(url, page)
        if page.kind == "content":
            self._retire_vertex(url, page)

    def _retire_vertex(self, url: str, page: PageRow) -> None:
        vertex = vertex_of(url, page)
        self._send(Send("tier2", page.home, Remove(vertex, self._revisits.is_kept(url, page, vertex))))
        self._homed[page.home] -= 1
        self._memberships.retire(page, vertex)

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
            self._send(Send("pages", crawl.target, Follow(crawl.target, crawl.url, crawl.version)))
            return replace(page, target=crawl.target, via=crawl.via)
        return page

    def _store(self, page: PageRow, crawl: Crawl) -> PageRow:
        """Store a new vertex: alone and its own winner until tier 2 has compared it."""
        url, epoch, signature = crawl.url, crawl.version, crawl.signature
        assert signature is not None
        turn = page.turn + 1 if page.epoch == epoch else 0
        vertex = vertex_name(page.first_seen_ms, url, epoch, turn)
        home, probes = self._map.route(shingle_array(signature.shingles), tie_of(url), signature.lang)
        probes = self._everywhere(home) if page.same else probes
        page = replace(page, canonical=crawl.canonical)
        keys = self._markets.keys(url, page, vertex)
        self._send(Send("tier2", home, StoreVertex(vertex, signature, keys, probes, page.same)))
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
            size=crawl.size,
            length=shingle_count(signature.shingles),
            home=home,
            standing=Standing(url, True),
            verdicts=(Verdict(url),) * len(keys),
            unsaid=True,
        )

    def _renew(self, url: str, page: PageRow) -> PageRow:
        """Replace the vertex of a content page by one with the same content, which carries the present decisions."""
        replaced = vertex_of(url, page)
        self._memberships.retire(page, replaced)
        now = replace(
            page,
            turn=page.turn + 1,
            owner=None,
            membership_counter=0,
            parked_count=0,
            unparking=0,
            entering="",
            group_size=1,
            standing=Standing(url, True),
            verdicts=(Verdict(url),) * len(page.verdicts),
            contained=(),
            unsaid=True,
        )
        vertex, is_kept = vertex_of(url, now), self._revisits.is_kept(url, page, replaced)
        keys, probes = self._markets.keys(url, now, vertex), self._everywhere(now.home) if now.same else None
        self._send(Send("tier2", now.home, Renew(vertex, replaced, is_kept, keys, probes, now.same)))
        return now

    def _everywhere(self, home: int) -> tuple[int, ...]:
        """All other partitions of tier 2: a page that an operator decided to be the same may be anywhere."""
        return tuple([partition for partition in range(self._map.partitions) if partition != home])

    def _forget_anchor(self, url: str) -> None:
        if self._small_changes.keeps_shingles:
            self._anchors.delete(url)

    # Revisits

    def _ask(self, page: PageRow, crawl: Crawl) -> PageRow:
        """Ask the revisited page for its content. Returns the page as it is until the answer arrives."""
        assert crawl.target is not None
        self._revisits.note_revisit(crawl.url, crawl.version)
        self._send(Send("pages", crawl.target, Ask(crawl.target, crawl.url, crawl.version, crawl.digest)))
        return replace(page, revisit=crawl.target, answers=0, origin=crawl.origin)

    def _revisit_again(self, url: str, page: PageRow, now: PageRow, crawl: Crawl) -> PageRow:
        """A content page keeps its content until the answer shows whether it is the one found."""
        if not page.revisit:
            self._revisits.supersede(url, page)
        elif page.revisit != crawl.target:
            self._send(Send("pages", page.revisit, Unask(page.revisit, url, page.found_at)))
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
        self._publisher.save(url, page, now)

    def _on_ask(self, message: Ask) -> None:
        self._pages.put(message.url, self._revisits.ask(message, self._pages.get(message.url)))

    def _unask(self, message: Unask) -> None:
        page = self._pages.get(message.url)
        if page is not None:
            self._publisher.put_if_known(message.url, self._revisits.unask(message, page))

    def _answer_on(self, message: AnswerOn) -> None:
        page = self._pages.get(message.url)
        if page is not None:
            self._pages.put(message.url, self._revisits.answer_on(message.url, page))

    # Verdicts of tier 2

    def _placed(self, message: Placed) -> None:
        vertex = message.vertex
        url = url_of(vertex)
        page = self._pages.get(url)
        if page is None or not is_live(page, vertex):
            return
        now = page
        for market, verdict in message.verdicts:
            now = _with_verdict(now, market, verdict)
        for edge in message.edges:
            now = self._memberships.route(url, now, vertex, edge)
        self._save_or_wait(url, page, now)

    def _star(self, message: Star) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is None or not is_live(page, message.vertex) or page.verdicts[message.market] == message.verdict:
            return
        self._save_or_wait(url, page, _with_verdict(page, message.market, message.verdict))

    def _save_or_wait(self, url: str, page: PageRow, now: PageRow) -> None:
        """While the page enters a group, its status is published together with the group, unless other pages depend on
        it: followers, or a container."""
        if now.entering and not now.follower_count and not now.contained:
            self._pages.put(url, now if now.unsaid else replace(now, unsaid=True))
        else:
            self._publisher.save(url, page, now)

    def _contained(self, message: Contained) -> None:
        url = url_of(message.vertex)
        page = self._pages.get(url)
        if page is not None and is_live(page, message.vertex):
            known = page.contained or (None,) * len(page.verdicts)
            contained = (*known[: message.market], message.verdict, *known[message.market + 1 :])
            self._publisher.save(url, page, replace(page, contained=contained if any(contained) else ()))


def _with_verdict(page: PageRow, market: int, verdict: Verdict) -> PageRow:
    return replace(page, verdicts=(*page.verdicts[:market], verdict, *page.verdicts[market + 1 :]))


def _with_popularity(page: PageRow, crawl: Crawl) -> PageRow:
    """The latest popularity counts, whatever the fetch found."""
    if crawl.popularity is None or crawl.version <= page.popularity_at:
        return page
    return replace(page, popularity=crawl.popularity, popularity_at=crawl.version)
