"""The rules processor: woken by cluster updates, it keeps the URLs of each site with their groups, scores the rules it
has on every page that arrives, and learns anew when enough has changed.

Of a huge site it keeps a fair sample: the URLs with the lowest hashes, whatever the order of arrival. Learning starts
from that sample alone each time, so its outcome is that of learning from scratch; only the stages of rules have a
history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import Send, Table, TaskState
from dustream.core.rules.decompose import decompose
from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.life import LifeSettings, relearned, reviewed, scored
from dustream.core.rules.rewrite import Rewriter, rewriter
from dustream.core.rules.standard import standard_form
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet, UrlRule
from dustream.schemas.status import Role

OUTPUT_TOPIC: Final = "url.rules"
SITES_COMPILED_MAX: Final = 1_024
URL_CHARS_MAX: Final = 2_048

AVOIDED: Final[frozenset[Role]] = frozenset({"redirect", "gone"})


class SiteUrlRow(Struct, frozen=True, array_like=True):
    """A URL of a site. `predictions`: what its arrival told about rules, (rule id, right)."""

    url: str
    version: tuple[int, int]
    group: str | None
    role: Role
    predictions: tuple[tuple[str, bool], ...] = ()


class SiteRow(Struct, frozen=True, array_like=True):
    """A site. URLs whose hash is not below `hash_bound` are not kept; empty: all are."""

    urls: int = 0
    hash_bound: str = ""
    changes: int = 0
    changes_until_review: int = 0
    learned_urls: int = 0
    relearn: bool = False
    version: int = 0
    rules: tuple[UrlRule, ...] = ()


class WaitingRow(Struct, frozen=True, array_like=True):
    """A page whose rewritten URL has not arrived yet: when it does, the prediction can be told."""

    source: str


class RulesSettings(NamedTuple):
    """Learning waits for `relearn_changes_min` changed URLs, and for that share of what it learned from last."""

    sample_max: int = 100_000
    relearn_changes_min: int = 100
    relearn_share: float = 0.2
    review_changes: int = 20
    learn: LearnSettings = LearnSettings()
    life: LifeSettings = LifeSettings()


class RulesProcessor:
    """Input `cluster.updates`, output `url.rules`, both by site.

    Tables `rule_sites` (SiteRow), `rule_urls` (SiteUrlRow), `rule_waiting` (WaitingRow).
    """

    def __init__(self, settings: RulesSettings | None = None) -> None:
        self._settings = settings or RulesSettings()
        self._compiled: dict[str, tuple[tuple[UrlRule, ...], list[tuple[UrlRule, Rewriter]]]] = {}

    def open(self, state: TaskState) -> None:
        self._compiled = {}

    def process(self, state: TaskState, messages: Sequence[ClusterUpdate]) -> list[Send]:
        sent: list[Send] = []
        for update in messages:
            for member in update.members:
                sent += self._take(state, update.site, member)
        return sent

    def _take(self, state: TaskState, site: str, member: ClusterMember) -> list[Send]:
        sites: Table[SiteRow] = state.table("rule_sites")
        urls: Table[SiteUrlRow] = state.table("rule_urls")
        before = sites.get(site) or SiteRow()
        url = standard_form(member.url)
        hashed = _hash(url)
        if not site or len(url) > URL_CHARS_MAX or (before.hash_bound and hashed >= before.hash_bound):
            return []
        key = f"{site} {hashed} {url}"
        known = urls.get(key)
        if known is not None and (member.version < known.version or _says(known) == (member.group, member.role)):
            return []
        row = SiteUrlRow(url, member.version, member.group, member.role)
        after, row = self._scored(state, site, before, row, known)
        urls.put(key, row)
        after = self._told_at_last(state, site, after, hashed) if known is None else after
        after = replace(after, urls=after.urls + (known is None), changes=after.changes + 1)
        after = self._bounded(state, site, self._reviewed(after))
        after = self._relearned(urls, site, after)
        told = _told(before.rules) != _told(after.rules)
        after = replace(after, version=after.version + 1) if told else after
        sites.put(site, after)
        return [Send(OUTPUT_TOPIC, site, RuleSet(site=site, version=after.version, rules=after.rules))] if told else []

    # ------------------------------------------------------------ scoring

    def _scored(
        self, state: TaskState, site: str, row: SiteRow, page: SiteUrlRow, known: SiteUrlRow | None
    ) -> tuple[SiteRow, SiteUrlRow]:
        """What this page tells about the rules; what it told before is taken back."""
        taken_back = dict(known.predictions) if known else {}
        predictions = dict(self._predictions(state, site, row, page))
        rules = []
        for rule in row.rules:
            old, new = taken_back.get(rule.id), predictions.get(rule.id)
            if old is not new:
                rule = scored(rule, (new is True) - (old is True), (new is False) - (old is False), self._settings.life)
            rules.append(rule)
        return replace(row, rules=tuple(rules)), replace(page, predictions=tuple(sorted(predictions.items())))

    def _predictions(self, state: TaskState, site: str, row: SiteRow, page: SiteUrlRow) -> Iterator[tuple[str, bool]]:
        if _cluster(page) is None:
            return
        urls: Table[SiteUrlRow] = state.table("rule_urls")
        pairs = decompose(page.url)
        for rule, run in self._runnable(site, row.rules):
            after = run.apply(page.url, pairs)
            target = page.url if after is None else standard_form(after)
            if target == page.url:
                continue
            hashed = _hash(target)
            other = urls.get(f"{site} {hashed} {target}")
            if other is not None:
                yield rule.id, other.role not in AVOIDED and _cluster(other) == _cluster(page)
            elif not row.hash_bound or hashed < row.hash_bound:
                state.table("rule_waiting").put(f"{site} {hashed} {rule.id}", WaitingRow(page.url))

    def _told_at_last(self, state: TaskState, site: str, row: SiteRow, hashed: str) -> SiteRow:
        """Pages that were waiting for this one tell about the rules now."""
        waiting: Table[WaitingRow] = state.table("rule_waiting")
        urls: Table[SiteUrlRow] = state.table("rule_urls")
        for key, entry in list(waiting.scan(f"{site} {hashed} ")):
            waiting.delete(key)
            source_key = f"{site} {_hash(entry.source)} {entry.source}"
            source = urls.get(source_key)
            if source is not None:
                row, source = self._scored(state, site, row, source, source)
                urls.put(source_key, source)
        return row

    def _runnable(self, site: str, rules: tuple[UrlRule, ...]) -> list[tuple[UrlRule, Rewriter]]:
        """The rules that make predictions: those in shadow and the active ones."""
        told = _told(rules)
        known = self._compiled.get(site)
        if known is None or _told(known[0]) != told:
            if len(self._compiled) >= SITES_COMPILED_MAX:
                self._compiled.clear()
            runnable = [(rule, rewriter(rule.rewrite)) for rule in rules if rule.stage in ("shadow", "active")]
            known = self._compiled[site] = (rules, runnable)
        return known[1]

    def _reviewed(self, row: SiteRow) -> SiteRow:
        """Now and then, not at every page: groups take a few messages to form."""
        if row.changes_until_review > 0:
            return replace(row, changes_until_review=row.changes_until_review - 1)
        rules = tuple(reviewed(rule, self._settings.life) for rule in row.rules)
        lost = any(b.stage == "active" and a.stage == "revoked" for b, a in zip(row.rules, rules, strict=True))
        return replace(
            row, rules=rules, relearn=row.relearn or lost, changes_until_review=self._settings.review_changes
        )

    # ------------------------------------------------------------ learning

    def _relearned(self, urls: Table[SiteUrlRow], site: str, row: SiteRow) -> SiteRow:
        """Learn anew if enough has changed, or an active rule was revoked."""
        enough = max(self._settings.relearn_changes_min, int(self._settings.relearn_share * row.learned_urls))
        if row.changes < enough and not row.relearn:
            return row
        learned = learn_site(site, sample(urls, site, self._settings.sample_max), settings=self._settings.learn)
        rules = relearned(row.rules, learned.rules, self._settings.life)
        return replace(
            row, rules=rules, changes=0, relearn=False, learned_urls=min(row.urls, self._settings.sample_max)
        )

    def _bounded(self, state: TaskState, site: str, row: SiteRow) -> SiteRow:
        """Cut back to the sample when a tenth too many are kept."""
        urls: Table[SiteUrlRow] = state.table("rule_urls")
        sample_max = self._settings.sample_max
        if row.urls <= sample_max + sample_max // 10:
            return row
        surplus = [key for key, _ in islice(urls.scan(f"{site} "), sample_max, None)]
        for key in surplus:
            urls.delete(key)
        bound = surplus[0].split(" ")[1]
        waiting: Table[WaitingRow] = state.table("rule_waiting")
        for key in [key for key, _ in waiting.scan(f"{site} ") if key.split(" ")[1] >= bound]:
            waiting.delete(key)
        return replace(row, urls=sample_max, hash_bound=bound)


def sample(urls: Table[SiteUrlRow], site: str, sample_max: int) -> Iterator[SiteUrl]:
    """What learning starts from: the URLs of a site with the lowest hashes."""
    for _, row in islice(urls.scan(f"{site} "), sample_max):
        yield SiteUrl(row.url, _cluster(row), avoid=row.role in AVOIDED)


def _cluster(row: SiteUrlRow) -> str | None:
    """A page that is in no group is a cluster of its own; of a page that is gone or held back nothing is known."""
    if row.role in ("gone", "held"):
        return None
    return row.group if row.group is not None else row.url


def _says(row: SiteUrlRow) -> tuple[str | None, Role]:
    return row.group, row.role


def _told(rules: tuple[UrlRule, ...]) -> list[tuple[str, str]]:
    """What readers of the rule set would notice: which rules there are, and their stages."""
    return [(rule.id, rule.stage) for rule in rules]


def _hash(url: str) -> str:
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def make_processor(settings: RulesSettings | None = None) -> Callable[[], RulesProcessor]:
    """For the topology."""
    return lambda: RulesProcessor(settings)
