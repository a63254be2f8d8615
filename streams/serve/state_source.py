"""The state of `dustream run` as a source. It follows a run that writes the state meanwhile."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

from dustream.core.errors import StateMismatch
from dustream.core.pages.rows import PageRow
from dustream.core.rules.given import rule_of
from dustream.core.settings import Settings
from dustream.core.urls.sites import site_of
from dustream.core.vertex import END, url_of
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.lookup import InputStatus
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.alarms import AlarmLine, count_alarms
from dustream.streams.engine.results import Tier2Load, read_rule_sets, read_tier2_load
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.questions.decision_list import is_withdrawal, read_decisions
from dustream.streams.questions.group_list import MEMBERS_READ_MAX, GroupAnswer, GroupRequest, list_groups
from dustream.streams.questions.one_page import PageAnswer, ask_page
from dustream.streams.questions.page_sizes import PageSizes, cuts_of, sizes_of, tally_pages
from dustream.streams.questions.pages import KnownPage, content_page, known_page
from dustream.streams.questions.state import ReadableState, StoredState, read_settings, state_folder, task_table
from dustream.streams.questions.texts import TextAnswer, compare_texts
from dustream.streams.questions.two_pages import PairAnswer, ask_pair
from dustream.streams.serve.source import (
    FoundGroup,
    LastRun,
    LowerSample,
    Seen,
    SiteFacts,
    StandingDecision,
    WorkersNow,
    read_last_run,
)
from dustream.streams.store.followed import FollowedStore

FOLLOWERS_READ_MAX = 100  # redirects listed per page of a group
REDIRECTS_READ_MAX = 1_000  # and per group


class StateSource:
    """A state, which a run may be writing."""

    is_state = True
    _state: ReadableState

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log_folder = tempfile.mkdtemp(prefix="dustream-serve-")
        try:
            self._store = FollowedStore(state_folder(path), Path(self._log_folder))
            self._state = StoredState(self._store, read_settings(self._store, path))
        except StateMismatch:
            shutil.rmtree(self._log_folder, ignore_errors=True)
            raise
        self._seen = self._read_seen(0)

    @property
    def settings(self) -> Settings:
        return self._state.settings

    def seen(self) -> Seen:
        return self._seen

    def catch_up(self) -> None:
        """The position is read last and used by requests that begin later, so no answer claims more than it has."""
        self._store.catch_up()
        self._seen = self._read_seen(self._seen.settled_position)

    def _read_seen(self, settled_position: int | list[int]) -> Seen:
        position = self._state.counts().records
        settled = next(self._store.scan(b"queue/"), None) is None
        return Seen(position, settled, position if settled else settled_position)

    def close(self) -> None:
        self._store.close()
        shutil.rmtree(self._log_folder, ignore_errors=True)

    def status(self, url: str) -> DuplicateStatus | None:
        return self._state.status(url)

    async def status_soon(self, url: str) -> DuplicateStatus | None:
        return self.status(url)

    def statuses(self, urls: Sequence[str]) -> dict[str, DuplicateStatus]:
        return {url: found for url in urls if (found := self.status(url)) is not None}

    def status_rows(self) -> Iterator[bytes]:
        return (row for _, row in self._store.scan(view_prefix("duplicate.status")))

    def rule_sets(self) -> Iterator[RuleSet]:
        return read_rule_sets(self._store)

    def page(self, url: str, market: str | None) -> PageAnswer:
        return ask_page(self._state, url, market)

    def pair(self, one: str, other: str, market: str | None) -> PairAnswer:
        return ask_pair(self._state, one, other, market)

    def texts(self, one: str, other: str) -> TextAnswer | None:
        contents = [self._content(url) for url in (one, other)]
        if contents[0] is None or contents[1] is None or contents[0].url == contents[1].url:
            return None
        return compare_texts(self._state, contents[0], contents[1], lambda opened: nullcontext())

    def _content(self, url: str) -> KnownPage | None:
        page = known_page(self._state, url)
        return None if page is None else content_page(self._state, page)

    def group(self, group: str, members_max: int) -> FoundGroup | None:
        page = self._content(group)
        if page is None or page.row.standing is None:
            return None
        owner = page.row.owner
        if owner is None:
            return FoundGroup(page.row.standing.group, 1, False, None, self._with_redirects([page.url]), 0)
        row = task_table(self._state, "groups", owner, "groups").get(owner)
        if row is None:  # its membership is moving to another group
            return None
        prefix = owner + END
        names = task_table(self._state, "groups", owner, "memberships").names(prefix)
        urls = [url_of(name[len(prefix) :]) for name in islice(names, members_max)]
        edges = task_table(self._state, "groups", owner, "edges").scan(prefix)
        weakest = min((edge.similarity for _, edge in islice(edges, MEMBERS_READ_MAX)), default=None)
        held = row.standing is not None and row.standing.held
        members = self._with_redirects(urls)
        return FoundGroup(url_of(row.eldest), row.size, held, weakest, members, max(0, row.size - len(urls)))

    def _with_redirects(self, urls: list[str]) -> list[DuplicateStatus]:
        """The pages' statuses by URL, then those of the redirects to them, also by way of others."""
        redirects: set[str] = set()
        ends = list(urls)
        while ends and len(redirects) < REDIRECTS_READ_MAX:
            rows: dict[str, PageRow] = self._state.rows("pages", "pages", ends)
            targets = [url for url in ends if url in rows and rows[url].follower_count]
            some = {each for url in targets for each in islice(self._followers(url), FOLLOWERS_READ_MAX)}
            ends = sorted(some - redirects - set(urls))
            redirects.update(ends)
        asked = [*sorted(urls), *sorted(redirects)]
        found = self.statuses(asked)
        return [found[url] for url in asked if url in found]

    def _followers(self, url: str) -> Iterator[str]:
        prefix = url + END
        return (key[len(prefix) :] for key in task_table(self._state, "pages", url, "followers").names(prefix))

    def groups(self, request: GroupRequest) -> list[GroupAnswer]:
        return list_groups(self._state, request)

    def site(self, site: str) -> SiteFacts | None:
        row = task_table(self._state, "sites", site, "sites").get(site)
        if row is None:
            return None
        return SiteFacts(row.pages, row.lost[0] if row.lost else 0, bool(row.held), row.released)

    def alarms(self) -> list[AlarmLine]:
        return count_alarms(self._store)

    def rejected(self) -> int:
        return self._state.counts().rejected

    def tier2_load(self) -> Tier2Load | None:
        return read_tier2_load(self._store, self.settings.partitions)

    def page_sizes(self) -> PageSizes | None:
        cuts = cuts_of(self._state.partition_map()) if isinstance(self._state, StoredState) else []
        return sizes_of(tally_pages(self._state), cuts)

    def workers(self) -> WorkersNow | None:
        return None

    def breaker_options(self) -> list[str]:
        return ["--state", str(self.path)]

    def last_run(self) -> LastRun | None:
        return read_last_run(self.path)

    def lower_sample(self) -> LowerSample | None:
        from dustream.streams.serve.lower import sample_below

        return sample_below(self._state)

    def inputs(self) -> list[InputStatus]:
        return [InputStatus(path, row.position, row.done) for path, row in self._state.inputs().items()]

    def decisions(self) -> list[StandingDecision]:
        return [_standing(event) for event in read_decisions(self._state) if not is_withdrawal(event)]


def _standing(event: CrawlEvent) -> StandingDecision:
    action, _, on = str(event.decision).partition("_")
    if event.rule is not None:
        rule = rule_of(site_of(event.url), event.rule)
        return StandingDecision("rule", site_of(event.url), action, str(event.fetched_at), rule=rule.id, text=rule.text)
    if event.decision == "not_duplicate":
        return StandingDecision("page", event.url, "not_duplicate", str(event.fetched_at))
    if event.same_as is not None:
        return StandingDecision("pair", event.url, "same", str(event.fetched_at), other=event.same_as)
    name = event.url if on == "group" else site_of(event.url)
    return StandingDecision(on, name, action, str(event.fetched_at), event.pass_from)
