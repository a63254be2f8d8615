"""The answers of the service, from a source. `Lookups` also keeps the rules ready, and the digest up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import NamedTuple

import msgspec

from dustream.core.errors import BadEvent
from dustream.core.rules.normalize import Explanation, Normalizer
from dustream.core.urls.identity import page_identity
from dustream.core.urls.sites import site_of
from dustream.schemas.lookup import (
    DecideAnswer,
    FetchReason,
    GroupDetail,
    NormalizeAnswer,
    NormalizeStep,
    RulesAnswer,
    SiteAnswer,
    StatsAnswer,
    UrlAnswer,
    UrlsAnswer,
    UrlStatus,
)
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus, is_kept
from dustream.streams.questions.group_list import GroupRequest
from dustream.streams.serve.answers import GroupsAnswer, WhyAnswer
from dustream.streams.serve.digest import Digest, make_digest
from dustream.streams.serve.source import LookupSource, Seen
from dustream.streams.serve.wording import invalid_status, status_words, unknown_status, url_status

CATCH_UP_INTERVAL_S = 0.5
ASKED_CATCH_UP_INTERVAL_S = 0.02  # for a request with min_position
DIGEST_INTERVAL_S = 5.0
DIGEST_SHARE_MAX = 0.1  # of the time may go into digests while a run adds pages


class NotFound(Exception):
    """There is no such group or site."""


class _Advice(NamedTuple):
    """Why a URL need not be fetched, and which is kept for it; or why it is to be fetched."""

    reason: FetchReason
    words: str
    same_as: str | None = None
    rule: str | None = None


class Lookups:
    """One source and what is derived from it."""

    def __init__(self, source: LookupSource, new_digest: Callable[[], Digest] | None = None) -> None:
        self.source = source
        self._new_digest = new_digest or partial(make_digest, source)
        self._catching_up = Lock()
        self._reading_rules = Lock()
        self._caught_up_at = time.monotonic()
        self._rule_sets: dict[str, RuleSet] = {}
        self._normalizer = Normalizer()
        self._read_rules()
        self._seen = source.seen()
        started = time.monotonic()
        self.digest: Digest = self._new_digest()
        self._digest_s = time.monotonic() - started
        self._digest_at = time.monotonic()

    def _read_rules(self) -> None:
        """One thread at a time: what an earlier reader found must not replace what a later one found."""
        with self._reading_rules:
            found = {rules.site: rules for rules in self.source.rule_sets()}
            if found != self._rule_sets:
                self._rule_sets, self._normalizer = found, Normalizer(found.values())

    # Following the source

    def catch_up(self, interval_s: float = CATCH_UP_INTERVAL_S) -> None:
        """Include what was committed since, unless that was done a moment ago."""
        if time.monotonic() - self._caught_up_at < interval_s:
            return
        with self._catching_up:
            self.source.catch_up()
            self._caught_up_at = time.monotonic()
            now = self.source.seen()
            if now.settled and now != self._seen:
                self._read_rules()
            self._seen = now  # last: an answer that claims this position has its rules, and a failure is tried again

    @property
    def is_digest_due(self) -> bool:
        wait_s = max(DIGEST_INTERVAL_S, self._digest_s / DIGEST_SHARE_MAX)
        is_old = (self.digest.position, self.digest.settled) != self.source.seen()[:2]
        return is_old and time.monotonic() - self._digest_at >= wait_s

    def renew_digest(self) -> None:
        """Takes as long as reading all statuses: call it in a thread of its own."""
        started = time.monotonic()
        self._read_rules()
        self.digest = self._new_digest()
        self._digest_at = time.monotonic()
        self._digest_s = self._digest_at - started

    def seen(self, min_position: int | str = 0) -> Seen:
        """How far the input is included; catches up if that is less than asked for, which reads files."""
        if not self._seen.has_settled(min_position):
            self.catch_up(ASKED_CATCH_UP_INTERVAL_S)
        return self._seen

    # One URL

    async def url(self, seen: Seen, text: str) -> UrlAnswer:
        url = page_identity(text)
        status = await self.source.status_soon(url)
        found = unknown_status(url) if status is None else url_status(status)
        return UrlAnswer(position=seen.position, settled=seen.settled, **msgspec.structs.asdict(found))

    def urls(self, seen: Seen, texts: Iterable[str]) -> UrlsAnswer:
        asked = [(text, _identity_or_error(text)) for text in texts]
        found = self.source.statuses([url for _, url in asked if isinstance(url, str)])
        statuses = [
            invalid_status(text, str(url)) if isinstance(url, BadEvent) else _found_status(url, found)
            for text, url in asked
        ]
        return UrlsAnswer(position=seen.position, settled=seen.settled, statuses=statuses)

    def decide(self, seen: Seen, text: str) -> DecideAnswer:
        """Skip only what is certain: a known duplicate or redirect, or a URL that active rules lead to a known page."""
        url = page_identity(text)
        normalized = self._normalizer.normalize(url)
        status = self.source.status(url)
        advice = self._advice_on_new(url, normalized) if status is None else _advice_on_known(status)
        return DecideAnswer(
            position=seen.position,
            settled=seen.settled,
            url=url,
            action="fetch" if advice.same_as is None else "skip",
            reason=advice.reason,
            words=advice.words,
            same_as=advice.same_as,
            rule=advice.rule,
            normalized=normalized,
        )

    def _advice_on_new(self, url: str, normalized: str) -> _Advice:
        rules = [] if normalized == url else [step for step in self.explain(url).steps if step.rule]
        leads_to = _identity(normalized) if rules else None
        status = None if leads_to is None else self.source.status(leads_to)
        kept = None if status is None else _kept_for(status)
        if kept is None:
            return _Advice("new", "not known")
        return _Advice("rule", f"rule {rules[-1].name} leads to {leads_to}, which is known", kept, rules[-1].rule)

    def explain(self, text: str) -> Explanation:
        return self._normalizer.explain(text)

    def normalize(self, seen: Seen, text: str) -> NormalizeAnswer:
        explained = self.explain(text)
        identity = _identity(explained.normalized)
        return NormalizeAnswer(
            position=seen.position,
            settled=seen.settled,
            url=text,
            normalized=explained.normalized,
            site=explained.site,
            known=identity is not None and self.source.status(identity) is not None,
            steps=[NormalizeStep(step.name, step.url, step.rule or None) for step in explained.steps],
        )

    # Several pages

    def why(self, seen: Seen, one: str, other: str | None, market: str | None, *, text: bool) -> WhyAnswer:
        a = page_identity(one)
        if other is not None:
            b = page_identity(other)
            pair = self.source.pair(a, b, market)
            diff = self.source.texts(a, b) if text else None
            return WhyAnswer(position=seen.position, settled=seen.settled, pair=pair, text=diff)
        page = self.source.page(a, market)
        has_winner = text and page.winner is not None and page.winner != a
        diff = self.source.texts(a, page.winner or "") if has_winner else None
        return WhyAnswer(position=seen.position, settled=seen.settled, page=page, text=diff)

    def group(self, seen: Seen, group: str, members_max: int) -> GroupDetail:
        found = self.source.group(page_identity(group), members_max)
        if found is None:
            raise NotFound(f"there is no group {group}: a group's id is the URL of one of its pages")
        return GroupDetail(
            position=seen.position,
            settled=seen.settled,
            group=found.group,
            size=found.size,
            held=found.held,
            weakest_link=found.weakest_link,
            members=[url_status(status) for status in found.members],
            left_out=found.left_out,
        )

    def groups(self, seen: Seen, request: GroupRequest) -> GroupsAnswer:
        groups = self.source.groups(request)
        return GroupsAnswer(position=seen.position, settled=seen.settled, groups=groups)

    # Sites and totals

    def site(self, seen: Seen, name: str) -> SiteAnswer:
        site = site_of(name)
        facts = self.source.site(site)
        if facts is None:
            raise NotFound(f"no page of the site {name} is known")
        return SiteAnswer(
            position=seen.position, settled=seen.settled, site=site, rules=self._stages(site), **facts._asdict()
        )

    def _stages(self, site: str) -> dict[str, int]:
        stages: dict[str, int] = {}
        rules = self._rule_sets.get(site)
        for rule in () if rules is None else rules.rules:
            stages[rule.stage] = stages.get(rule.stage, 0) + 1
        return stages

    def rule_set(self, site: str) -> RuleSet | None:
        return self._rule_sets.get(site)

    def rules(self, seen: Seen, name: str) -> RulesAnswer:
        site = site_of(name)
        found = self.rule_set(site)
        rules = () if found is None else found.rules
        return RulesAnswer(position=seen.position, settled=seen.settled, site=site, rules=rules)

    def stats(self, seen: Seen) -> StatsAnswer:
        digest = self.digest
        return StatsAnswer(
            position=seen.position,
            settled=seen.settled,
            counted_at=digest.position,
            pages=digest.urls,
            kept=digest.kept,
            roles=digest.roles,
            relations=digest.relations,
            groups=digest.group_count,
            largest_group=digest.largest_group,
            rules=digest.rule_stages,
            rejected=self.source.rejected(),
            inputs=self.source.inputs(),
        )


def _advice_on_known(status: DuplicateStatus) -> _Advice:
    words, kept = status_words(status), _kept_for(status)
    if is_kept(status.role):
        return _Advice("kept", words)
    if status.role == "gone":
        return _Advice("gone", words)
    if kept is None:
        return _Advice("unresolved", words)
    return _Advice("duplicate" if status.role == "duplicate" else "redirect", words, kept)


def _kept_for(status: DuplicateStatus) -> str | None:
    """The URL kept for a known URL's content; None if there is none."""
    if is_kept(status.role):
        return status.url
    return status.winner if status.role in ("duplicate", "redirect") and status.problem is None else None


def _found_status(url: str, found: dict[str, DuplicateStatus]) -> UrlStatus:
    return url_status(found[url]) if url in found else unknown_status(url)


def _identity_or_error(text: str) -> str | BadEvent:
    try:
        return page_identity(text)
    except BadEvent as error:
        return error


def _identity(url: str) -> str | None:
    try:
        return page_identity(url)
    except BadEvent:
        return None
