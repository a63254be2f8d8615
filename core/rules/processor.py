"""The rules processor: woken by cluster updates, it keeps the URLs of each site with their groups, and learns.

Of a huge site it keeps a fair sample: the URLs with the lowest hashes, whatever the order of arrival. Learning starts
from that sample alone each time, and so does the life of rules (life.py). A site is learned when the input has run dry;
and, for the time being, by the pattern tree alone, when much has changed since it was learned last. So what is
published is, once everything has come to rest, a function of what is known: not of the order of arrival, nor of when it
was learned before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import RestPart, Send, Table, TaskState
from dustream.core.rules.decisions import RuleDecisionRow
from dustream.core.rules.known_site import KnownSite, RulesSettings, SiteUrlRow, url_hash
from dustream.core.rules.rewrite import rule_id
from dustream.core.urls.standard import standard_form
from dustream.schemas.cluster import ClusterMember, ClusterUpdate, DecidedRule
from dustream.schemas.rules import RuleSet, UrlRule
from dustream.schemas.status import Role

OUTPUT_TOPIC: Final = "url.rules"
URL_CHARS_MAX: Final = 2_048
PLACES_CACHED_MAX: Final = 16_384
KEPT_SHARE: Final = 0.75
"""When there are too many URLs in memory, so much of what is allowed stays: the next time is not at once."""
SITE_COSTS_URLS: Final = 16
"""A site in memory takes as much as so many URLs, even if it has none."""

AVOIDED: Final[frozenset[Role]] = frozenset({"redirect", "gone"})


class RuleSiteRow(Struct, frozen=True, array_like=True):
    """A site. URLs whose hash is not below `hash_bound` are not kept; empty: all are. `is_interim`: it was last learned
    on the way."""

    urls: int = 0
    hash_bound: str = ""
    changes: int = 0
    learned_urls: int = 0
    is_interim: bool = False

    @property
    def is_to_learn(self) -> bool:
        return self.changes > 0 or self.is_interim


TABLES: dict[str, Any] = {
    "rule_sites": RuleSiteRow,
    "rule_urls": SiteUrlRow,
    "rule_sets": RuleSet,
    "rule_decisions": RuleDecisionRow,
}


class SiteToLearn(Struct, frozen=True, array_like=True):
    """What the rules of a site are learned from."""

    site: str
    rows: list[SiteUrlRow]
    decisions: dict[str, RuleDecisionRow]


class RulesProcessor:
    """Input `cluster.updates`, output `url.rules`, both by site."""

    def __init__(self, settings: RulesSettings | None = None) -> None:
        self._settings = settings or RulesSettings()
        self._changed: set[str] = set()
        self._known: dict[str, KnownSite] = {}
        self._kept_urls = 0
        self._done: dict[str, RuleSet] | None = None  # by site, what was learned elsewhere for the next rest

    def open(self, state: TaskState) -> None:
        self._sites: Table[RuleSiteRow] = state.table("rule_sites")
        self._urls: Table[SiteUrlRow] = state.table("rule_urls")
        self._sets: Table[RuleSet] = state.table("rule_sets")
        self._decisions: Table[RuleDecisionRow] = state.table("rule_decisions")
        self._changed = {site for site, row in self._sites.scan() if row.is_to_learn}

    def process(self, state: TaskState, messages: Sequence[ClusterUpdate]) -> list[Send]:
        sent: list[Send] = []
        self._done = None
        for update in messages:
            if update.site:
                self._decide(update.site, update.decisions)
                sent += self._take(update.site, update.members)
        return sent

    def _decide(self, site: str, decisions: Sequence[DecidedRule]) -> None:
        """Store decisions whether or not the rule is known. The site is learned again at rest."""
        for decision in decisions:
            key = f"{site} {rule_id(site, decision.rewrite)}"
            known, new = self._decisions.get(key), RuleDecisionRow(decision.version, decision.verdict, decision.rewrite)
            if known is not None and new.weight <= known.weight:
                continue
            self._decisions.put(key, new)
            row = self._sites.get(site) or RuleSiteRow()
            self._sites.put(site, replace(row, changes=row.changes + 1))
            self._changed.add(site)

    def at_rest(self, state: TaskState) -> list[Send]:
        """Nothing is left to read for now: learn all sites of which anything changed."""
        done, self._done = self._done, None
        sent: list[Send] = []
        for site, row in self._to_learn():
            if done is None:
                sent += self._learn(site, row)
            else:
                sent += self._learned(site, row, done[site].rules if site in done else ())
        self._changed.clear()
        return sent

    def parts_at_rest(self) -> list[RestPart]:
        """Sites to learn, by their URLs."""
        return [RestPart(row.urls, partial(self._site_to_learn, site)) for site, row in self._to_learn()]

    def take_done(self, done: dict[str, RuleSet]) -> None:
        self._done = done

    def _to_learn(self) -> Iterator[tuple[str, RuleSiteRow]]:
        for site in sorted(self._changed):
            row = self._sites.get(site)
            if row is not None and row.is_to_learn:
                yield site, row

    def _site_to_learn(self, site: str) -> SiteToLearn:
        return SiteToLearn(site, [url for _, url in self._urls.scan(f"{site} ")], self._decided(site))

    def _decided(self, site: str) -> dict[str, RuleDecisionRow]:
        return {key[len(site) + 1 :]: decided for key, decided in self._decisions.scan(f"{site} ")}

    def _take(self, site: str, members: Sequence[ClusterMember]) -> list[Send]:
        row = self._sites.get(site) or RuleSiteRow()
        known = self._known.get(site) if row.urls else KnownSite()
        changes = new = 0
        for member in members:
            url, hashed = _place(member.url)
            if len(url) > URL_CHARS_MAX or (row.hash_bound and hashed >= row.hash_bound):
                continue
            key = f"{site} {hashed} {url}"
            before = self._urls.get(key)
            after = _row(url, member)
            if before is not None and not _replaces(after, before):
                continue
            self._urls.put(key, after)
            if known is not None:
                known.take(after)
            changes += 1
            new += before is None
        if not changes:
            return []
        if known is not None:
            self._known[site] = known
        return self._changed_by(site, row, changes, new)

    def _changed_by(self, site: str, row: RuleSiteRow, changes: int, new: int) -> list[Send]:
        """Learns at once if it is enough, and learning does not wait for the end of the input."""
        self._changed.add(site)
        self._kept_urls += changes + (SITE_COSTS_URLS if row.urls == 0 else 0)
        self._keep_within_limits()
        row = self._bounded(site, replace(row, urls=row.urls + new, changes=row.changes + changes))
        self._sites.put(site, row)
        settings = self._settings
        enough = max(settings.relearn_changes_min, int(settings.relearn_share * row.learned_urls))
        is_due = settings.learns_on_the_way and row.changes >= enough
        return self._learn(site, row, on_the_way=True) if is_due else []

    def _learn(self, site: str, row: RuleSiteRow, on_the_way: bool = False) -> list[Send]:
        known = self._known_site(site)
        size = known.size
        rules = known.rules(site, self._settings, "tree" if on_the_way else "both", self._decided(site))
        self._kept_urls += known.size - size
        return self._learned(site, row, rules, on_the_way)

    def _learned(self, site: str, row: RuleSiteRow, rules: tuple[UrlRule, ...], on_the_way: bool = False) -> list[Send]:
        """Publishes what was learned, if it is anything new."""
        learned_urls = min(row.urls, self._settings.sample_max)
        self._sites.put(site, replace(row, changes=0, learned_urls=learned_urls, is_interim=on_the_way))
        before = self._sets.get(site)
        if rules == (before.rules if before else ()):
            return []
        rule_set = RuleSet(site=site, version=before.version + 1 if before else 1, rules=rules)
        self._sets.put(site, rule_set)
        return [Send(OUTPUT_TOPIC, site, rule_set)]

    def _known_site(self, site: str) -> KnownSite:
        """As it is in memory, or made from its rows. The one that was learned last is the last to be let go."""
        known = self._known.pop(site, None)
        if known is None or known.is_littered:
            known = KnownSite(row for _, row in self._urls.scan(f"{site} "))
            self._kept_urls += SITE_COSTS_URLS + known.size
        self._known[site] = known
        self._keep_within_limits()
        return known

    def _keep_within_limits(self) -> None:
        """Of the sites in memory those go that were not learned for the longest time."""
        if self._kept_urls <= self._settings.kept_urls_max:
            return
        self._kept_urls = sum(SITE_COSTS_URLS + known.size for known in self._known.values())
        for site in list(self._known)[:-1]:
            if self._kept_urls <= self._settings.kept_urls_max * KEPT_SHARE:
                break
            self._kept_urls -= SITE_COSTS_URLS + self._known.pop(site).size

    def _bounded(self, site: str, row: RuleSiteRow) -> RuleSiteRow:
        """Cut back to the sample when a tenth too many are kept."""
        sample_max = self._settings.sample_max
        if row.urls <= sample_max + sample_max // 10:
            return row
        surplus = list(islice(self._urls.scan(f"{site} "), sample_max, None))
        known = self._known.get(site)
        for key, each in surplus:
            self._urls.delete(key)
            if known is not None:
                known.forget(each.url)
        return replace(row, urls=sample_max, hash_bound=surplus[0][0].split(" ")[1])


def newest_decisions(site: str, decided: Iterable[DecidedRule]) -> dict[str, RuleDecisionRow]:
    """The decisions that count, by rule id, in the order of a store."""
    newest: dict[str, RuleDecisionRow] = {}
    for each in decided:
        name, row = rule_id(site, each.rewrite), RuleDecisionRow(each.version, each.verdict, each.rewrite)
        if name not in newest or row.weight > newest[name].weight:
            newest[name] = row
    return dict(sorted(newest.items()))


def newest_rows(members: Iterable[ClusterMember]) -> Collection[SiteUrlRow]:
    """What the processor keeps of these members of one site, if it keeps all."""
    rows: dict[str, SiteUrlRow] = {}
    for member in members:
        url = standard_form(member.url)
        if len(url) > URL_CHARS_MAX:
            continue
        before, after = rows.get(url), _row(url, member)
        if before is None or _replaces(after, before):
            rows[url] = after
    return rows.values()


def _replaces(after: SiteUrlRow, before: SiteUrlRow) -> bool:
    return after.version >= before.version and _says(after) != _says(before)


def _row(url: str, member: ClusterMember) -> SiteUrlRow:
    """Of the page that it names, the standard form."""
    named = None if member.canonical is None else _place(member.canonical)[0]
    canonical = named if named is not None and len(named) <= URL_CHARS_MAX else None
    avoid = member.role in AVOIDED
    return SiteUrlRow(url, member.version, _cluster(member), avoid, member.since, canonical, member.changed)


def _says(row: SiteUrlRow) -> tuple[str | None, bool, int, str | None, bool]:
    return row.cluster, row.avoid, row.since, row.canonical, row.changed


def _cluster(member: ClusterMember) -> str | None:
    """What is similar to one winner. Not the group: that is linked by chains, and a rule must not follow a chain.

    Of a page that is gone or held back, or in no group because its content is not known, nothing is known. A page that
    is contained in another says something else. One that an operator decided to be the same as its winner speaks
    neither for nor against a rule."""
    if member.role in ("gone", "held") or (member.role == "unique" and member.group is None):
        return None
    if member.relation == "decided":
        return None
    if member.relation == "contained":
        return member.group
    return member.winner or member.group or member.url


@lru_cache(maxsize=PLACES_CACHED_MAX)
def _place(url: str) -> tuple[str, str]:
    """The standard form of a URL and its hash: while groups form, a page is reported several times."""
    standard = standard_form(url)
    return standard, f"{url_hash(standard):016x}"
