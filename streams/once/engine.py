"""The batch engine (`--once`): computes the final outcome of the topology directly, without a state.

Pages, tier 2, groups and containment are computed from all pages at once (core/once). The other processors run
unchanged, each on its own: sites and rules get the final messages of `pages`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dustream.core.errors import BadSetting, stop_if_fatal
from dustream.core.once.containing import Containing
from dustream.core.once.contents import Contents, Spool
from dustream.core.once.fold import Fold
from dustream.core.once.outcome import Grouping, ways
from dustream.core.once.records import Threads
from dustream.core.once.rows import Rows
from dustream.core.pages.decisions import rule_update
from dustream.core.pages.resolution import REDIRECT_HOPS_MAX
from dustream.core.pages.rows import PageRow
from dustream.core.pages.site_pages import SitePages
from dustream.core.pages.small_changes import ByAnchor
from dustream.core.pages.status import ClusterUpdates, holds_group, status, view
from dustream.core.pipeline import PAGES, RULES, SITES, containment_rules
from dustream.core.settings import Settings
from dustream.core.urls.sites import site_of
from dustream.core.winners import Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.pages import AnyDecision, Crawl, SiteHeld
from dustream.schemas.rules import RuleSet
from dustream.schemas.sites import SiteDecision
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.feed import Feed, rare_collections
from dustream.streams.engine.sizes import SizeTally
from dustream.streams.engine.tables import TaskTables
from dustream.streams.once.alone import run_to_rest, spec_of
from dustream.streams.once.rule_learning import RuleLearning
from dustream.streams.store.memory import MemoryStore

Result = TypeVar("Result")


class OnceEngine:
    """Takes the input of the topology, and has the outcome after the last feed."""

    def __init__(
        self,
        settings: Settings,
        new_spool: Callable[[], Spool],
        *,
        jobs: int = 1,
        on_stage: Callable[[str], None] = lambda stage: None,
    ) -> None:
        if settings.small_changes != "anchor":
            raise BadSetting(
                "with small_changes representative the outcome depends on the order of processing, which --once does "
                "not follow: leave --once out"
            )
        self._settings = settings
        self._jobs = jobs
        self._on_stage = on_stage
        self._markets = Markets(settings.markets)
        self._contents = Contents(settings.threshold, new_spool)
        self._fold = Fold(self._contents, ByAnchor(settings.anchor_distance))
        self._sites = SitePages(site_of, len(self._markets.names))
        self._letters: list[DeadLetter] = []
        self._statuses: dict[str, DuplicateStatus] = {}
        self._alarms: list[Alarm] = []
        self._sizes = SizeTally()
        self._rule_sets: list[RuleSet] = []
        self._learning: RuleLearning | None = None
        self.seconds: dict[str, float] = {}
        self.messages: dict[str, int] = {}
        self.peak_memory_beside_mb = 0

    # Input

    def run(self, feeds: Iterable[Feed]) -> None:
        with rare_collections():
            self._take_all(feeds)
            self._settle()

    def _take_all(self, feeds: Iterable[Feed]) -> None:
        took = 0.0
        for feed in feeds:
            started = time.perf_counter()
            self._take(feed)
            took += time.perf_counter() - started
        self.seconds["fold"] = took

    def _take(self, feed: Feed) -> None:
        messages = [send.message for send in feed.sends]
        crawls = [message for message in messages if type(message) is Crawl]
        self._fold.take(crawls)
        if len(crawls) == len(messages):
            return
        for message in messages:
            if isinstance(message, AnyDecision):
                self._fold.decide(message)
            elif isinstance(message, DeadLetter):
                self._letters.append(message)

    # Results

    def statuses(self) -> Iterator[DuplicateStatus]:
        """By URL, in the order of a store."""
        for url in sorted(self._statuses, key=str.encode):
            yield self._statuses[url]

    def status(self, url: str) -> DuplicateStatus | None:
        return self._statuses.get(url)

    def dead_letters(self) -> Iterator[DeadLetter]:
        return iter(self._letters)

    def rule_sets(self) -> Iterator[RuleSet]:
        """Rules may still be being learned; other results need not wait for them."""
        self._finish_learning()
        return iter(sorted(self._rule_sets, key=lambda rules: rules.site.encode()))

    def standing_alarms(self) -> list[Alarm]:
        return self._alarms

    def fetch_counts(self) -> dict[str, int]:
        return dict(sorted(self._fold.counts.items()))

    def tier2_load(self) -> None:
        return None

    def sizes(self) -> SizeTally:
        return self._sizes

    # Computation

    def _settle(self) -> None:
        self._learning = RuleLearning(self._settings, self._jobs, len(self._fold.pages))
        self._fold.settle()
        rows = Rows(self._fold, self._contents.lengths(), len(self._markets.names))
        for name, step in (
            ("match", self._match),
            ("containment", self._contain),
            ("redirects", self._resolve),
            ("statuses", self._publish),
            ("sites", self._hold_sites),
            ("rules", self._learn),
        ):
            self._on_stage(name)
            started = time.perf_counter()
            step(rows)
            self.seconds[name] = time.perf_counter() - started

    def _match(self, rows: Rows) -> None:
        if len(self._contents):
            grouping = Grouping(self._fold, self._contents, self._markets, self._settings.group_size_max)
            for found in grouping.grouped():
                rows.add_groups(found)

    def _contain(self, rows: Rows) -> None:
        rules = containment_rules(self._settings)
        if rules is not None and len(self._contents):
            with ThreadPoolExecutor(self._jobs) as executor:
                threads = Threads(self._jobs, executor.map)
                found = Containing(rows, self._contents, self._markets, rules, threads).found()
                for url, market, verdict in found:
                    rows.add_contained(url, market, verdict)
        self._contents.close()  # nobody needs shingles after this

    def _resolve(self, rows: Rows) -> None:
        for url, way in ways(self._fold, rows):
            rows.add_way(url, way)

    def _publish(self, rows: Rows) -> None:
        """The statuses, as long as no site is held. The sites count the same rows: to make them takes a while."""
        self._sites.open(TaskTables(MemoryStore(), spec_of(self._settings, PAGES), 0))
        for url, row in rows.items():
            counted = self._sites.counted(url, None, row)
            if counted.lost:
                rows.set_lost(url, counted.lost)
            self._set_status(url, row)
            if holds_group(url, row):
                self._alarms.append(Alarm(kind="group_held", group=url, size=row.group_size))

    def _set_status(self, url: str, row: PageRow) -> None:
        seen = view(url, row, self._markets.names, REDIRECT_HOPS_MAX)
        if seen is not None:
            self._statuses[url] = status(row, seen)

    def _hold_sites(self, rows: Rows) -> None:
        words = [
            SiteDecision(site_of(each.url), each.version, each.pass_from is not None)
            for each in self._fold.site_decisions
        ]
        messages = [send.message for send in self._sites.tallies()] + words
        self.messages[SITES] = len(messages)
        sends = self._tried(SITES, lambda: list(run_to_rest(self._settings, SITES, messages)))
        newest = {send.message.site: send.message for send in sends if isinstance(send.message, Alarm)}
        self._alarms += [alarm for alarm in newest.values() if alarm.kind == "site_held"]
        held = {send.message.site: send.message.markets for send in sends if isinstance(send.message, SiteHeld)}
        for url in rows if held else ():
            if rows.hold(url, held.get(site_of(url), 0)):
                self._set_status(url, rows[url])

    def _learn(self, rows: Rows) -> None:
        updates = ClusterUpdates()
        for url, said in self._statuses.items():
            page = self._fold.pages[url]
            updates.add(site_of(url), page.first_seen_ms, said)
            if page.kind == "content":
                self._sizes.count(rows.length(page), page.size, is_dropped=said.role == "duplicate")
        self._fold.pages.clear()  # nobody needs them after this
        messages = [send.message for send in updates.drain()]
        messages += [rule_update(decision, site_of(decision.url)) for decision in self._fold.rule_decisions]
        self.messages[RULES] = len(messages)
        assert self._learning is not None
        self._learning.start(messages)
        if not self._learning.is_beside:
            self._finish_learning()

    def _finish_learning(self) -> None:
        learning, self._learning = self._learning, None
        if learning is not None:
            started = time.perf_counter()
            self._rule_sets = self._tried(RULES, learning.rule_sets)
            self.seconds["rules"] = self.seconds.get("rules", 0.0) + time.perf_counter() - started

    def close(self) -> None:
        """Remove temporary files, and end processes that are left over if the run was interrupted."""
        self._contents.close()
        if self._learning is not None:
            self._learning.close()

    def _tried(self, name: str, run: Callable[[], list[Result]]) -> list[Result]:
        """What a processor makes of its messages. If it fails, the outcome is computed without it."""
        try:
            return run()
        except Exception as error:
            stop_if_fatal(error)
            reason = f"the {name} processor failed: {type(error).__name__}: {error}"
            self._letters.append(DeadLetter(source=spec_of(self._settings, name).input, position=-1, reason=reason))
            return []
