"""What a task knows of one site, as columns, and the rules that it has learned from them.

All of it is derived from the rows of the site. What came since the site was learned last waits in a dictionary; only
that is taken apart and sorted in when the site is learned again. Rules depend on which URLs share a cluster, on none of
its names: if that has not changed, the learned rules stand, and only their life is computed again.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from dustream.core.kernels.hash_slots import Hashes, Ints
from dustream.core.rules.ages import Ages, ages_of
from dustream.core.rules.coverage import known_share
from dustream.core.rules.decisions import NO_DECISIONS, RuleDecisions
from dustream.core.rules.evidence import Bools, EvidenceIndex, Places
from dustream.core.rules.given import rule_of
from dustream.core.rules.labels import NOT_NAMED, with_canonical
from dustream.core.rules.learn import LearnSettings, Method, SiteUrls, learn_urls
from dustream.core.rules.life import HELD_OUT_ONE_IN, LifeSettings, decided, lived, record
from dustream.core.rules.training import RANK_AVOIDED, Ranks, TrainingSet, in_order, training_of
from dustream.core.rules.url_table import UrlTable
from dustream.core.winners import CANONICAL_PLACES
from dustream.schemas.rules import UrlRule

SORTED_PER_INSERTED: Final = 32
"""Texts that are read by sorting in the time that one is inserted."""

LEFTOVERS_MAX: Final = 1_000
"""URLs of the table that are no longer known, or were only rewritten to, beyond as many as are known."""


CHANCE_DEVIATIONS: Final = 2.0
"""In a run more pages come: a rule that is a little over a limit by chance is not taken away and given back."""


class SiteUrlRow(Struct, frozen=True, array_like=True):
    """A URL of a site. `cluster`: the winner it is similar to; None: its content is not known. `avoid`: it redirects or
    is gone. `since`: the fetch that brought what it is now. `canonical`: the other page that it names as canonical.
    `changed`: it was something else before."""

    url: str
    version: tuple[int, int]
    cluster: str | None
    avoid: bool = False
    since: int = 0
    canonical: str | None = None
    changed: bool = False


class RulesSettings(NamedTuple):
    """While input keeps coming, learning waits for `relearn_changes_min` changes, and for that many times the URLs that
    were learned from last. A page changes its winner some four times until all its duplicates are there, so a site is
    learned on the way when it has grown six times or so, and all that costs about a fifth of the learning at rest.
    `learns_on_the_way`: false where the input is known to end, and nobody reads rules before it does.
    """

    sample_max: int = 100_000
    relearn_changes_min: int = 20_000
    relearn_share: float = 20.0
    learns_on_the_way: bool = True
    kept_urls_max: int = 1_000_000
    learn: LearnSettings = LearnSettings()
    life: LifeSettings = LifeSettings()


class Sample(NamedTuple):
    """What rules are made from: the URLs of a site with the lowest hashes, in the order of their text."""

    places: Places
    clusters: Ints
    avoid: Bools
    since: npt.NDArray[np.int64]
    hashes: Hashes
    canonical: Places
    changed: Bools

    def only(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Sample:
        return Sample(
            self.places[which],
            self.clusters[which],
            self.avoid[which],
            self.since[which],
            self.hashes[which],
            self.canonical[which],
            self.changed[which],
        )

    @property
    def ages(self) -> Ages:
        return ages_of(self.since, self.changed)

    @property
    def ranks(self) -> Ranks:
        """What the pages say of themselves (reasons.py)."""
        named = np.where(self.canonical >= 0, CANONICAL_PLACES["other"], CANONICAL_PLACES["none"])
        return np.where(self.avoid, RANK_AVOIDED, named).astype(np.int8)

    def labelled(self, urls: Sequence[str]) -> Sample:
        """With the labels from rel=canonical links, and the pages that they name."""
        if np.all(self.canonical == NOT_NAMED):
            return self
        labels = with_canonical(self.places, self.clusters, self.avoid, self.canonical)
        more = len(labels.named)
        whole = Sample(
            np.append(self.places, labels.named),
            np.append(labels.clusters, labels.named_clusters),
            np.append(self.avoid, np.zeros(more, np.bool_)),
            np.append(self.since, np.zeros(more, np.int64)),
            np.append(self.hashes, url_hashes(urls[place] for place in labels.named.tolist())),
            np.append(self.canonical, np.full(more, NOT_NAMED)),
            np.append(self.changed, np.zeros(more, np.bool_)),
        )
        texts = [urls[place] for place in whole.places.tolist()]
        return whole.only(np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64))

    @property
    def held_out(self) -> Bools:
        """Which are kept from the learner, to prove rules on. By the last bits of a hash: samples are by the first."""
        held_out: Bools = self.hashes % np.uint64(HELD_OUT_ONE_IN) == 0
        return held_out

    @property
    def share(self) -> float:
        """Of the URLs of a site that is larger than the sample: those with hashes up to the greatest are known."""
        return float(self.hashes.max()) / 2.0**64

    @property
    def repeats(self) -> int:
        """How many URLs fewer there could be."""
        return int(np.count_nonzero(self.clusters >= 0)) - int(in_order(self.clusters).max(initial=-1)) - 1

    def digest(self) -> bytes:
        """Of what rules are learned from: the URLs, which of them belong together, and where no rule may lead."""
        columns = (self.places, in_order(self.clusters), self.ranks, *self.ages)
        return hashlib.blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).digest()


class _Columns:
    """By place in the table: what is known of a URL there."""

    def __init__(self) -> None:
        self.table = UrlTable()
        self._numbers: dict[str, int] = {}
        self._by_text = np.zeros(0, np.int64)
        self._known = np.zeros(0, np.bool_)
        self._clusters = np.zeros(0, np.int32)
        self._avoid = np.zeros(0, np.bool_)
        self._since = np.zeros(0, np.int64)
        self._hashes = np.zeros(0, np.uint64)
        self._canonical = np.zeros(0, np.int64)
        self._changed = np.zeros(0, np.bool_)

    def take(self, rows: dict[str, SiteUrlRow | None]) -> None:
        """The newest rows by URL; None: it is no longer known."""
        there = {url: row for url, row in rows.items() if row is not None}
        places = self.table.rows(there)
        naming = {url: row.canonical for url, row in there.items() if row.canonical is not None}
        named = self.table.rows(naming.values())
        self._grow(len(self.table.urls))
        self._canonical[places] = NOT_NAMED
        self._canonical[self.table.rows(naming)] = named
        new = places[~self._known[places]]
        self._known[places] = True
        self._clusters[places] = self._numbered([row.cluster for row in there.values()])
        self._avoid[places] = [row.avoid for row in there.values()]
        self._since[places] = [row.since for row in there.values()]
        self._changed[places] = [row.changed for row in there.values()]
        self._hashes[places] = url_hashes(there)
        gone = [self.table.row_of(url) for url, row in rows.items() if row is None]
        self._known[[place for place in gone if place >= 0]] = False
        if gone:
            self._by_text = self._by_text[self._known[self._by_text]]
        self._by_text = self._sorted_in(new)

    def _sorted_in(self, new: Places) -> Places:
        """The known places with these among them. One by one if they are few: sorting reads all texts."""
        urls, known = self.table.urls, self._by_text
        if len(new) * SORTED_PER_INSERTED > len(known):
            return np.array(sorted([*known.tolist(), *new.tolist()], key=urls.__getitem__), np.int64)
        added = sorted(new.tolist(), key=urls.__getitem__)
        at = [bisect_left(known, urls[place], key=urls.__getitem__) for place in added]
        return np.insert(known, at, added)

    def _numbered(self, clusters: list[str | None]) -> list[int]:
        numbers = self._numbers
        return [-1 if cluster is None else numbers.setdefault(cluster, len(numbers)) for cluster in clusters]

    def _grow(self, size: int) -> None:
        more = max(0, size - len(self._known))
        for name in ("_known", "_clusters", "_avoid", "_since", "_hashes", "_canonical", "_changed"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros(more, column.dtype))))

    def sample(self, sample_max: int) -> Sample:
        places = self._by_text
        known = Sample(
            places,
            self._clusters[places],
            self._avoid[places],
            self._since[places],
            self._hashes[places],
            self._canonical[places],
            self._changed[places],
        )
        if len(places) <= sample_max:
            return known
        return known.only(np.sort(np.argsort(known.hashes, kind="stable")[:sample_max]))

    @property
    def is_littered(self) -> bool:
        litter = max(len(self.table.urls), len(self._numbers)) - len(self._by_text)
        return litter > len(self._by_text) + LEFTOVERS_MAX


class KnownSite:
    """One site. Nothing is taken apart before there are so many duplicates that a rule is worth it."""

    def __init__(self, rows: Iterable[SiteUrlRow] = ()) -> None:
        self._waiting: dict[str, SiteUrlRow | None] = {row.url: row for row in rows}
        self._columns: _Columns | None = None
        self._learned_from = b""
        self._learned: tuple[UrlRule, ...] = ()

    @property
    def size(self) -> int:
        """How many URLs it has in memory."""
        return len(self._waiting) + (len(self._columns.table.urls) if self._columns else 0)

    @property
    def is_littered(self) -> bool:
        """Whether it is better made anew, from the rows."""
        return self._columns is not None and self._columns.is_littered

    def take(self, row: SiteUrlRow) -> None:
        self._waiting[row.url] = row

    def forget(self, url: str) -> None:
        self._waiting[url] = None

    def rules(
        self, site: str, settings: RulesSettings, method: Method = "both", decisions: RuleDecisions = NO_DECISIONS
    ) -> tuple[UrlRule, ...]:
        """The rules with their stages, from what is known now: the same as from these rows alone."""
        pinned = tuple(rule_of(site, each.rewrite) for each in decisions.values() if each.verdict == "pin")
        if self._columns is None and not pinned and _repeats(self._waiting.values()) < settings.learn.gain_min:
            return ()
        self._columns = self._columns or _Columns()
        self._columns.take(self._waiting)
        self._waiting = {}
        sample = self._columns.sample(settings.sample_max)
        cut_to = sample.share if len(sample.places) >= settings.sample_max else None
        sample = sample.labelled(self._columns.table.urls)
        is_enough = sample.repeats >= settings.learn.gain_min
        if not is_enough and not (pinned and len(sample.places)):
            return tuple(decided(rule, "pin") for rule in pinned)
        training = training_of(self._columns.table, sample.places, sample.clusters, sample.avoid, ages=sample.ages)
        share = known_share(training) if cut_to is None else cut_to
        landing = settings.learn.landing._replace(known_share=share, deviations=CHANCE_DEVIATIONS)
        settings = settings._replace(learn=settings.learn.with_landing(landing))
        if is_enough:
            self._learn(site, sample, method, settings)
        learned = self._learned if is_enough else ()
        names = {rule.id for rule in learned}
        rules = (*learned, *(rule for rule in pinned if rule.id not in names))
        return _lived(rules, sample, training, settings, decisions) if rules else ()

    def _learn(self, site: str, sample: Sample, method: Method, settings: RulesSettings) -> None:
        """The learner gets the held-out URLs without their clusters, so that it knows which targets exist."""
        assert self._columns is not None
        shown, others = sample.only(~sample.held_out), sample.places[sample.held_out]
        share = str(settings.learn.landing.known_share).encode()
        digest = method.encode() + share + shown.digest() + hashlib.blake2b(others.tobytes(), digest_size=16).digest()
        if digest != self._learned_from:
            sizes = np.full((len(shown.places), 2), -1, np.int64)
            table, ranks = self._columns.table, shown.ranks
            clusters = in_order(shown.clusters)
            urls = SiteUrls(
                table, shown.places, clusters, shown.avoid, sizes, others=others, canonical=ranks, ages=shown.ages
            )
            self._learned = learn_urls(site, urls, method, settings.learn, stage="candidate").rules
            self._learned_from = digest


def learned_rules(
    site: str, rows: Iterable[SiteUrlRow], settings: RulesSettings, decisions: RuleDecisions = NO_DECISIONS
) -> tuple[UrlRule, ...]:
    """The rules of a site from scratch."""
    return KnownSite(rows).rules(site, settings, decisions=decisions)


def _lived(
    rules: tuple[UrlRule, ...],
    sample: Sample,
    known: TrainingSet,
    settings: RulesSettings,
    decisions: RuleDecisions,
) -> tuple[UrlRule, ...]:
    """The rules after what they predicted for the URLs that the learner has not seen, in the order of fetching."""
    sample = sample.only(np.flatnonzero(np.isin(sample.places, known.places)))
    since = np.empty(known.size, np.int32)
    since[np.lexsort((sample.hashes, sample.since))] = np.arange(known.size, dtype=np.int32)
    index = EvidenceIndex(known)
    held_out = sample.held_out

    def now(rule: UrlRule) -> UrlRule:
        verdict = decisions[rule.id].verdict if rule.id in decisions else None
        return lived(rule, record(rule, index, since, held_out), settings.life, settings.learn.landing, verdict)

    return tuple(map(now, rules))


def _repeats(rows: Iterable[SiteUrlRow | None]) -> int:
    known = [row for row in rows if row is not None]
    clusters = [row.cluster for row in known if row.cluster is not None]
    return len(clusters) - len(set(clusters)) + sum(row.canonical is not None for row in known)


def is_held_out(url: str) -> bool:
    """Whether a URL is kept from the learner."""
    return url_hash(url) % HELD_OUT_ONE_IN == 0


def url_hash(url: str) -> int:
    """By which samples are drawn."""
    return int.from_bytes(_digest(url), "big")


def url_hashes(urls: Iterable[str]) -> Hashes:
    """The same of many URLs."""
    return np.frombuffer(b"".join(map(_digest, urls)), ">u8").astype(np.uint64)


def _digest(url: str) -> bytes:
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).digest()
