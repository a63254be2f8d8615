"""Every rule of the protocol is needed: with it disabled, some history fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from model_check import run_history
from model_world import random_history
from msgspec.structs import replace

from dustream.core.containment.candidate_index import CandidateIndex
from dustream.core.groups.processor import GroupsProcessor
from dustream.core.groups.searches import Searches
from dustream.core.pages import processor as pages_processor
from dustream.core.pages import publisher, resolution, rows, site_pages
from dustream.core.pages import status as page_status
from dustream.core.pages.decisions import Decisions
from dustream.core.pages.memberships import MembershipHomes
from dustream.core.pages.processor import PagesProcessor
from dustream.core.pages.publisher import PagePublisher
from dustream.core.pages.revisits import Revisits
from dustream.core.pages.site_pages import SiteHoldRow, SitePages
from dustream.core.similarity import jaccard
from dustream.core.sites import processor as breaker
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.tier2 import containers
from dustream.core.tier2 import processor as tier2_processor
from dustream.core.tier2.cleared import Cleared
from dustream.core.tier2.containers import Containers
from dustream.core.tier2.forest import Forest
from dustream.core.tier2.processor import Tier2Processor
from dustream.core.tier2.rows import StarRow
from dustream.core.tier2.stars import AgendaRow, Stars
from dustream.core.tier2.vertices import Present, Vertices
from dustream.core.vertex import END, url_of, vertex_name
from dustream.schemas.tier2 import Cover, Covered, Win

HISTORIES_MAX = 3_000
FETCHES_OVERTAKE = "a fetch overtakes one that asks its representative"


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _sync_any(self: Any, message: Any) -> None:
    """The last Sync to arrive counts, not the one with the highest counter."""
    page = self._pages.get(url_of(message.vertex))
    if page is not None and page.membership_counter >= message.counter:
        self._pages.put(url_of(message.vertex), replace(page, membership_counter=message.counter - 1))
    _SYNC(self, message)


def _star_of_any_epoch(self: Any, message: Any) -> None:
    page = self._pages.get(url_of(message.vertex))
    if page is not None and page.kind == "content":
        verdicts = (*page.verdicts[: message.market], message.verdict, *page.verdicts[message.market + 1 :])
        self._publisher.save(url_of(message.vertex), page, replace(page, verdicts=verdicts))


def _placed_of_any_epoch(self: Any, message: Any) -> None:
    page = self._pages.get(url_of(message.vertex))
    if page is not None and page.kind == "content":
        url = url_of(message.vertex)
        _PLACED(self, replace(message, vertex=vertex_name(page.first_seen_ms, url, page.epoch)))


def _answer_in_any_order(self: Any, message: Any) -> None:
    """The last answer to arrive counts, not the one with the highest number."""
    page = self._pages.get(message.url)
    if page is not None and page.answers >= message.number:
        self._pages.put(message.url, replace(page, answers=message.number - 1))
    _ANSWER(self, message)


def _answer_to_any_revisit(self: Any, message: Any) -> None:
    page = self._pages.get(message.url)
    if page is not None and page.revisit:
        _ANSWER(self, replace(message, version=page.found_at))


def _revisits_without_asking(self: Any, url: str, page: Any, now: Any, crawl: Any) -> Any:
    """Whoever has a content keeps it, whatever a later revisit found."""
    return now


def _keeps_no_late_content(self: Any, url: str, page: Any, crawl: Any) -> Any:
    return page


def _answers_on_nobody(self: Any, url: str, page: Any) -> Any:
    return replace(page, answers_after=None)


def _answers_no_lone_page(self: Any, vertex: str, *, alone: bool) -> None:
    if not alone:
        _SEND_PLACED(self, vertex, alone=alone)


def _contained_of_any_epoch(self: Any, message: Any) -> None:
    page = self._pages.get(url_of(message.vertex))
    if page is not None and page.kind == "content":
        url = url_of(message.vertex)
        _CONTAINED(self, replace(message, vertex=vertex_name(page.first_seen_ms, url, page.epoch)))


def _follows_no_fall(self: Any, number: int) -> None:
    """A page that is a winner no more stays posted."""
    if any(star.winner for star in self._vertices.row(number).stars):
        _FOLLOW(self, number)


def _withdraws_once(self: Any, number: int, row: Any, **how: Any) -> None:
    """Only the first of the partitions that have terms of the page hears that it is posted no more."""
    _WITHDRAW(self, number, row, **how)
    for partition in sorted(partition for partition, serials in self._unposted.items() if row.post in serials)[1:]:
        self._unposted[partition].remove(row.post)


def _forgets_who_waits(self: Any, *args: Any) -> None:
    _CONTAINERS(self, *args)
    self._waiting.clear()


def _rekeys_in_silence(self: Any, message: Any) -> None:
    changed = set(self._vertices.changed)
    _REKEY(self, message)
    self._vertices.changed = changed


def _keeps_the_dropped(self: Containers, row: Any, content: Any) -> Any:
    return _STANDING(self, replace(row, dropped=0), content)


def _worst_container(candidates: Any, market: int, order: bytes) -> Any:
    """Any page that contains it, instead of the best."""
    kept = [each for each in candidates if each.kept >> market & 1 and each.orders[market] < order]
    return _BEST([min(kept, key=lambda each: (each.share, each.orders[market]))], market, order) if kept else None


def _weighs_without_dependence(self: Any, *args: Any) -> Any:
    """A container does not remember who depends on it."""
    weight = _WEIGHT(self, *args)
    if weight.vertex:
        self._dependents[args[1]].discard(args[0].page)
    return weight


def _never_rare_again(self: Any, term: int, page: int) -> Any:
    return self._common[term].pop(page) >> 3, np.empty((0, 3), dtype=np.int64)


def _nothing_common(self: Any, term_cap: int, code_cap: int) -> None:
    _INDEX(self, 1_000, 1_000)


def _forgets_unsaid(self: Any, message: Any) -> None:
    url = url_of(message.vertex)
    page = self._pages.get(url)
    if page is not None and page.unsaid:
        self._pages.put(url, replace(page, unsaid=False))
    _SYNC(self, message)


def _always_joins(self: Any, key: str, message: Any) -> bool:
    return self._members.eldest(key) != ""


def _enters_anyway(self: Any, group: Any, message: Any, membership: Any) -> None:
    """As if whom it matches were the vertex asked for."""
    enter = replace(message.request, via=message.vertex)
    _ENTER(self, group, replace(message, request=enter), membership)


def _waits(self: Any, page: Any, enter: Any) -> None:
    """Whom it goes to is on the way: until that one has arrived."""
    vertex = enter.via if not enter.hops else page.entering
    url = url_of(vertex)
    self._pages.put(url, self._park(self._pages.get(url), vertex, enter))


def _lands_at_once(self: Any, group: Any, job: Any) -> Any:
    return self._let_in(group, job) if group.row.size else _CHECK_JOIN(self, group, job)


def _unlinks_only(self: Any, group: Any, job: Any) -> Any:
    for other in self._members.others_after(group.key, job.vertex, "", 1_000):
        self._members.unlink(group.key, job.vertex, other)


def _never_meets(self: Any, group: str, number: int, current: int, other: str) -> tuple[int, bool]:
    if self._members.holds(group, other) and self._reached.get(f"{group}\0{other}") is None:
        self._reach(group, number, current, other)
    return number, False


def _without(kind: type, condition: Callable[[Any], bool] = lambda item: True) -> Callable[..., Any]:
    def tell(self: Stars, *args: Any) -> StarRow:
        before = len(self._notices)
        star = _NOTIFY(self, *args)
        kept = [
            notice
            for notice in self._notices[before:]
            if not (isinstance(notice.item, kind) and condition(notice.item))
        ]
        self._notices[before:] = kept
        return star

    return tell


def _worst_winner(self: Any, query: Any, row: Any, key: bytes) -> Cover | None:
    """Any winner that matches, instead of the best."""
    found = None
    for other, similarity in self._winners.matching(query).pages:
        other_row = self._vertices.row(other)
        other_key = other_row.stars[self._market].key
        if other_key < key and (row.entry or other_row.entry) and (found is None or other_key > found.key):
            found = Cover(other_key, similarity, other_row.content_hash == row.content_hash)
    return found


def _asks_for_itself(self: Any, page: Any, crawl: Any) -> str | None:
    """Whether or not an earlier fetch is on its way."""
    asked: str | None = _REPRESENTATIVE_TO_CONSULT(self, replace(page, consulted_count=0), crawl)
    return page.consulted if asked is not None and page.consulted_count else asked


def _spreads_on(self: Any, url: str, page: Any) -> Any:
    return page if page.spread_after is not None else _SPREAD(self, url, page)


def _one_slot(star: StarRow, source: int, item: Covered) -> dict[int, Cover]:
    return {} if item.cover is None else {0: item.cover}


def _leaves_at_once(self: Any, number: int, row: Any) -> StarRow:
    """A winner that goes does not let its duplicates search again."""
    star = _LEAVE(self, number, row)
    item = self._agenda.get(star.key)
    if item is not None:
        self._agenda[star.key] = replace(item, release=False)
    return star


def _keeps_duplicates(self: Any, key: bytes, item: AgendaRow) -> AgendaRow:
    """One that is dethroned keeps its duplicates; one that went does not."""
    if self._vertices.number(self._order.vertex(key)) is not None:
        return replace(item, release=False)
    return _RELEASE(self, key, item)


def _takes_nobody(self: Any, number: int, key: bytes, item: AgendaRow) -> AgendaRow:
    return replace(item, cover_after=None)


def _counts_up_only(self: Any, site: str, pages: int, was_lost: int, lost: int) -> None:
    _ADD(self, site, max(pages, 0), was_lost & lost, lost)


def _goes_on_telling(self: Any, message: Any) -> bool:
    row = self._holds.get(message.site)
    if row is None or row.told_after is None:
        return _SET_HELD(self, message)
    self._holds.put(message.site, SiteHoldRow(message.markets, row.told_after))
    return False


def _known_pages_only(self: Any, message: Any) -> None:
    if message.on == "site" or self._pages.get(message.url) is not None:
        _DECISION(self, message)


def _last_word(row: Any, decision: Any) -> Any:
    """The last decision to arrive counts, not the latest one."""
    return replace(row, decided_at=decision.version, released=decision.released)


def _decides_known_pages_only(self: Any, message: Any) -> None:
    if self._pages.get(message.url) is not None:
        _ON_PAGE(self, message)


def _last_word_on_a_page(self: Any, message: Any) -> None:
    self._decisions.delete(message.url)
    _ON_PAGE(self, message)


def _verdicts_undecided(url: str, page: Any) -> Any:
    return resolution.verdicts_of(url, replace(page, kept=False))


def _contained_undecided(url: str, page: Any) -> int:
    return resolution.contained_markets(url, replace(page, kept=False))


def _resolution_undecided(url: str, page: Any, hops_max: int) -> Any:
    return resolution.resolution(url, None if page is None else replace(page, kept=False), hops_max)


def _bare_undecided(page: Any) -> Any:
    return replace(rows.bare(page), kept=False)


def _last_word_on_a_pair(self: Any, message: Any) -> None:
    key = f"{message.url}{END}{message.other}"
    known = self._pairs.get(key)
    if known is None or (known.version, known.same) != (message.version, message.same):
        self._pairs.delete(key)
        _ON_PAIR(self, message)


def _tells_no_other_page(self: Any, message: Any) -> None:
    send, self._send = self._send, _nothing
    _ON_PAIR(self, message)
    self._send = send


def _bare_without_pairs(page: Any) -> Any:
    return replace(rows.bare(page), same=())


def _keeps_its_vertex(self: Any, url: str, page: Any) -> Any:
    return page


def _probes_as_usual(self: Any, home: int) -> tuple[int, ...]:
    return ()


def _repairs_by_similarity(self: Any, number: int) -> None:
    with mock.patch.object(Vertices, "same_as", lambda self, row, content: []):
        _REPAIR(self, number)


def _covers_by_similarity(self: Any, number: int, key: bytes, item: Any) -> Any:
    with mock.patch.object(Stars, "_decided", lambda self, row, query: {}):
        return _COVER(self, number, key, item)


def _searches_by_similarity(self: Any, query: Any, row: Any, key: bytes) -> Any:
    with mock.patch.object(Stars, "_decided", lambda self, row, query: {}):
        return _BEST_WINNER(self, query, row, key)


def _enters_by_similarity(self: Any, row: Any, query: Any, matches: Any) -> Any:
    return matches


def _one_of_two_is_enough(self: Any, row: Any, content: Any) -> Any:
    """A vertex matches another one that does not carry the decision."""
    others = [number for number in self.numbers() if url_of(self.row(number).vertex) in row.same]
    others = [number for number in others if row.entry or self.row(number).entry]
    return [(number, float(jaccard(shingle_array(content.shingles), self.shingles(number)))) for number in others]


def _renews_without_keeping(self: Any, message: Any) -> None:
    _RENEW(self, replace(message, keep=False))


_ON_PAIR = Decisions.on_pair
_REPAIR = Forest._repair


def _copied_entry(self: Stars, copy: Any, key: bytes) -> Cover | None:
    entry = Cover(copy.stars[self._market].key, 1.0, True)
    return entry if entry.key < key else None


def _knows_by_decision(self: Stars, copy: Any, row: Any) -> bool:
    return _KNOWS_BEST_WINNER(self, replace(copy, same=()), row)


_KNOWS_BEST_WINNER = Stars._knows_best_winner
_COVER = Stars._cover
_BEST_WINNER = Stars._best_winner
_RENEW = Tier2Processor._renew
_ON_PAGE = Decisions.on_page
_SYNC = MembershipHomes.sync
_ANSWER = PagesProcessor._answer
_PLACED = PagesProcessor._placed
_SEND_PLACED = Tier2Processor._send_placed
_CONTAINED = PagesProcessor._contained
_CONTAINERS = Containers.__init__
_FOLLOW = Containers._follow
_WITHDRAW = Containers._withdraw
_STANDING = Containers._standing
_WEIGHT = Containers._weight
_BEST = containers._best
_INDEX = CandidateIndex.__init__
_REKEY = Tier2Processor._rekey
_DECISION = MembershipHomes.decision
_ADD = SitePages._add
_SET_HELD = SitePages.set_held
_REPRESENTATIVE_TO_CONSULT = PagesProcessor._representative_to_consult
_SPREAD = PagePublisher._spread
_ENTER = GroupsProcessor._enter
_CHECK_JOIN = GroupsProcessor._check_join
_NOTIFY = Stars._notify
_LEAVE = Stars.leave
_RELEASE = Stars._release

MUTATIONS: dict[str, list[tuple[Any, str, Any]]] = {
    "a request that comes back is dropped, not parked": [(MembershipHomes, "_park", lambda self, page, *request: page)],
    "a leave that comes back is dropped": [(MembershipHomes, "_bounce_leave", _nothing)],
    "the last Sync counts, not the highest": [(MembershipHomes, "sync", _sync_any)],
    "what changed while a page was entering is not said": [(MembershipHomes, "sync", _forgets_unsaid)],
    "the dying do not hear where their membership went": [(MembershipHomes, "_sync_dying", _nothing)],
    "the dead do not answer": [(MembershipHomes, "_answer_dead", _nothing)],
    "a membership given back is lost": [(MembershipHomes, "returned", _nothing)],
    "a vertex that dies on its way into a group stays there": [(MembershipHomes, "_dies_on_the_way", _nothing)],
    "a vertex enters though whom it matches is elsewhere": [(GroupsProcessor, "_enter", _enters_anyway)],
    "two memberships go after each other": [(MembershipHomes, "_send_after", _waits)],
    "a star is taken by a later epoch": [(PagesProcessor, "_star", _star_of_any_epoch)],
    "what was found for a former version counts": [(PagesProcessor, "_placed", _placed_of_any_epoch)],
    "a page that nobody matches is not answered": [(Tier2Processor, "_send_placed", _answers_no_lone_page)],
    "the last answer counts, not the highest": [(PagesProcessor, "_answer", _answer_in_any_order)],
    "the answer to a former revisit counts": [(PagesProcessor, "_answer", _answer_to_any_revisit)],
    "who has a content keeps it when it revisits": [(PagesProcessor, "_revisit_again", _revisits_without_asking)],
    "a content that comes late is not kept": [(Revisits, "note_late", _keeps_no_late_content)],
    "who asked hears no later answer": [(Revisits, "answer", lambda self, url, page: page)],
    "answering in steps is not gone on with": [(Revisits, "answer_on", _answers_on_nobody)],
    "who asks no more is still answered": [(Revisits, "unask", lambda self, message, page: page)],
    "what a page found by a revisit is passed on": [(Revisits, "note_revisit", _nothing)],
    "followers are not told": [(PagePublisher, "_notify_followers", _nothing)],
    "a spread does not start over": [(PagePublisher, "_spread", _spreads_on)],
    "a leave does not split": [(GroupsProcessor, "_unlink", _unlinks_only)],
    "searches that meet stay two": [(Searches, "_look", _never_meets)],
    "half-edges to the dead stay": [(GroupsProcessor, "_dead", _nothing)],
    "strangers land": [(GroupsProcessor, "_joins", _always_joins), (GroupsProcessor, "_check_join", _lands_at_once)],
    "a pending join is not passed on": [(GroupsProcessor, "_pass_on", _nothing)],
    "the standing is not worked out again": [(GroupsProcessor, "_stand", _nothing)],
    "nothing is deferred": [(GroupsProcessor, "_defer", lambda self, group, message: self._handle(group, message))],
    "no replacement edges": [(Forest, "_repair", _nothing)],
    "the search is not told of a split": [(Present, "separate", _nothing)],
    "the search is not told of a merger": [(Present, "relabel", _nothing)],
    "an entry does not look at visitors": [(Present, "met_by", lambda self, number: (self.entries,))],
    "a winner that goes keeps its duplicates": [(Stars, "leave", _leaves_at_once)],
    "work noted before the last that was done is not seen": [(Cleared, "written", _nothing)],
    "a new winner takes nobody": [(Stars, "_cover", _takes_nobody)],
    "dethroned, duplicates kept": [(Stars, "_release", _keeps_duplicates)],
    "no Win": [(Stars, "_notify", _without(Win))],
    "no Covered": [(Stars, "_notify", _without(Covered))],
    "no Covered withdrawn": [(Stars, "_notify", _without(Covered, lambda item: item.cover is None))],
    "any winner, not the best": [(Stars, "_best_winner", _worst_winner)],
    "a copy takes what it copies for the best winner": [(Stars, "_best_winner_of_copy", _copied_entry)],
    "a copy of what is covered elsewhere does not search": [(Stars, "_knows_best_winner", lambda *args: True)],
    "a copy takes a winner that was decided for what it copies": [(Stars, "_knows_best_winner", _knows_by_decision)],
    "one cover for all partitions": [(tier2_processor, "_with_cover", _one_slot)],
    FETCHES_OVERTAKE: [(PagesProcessor, "_representative_to_consult", _asks_for_itself)],
    "a new key is not told": [(PagesProcessor, "_rekey", _nothing)],
    "a site's counts are not taken back": [(SitePages, "_add", _counts_up_only)],
    "a page lost under a hold is not held": [(SitePages, "_held", lambda self, site: 0)],
    "telling a site's pages does not start over": [(SitePages, "set_held", _goes_on_telling)],
    "a decision on a page not yet seen is dropped": [(MembershipHomes, "decision", _known_pages_only)],
    "the last decision on a site counts, not the latest": [(breaker, "_decided", _last_word)],
    "a new group does not hear what was decided": [(MembershipHomes, "_pass_from", _nothing)],
    "a decision to keep a page not yet seen is dropped": [(Decisions, "on_page", _decides_known_pages_only)],
    "the last decision on a page counts, not the latest": [(Decisions, "on_page", _last_word_on_a_page)],
    "a decision to keep a page changes no verdict": [(page_status, "verdicts_of", _verdicts_undecided)],
    "a page kept by decision is lost to its site": [(site_pages, "verdicts_of", _verdicts_undecided)],
    "a page kept by decision is contained": [(publisher, "contained_markets", _contained_undecided)],
    "followers do not see that a page is kept": [(publisher, "resolution", _resolution_undecided)],
    "a new content ends the decision to keep a page": [(pages_processor, "bare", _bare_undecided)],
    "the last decision on a pair counts, not the latest": [(Decisions, "on_pair", _last_word_on_a_pair)],
    "a decision on a pair is not passed on": [(Decisions, "on_pair", _tells_no_other_page)],
    "a new content ends the decision on a pair": [(pages_processor, "bare", _bare_without_pairs)],
    "a decision on a pair leaves the vertex": [(PagesProcessor, "_renew", _keeps_its_vertex)],
    "a decided pair probes nobody": [(PagesProcessor, "_everywhere", _probes_as_usual)],
    "a decided pair is no replacement edge": [(Forest, "_repair", _repairs_by_similarity)],
    "a new winner takes over by similarity only": [(Stars, "_cover", _covers_by_similarity)],
    "a lost winner is replaced by similarity only": [(Stars, "_best_winner", _searches_by_similarity)],
    "a decided pair is no edge": [(Forest, "with_decided", _enters_by_similarity)],
    "one of two pages is enough for a decided pair": [(Vertices, "same_as", _one_of_two_is_enough)],
    "a renewed vertex leaves no former content": [(Tier2Processor, "_renew", _renews_without_keeping)],
    "a page that goes stays posted": [(Containers, "leave", _nothing)],
    "a page is taken back from one partition of its terms": [(Containers, "_withdraw", _withdraws_once)],
    "a page that became a duplicate stays posted": [(Containers, "_follow", _follows_no_fall)],
    "who waits to be posted is forgotten in a restart": [(Containers, "__init__", _forgets_who_waits)],
    "an answer about a former version counts": [(PagesProcessor, "_contained", _contained_of_any_epoch)],
    "a container that falls or rises is not told of": [(Containers, "_notify_dependents", _nothing)],
    "who depends on a container is not remembered": [(Containers, "_weight", _weighs_without_dependence)],
    "a container is not released": [(Containers, "release", _nothing)],
    "that a page is dropped for its container is not told": [(PagePublisher, "_report_dropped", _nothing)],
    "who is contained contains": [(Containers, "_standing", _keeps_the_dropped)],
    "a new place in the order of containers is not told": [(Tier2Processor, "_rekey", _rekeys_in_silence)],
    "any container, not the best": [(containers, "_best", _worst_container)],
    "serials are used again": [(Containers, "_keep_serial", _nothing)],
    "common terms propose": [(CandidateIndex, "__init__", _nothing_common)],
    "a term that is common no more proposes nothing": [(CandidateIndex, "_remove_common", _never_rare_again)],
    "a split changes no verdict": [(page_status, "effective", lambda url, standing, verdict: verdict)],
}


def caught_at(name: str, histories_max: int = HISTORIES_MAX) -> int | None:
    """The first history that fails with the rule disabled."""
    patches = [mock.patch.object(*where) for where in MUTATIONS[name]]
    for patch in patches:
        patch.start()
    try:
        for seed in range(histories_max):
            try:
                run_history(random_history(seed, big=seed % 10 == 9, representative=name == FETCHES_OVERTAKE))
            except (TypeError, AttributeError, NameError):
                raise  # the mutation itself is broken
            except Exception:
                return seed
        return None
    finally:
        for patch in patches:
            patch.stop()


def check_mutations() -> int:
    missed = 0
    for name in MUTATIONS:
        started = time.perf_counter()
        seed = caught_at(name)
        missed += seed is None
        verdict = f"NOT caught in {HISTORIES_MAX} histories" if seed is None else f"caught by history {seed}"
        print(f"{name}: {verdict} ({time.perf_counter() - started:.1f} s)", flush=True)
    return 1 if missed else 0
