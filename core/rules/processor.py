"""The rules processor: woken by cluster updates, it keeps the URLs of each site with their groups, and learns.

Of a huge site it keeps a fair sample: the URLs with the lowest hashes, whatever the order of arrival. Learning starts
from that sample alone each time, and so does the life of rules (life.py). A site is learned when as much has changed as
was known when it was learned last, and when the input has run dry. So what is published is, once everything has come to
rest, a function of what is known: not of the order of arrival, nor of when it was learned before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.processor import Send, Table, TaskState
from dustream.core.rules.evidence import EvidenceIndex
from dustream.core.rules.learn import LearnSettings, Method, SiteUrl, learn_site
from dustream.core.rules.life import HELD_OUT_ONE_IN, LifeSettings, lived, predictions
from dustream.core.rules.standard import standard_form
from dustream.core.rules.training import KnownUrl, training_set
from dustream.core.rules.url_table import UrlTable
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet, UrlRule
from dustream.schemas.status import Role

OUTPUT_TOPIC: Final = "url.rules"
URL_CHARS_MAX: Final = 2_048
PLACES_CACHED_MAX: Final = 16_384

AVOIDED: Final[frozenset[Role]] = frozenset({"redirect", "gone"})


class SiteUrlRow(Struct, frozen=True, array_like=True):
    """A URL of a site, the winner it is known to be similar to (None: nothing is known of its content), whether it
    redirects or is gone, and the fetch that brought what it is now."""

    url: str
    version: tuple[int, int]
    cluster: str | None
    avoid: bool = False
    since: int = 0


class SiteRow(Struct, frozen=True, array_like=True):
    """A site. URLs whose hash is not below `hash_bound` are not kept; empty: all are."""

    urls: int = 0
    hash_bound: str = ""
    changes: int = 0
    learned_urls: int = 0


TABLES: dict[str, Any] = {"rule_sites": SiteRow, "rule_urls": SiteUrlRow, "rule_sets": RuleSet}


class RulesSettings(NamedTuple):
    """While input keeps coming, learning waits for `relearn_changes_min` changes, and for that many times the URLs that
    were learned from last. A page changes its winner some four times until all its duplicates are there, so a site is
    learned on the way when it has grown six times or so, and all that costs about a fifth of the learning at rest.

    The pattern tree alone: groups are known here, and DustBuster, made for logs without pages, costs several times it.
    """

    sample_max: int = 100_000
    relearn_changes_min: int = 20_000
    relearn_share: float = 20.0
    method: Method = "tree"
    learn: LearnSettings = LearnSettings()
    life: LifeSettings = LifeSettings()


class RulesProcessor:
    """Input `cluster.updates`, output `url.rules`, both by site."""

    def __init__(self, settings: RulesSettings | None = None) -> None:
        self._settings = settings or RulesSettings()
        self._changed: set[str] = set()

    def open(self, state: TaskState) -> None:
        self._sites: Table[SiteRow] = state.table("rule_sites")
        self._urls: Table[SiteUrlRow] = state.table("rule_urls")
        self._sets: Table[RuleSet] = state.table("rule_sets")
        self._changed = {site for site, row in self._sites.scan() if row.changes}

    def process(self, state: TaskState, messages: Sequence[ClusterUpdate]) -> list[Send]:
        sent: list[Send] = []
        for update in messages:
            for member in update.members:
                sent += self._take(update.site, member)
        return sent

    def at_rest(self, state: TaskState) -> list[Send]:
        """Nothing is left to read for now: learn all sites of which anything changed."""
        sent: list[Send] = []
        for site in sorted(self._changed):
            row = self._sites.get(site)
            if row is not None and row.changes:
                sent += self._learn(site, row)
        self._changed.clear()
        return sent

    def _take(self, site: str, member: ClusterMember) -> list[Send]:
        before = self._sites.get(site) or SiteRow()
        url, hashed = _place(member.url)
        if not site or len(url) > URL_CHARS_MAX or (before.hash_bound and hashed >= before.hash_bound):
            return []
        key = f"{site} {hashed} {url}"
        known = self._urls.get(key)
        row = SiteUrlRow(url, member.version, _cluster(member), member.role in AVOIDED, member.since)
        if known is not None and (row.version < known.version or _says(row) == _says(known)):
            return []
        self._urls.put(key, row)
        self._changed.add(site)
        after = replace(before, urls=before.urls + (known is None), changes=before.changes + 1)
        after = self._bounded(site, after)
        self._sites.put(site, after)
        enough = max(self._settings.relearn_changes_min, int(self._settings.relearn_share * after.learned_urls))
        return self._learn(site, after) if after.changes >= enough else []

    def _learn(self, site: str, row: SiteRow) -> list[Send]:
        """Publishes what was learned, if it is anything new."""
        rules = learned_rules(site, sample(self._urls, site, self._settings.sample_max), self._settings)
        self._sites.put(site, replace(row, changes=0, learned_urls=min(row.urls, self._settings.sample_max)))
        before = self._sets.get(site)
        if rules == (before.rules if before else ()):
            return []
        rule_set = RuleSet(site=site, version=before.version + 1 if before else 1, rules=rules)
        self._sets.put(site, rule_set)
        return [Send(OUTPUT_TOPIC, site, rule_set)]

    def _bounded(self, site: str, row: SiteRow) -> SiteRow:
        """Cut back to the sample when a tenth too many are kept."""
        sample_max = self._settings.sample_max
        if row.urls <= sample_max + sample_max // 10:
            return row
        surplus = [key for key, _ in islice(self._urls.scan(f"{site} "), sample_max, None)]
        for key in surplus:
            self._urls.delete(key)
        return replace(row, urls=sample_max, hash_bound=surplus[0].split(" ")[1])


def sample(urls: Table[SiteUrlRow], site: str, sample_max: int) -> list[SiteUrlRow]:
    """What rules are made from: the URLs of a site with the lowest hashes."""
    return [row for _, row in islice(urls.scan(f"{site} "), sample_max)]


def learned_rules(site: str, rows: Sequence[SiteUrlRow], settings: RulesSettings) -> tuple[UrlRule, ...]:
    """The rules of a site with their stages, from what is known of its URLs now."""
    if _repeats(rows) < settings.learn.gain_min:
        return ()
    hashes = {row.url: _hash(row.url) for row in rows}
    table = UrlTable()
    known = training_set((KnownUrl(row.url, row.cluster, row.avoid) for row in rows), table)
    shown = [SiteUrl(row.url, row.cluster, avoid=row.avoid) for row in rows if not _is_held_out(hashes[row.url])]
    learned = learn_site(site, shown, settings.method, settings.learn, table=table)
    if not learned.rules:
        return ()
    fetched = {row.url: (row.since, hashes[row.url]) for row in rows}
    since = np.empty(known.size, np.int32)
    since[sorted(range(known.size), key=lambda i: fetched[known.urls[i]])] = np.arange(known.size, dtype=np.int32)
    held_out = np.array([_is_held_out(hashes[url]) for url in known.urls], np.bool_)
    index = EvidenceIndex(known)
    return tuple(lived(rule, predictions(rule, index, since, held_out), settings.life) for rule in learned.rules)


def is_held_out(url: str) -> bool:
    """Whether a URL is kept from the learner, to prove rules on. By its last bits: a sample is by the first."""
    return _is_held_out(_hash(url))


def _is_held_out(hashed: str) -> bool:
    return int(hashed[-4:], 16) % HELD_OUT_ONE_IN == 0


def _says(row: SiteUrlRow) -> tuple[str | None, bool, int]:
    return row.cluster, row.avoid, row.since


def _repeats(rows: Iterable[SiteUrlRow]) -> int:
    """How many URLs fewer there could be."""
    clusters = [row.cluster for row in rows if row.cluster is not None]
    return len(clusters) - len(set(clusters))


def _cluster(member: ClusterMember) -> str | None:
    """What is similar to one winner. Not the group: that is linked by chains, and a rule must not follow a chain.

    Of a page that is gone or held back nothing is known. A page that is contained in another says something else."""
    if member.role in ("gone", "held"):
        return None
    if member.relation == "contained":
        return member.group
    return member.winner or member.group or member.url


@lru_cache(maxsize=PLACES_CACHED_MAX)
def _place(url: str) -> tuple[str, str]:
    """The standard form of a URL and its hash: while groups form, a page is told of several times."""
    standard = standard_form(url)
    return standard, _hash(standard)


def _hash(url: str) -> str:
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
