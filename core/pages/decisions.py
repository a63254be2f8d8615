"""Operators' decisions on pages, on pairs of pages, and on rules.

A decision on a page is stored whether or not the page was fetched, and marks its row: such a page is its own winner
(resolution.py). Its vertex, its matches and its group are not affected.

A decision that two pages are the same is stored at both. Two vertices that carry it match in tier 2, whatever their
similarity. Edges never become false, so a page whose decisions change gets another vertex with the same content.

Decisions on rules are passed on to `rules`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dustream.core.pages.publisher import PagePublisher
from dustream.core.pages.rows import UNKNOWN_VERSION, PageDecisionRow, PageRow, PairDecisionRow
from dustream.core.pages.site_pages import SiteOf
from dustream.core.processor import Send, Table, TaskState
from dustream.core.vertex import END
from dustream.schemas.cluster import ClusterUpdate, DecidedRule
from dustream.schemas.pages import PageDecision, PairDecision, RuleDecision

Renewed = Callable[[str, PageRow], PageRow]
"""Gives a content page another vertex with the same content; returns the page."""


class Decisions:
    """The decisions that reach a task of `pages`, but for those of the circuit breaker (memberships.py)."""

    def __init__(
        self, publisher: PagePublisher, site_of: SiteOf, renewed: Renewed, send: Callable[[Send], None]
    ) -> None:
        self._publisher = publisher
        self._site_of = site_of
        self._renewed = renewed
        self._send = send

    def open(self, state: TaskState) -> None:
        self._pages: Table[PageRow] = state.table("pages")
        self._decisions: Table[PageDecisionRow] = state.table("page_decisions")
        self._pairs: Table[PairDecisionRow] = state.table("pair_decisions")

    def on_page(self, message: PageDecision) -> None:
        """The later decision counts; of two with one timestamp, the one that keeps the page."""
        known = self._decisions.get(message.url)
        if known is not None and (message.version, message.kept) <= (known.version, known.kept):
            return
        self._decisions.put(message.url, PageDecisionRow(message.version, message.kept))
        page = self._pages.get(message.url) or PageRow(UNKNOWN_VERSION, 0)
        now = replace(page, kept=message.kept)
        if page.kind != "content" or (page.unsaid and not page.follower_count and not page.contained):
            self._publisher.put_if_known(message.url, now)  # no status depends on it, or one is due anyway
        else:
            self._publisher.save(message.url, page, now)

    def on_pair(self, message: PairDecision) -> None:
        """The later decision counts; of two with one timestamp, the withdrawal."""
        url, other = message.url, message.other
        if END in url or END in other or url == other:
            return
        key = f"{url}{END}{other}"
        known = self._pairs.get(key)
        if known is not None and (message.version, not message.same) <= (known.version, not known.same):
            return
        self._pairs.put(key, PairDecisionRow(message.version, message.same))
        self._send(Send("pages", other, PairDecision(other, message.version, url, message.same)))
        page = self._pages.get(url) or PageRow(UNKNOWN_VERSION, 0)
        others = {*page.same, other} if message.same else {*page.same} - {other}
        if others == {*page.same}:
            return
        now = replace(page, same=tuple(sorted(others)))
        if page.kind == "content":
            self._publisher.save(url, page, self._renewed(url, now))
        else:
            self._publisher.put_if_known(url, now)

    def on_rule(self, message: RuleDecision) -> None:
        site = self._site_of(message.url)
        self._send(Send("cluster.updates", site, rule_update(message, site)))


def rule_update(decision: RuleDecision, site: str) -> ClusterUpdate:
    """The message by which `rules` gets a decision."""
    decided = DecidedRule(decision.rewrite, decision.version, decision.verdict)
    return ClusterUpdate(site=site, members=(), decisions=(decided,))
