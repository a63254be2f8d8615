"""What a centralised computation from scratch says of a collection, and how far a run's verdicts are from it.

The last content of every URL, all pairs by exact Jaccard (prefix filtering misses none), their connected components and
the greedy stars in winner order: nothing of the pipeline takes part but the similarity and the winner order.

Relative errors as in Zhu et al., 5.2: in precision, the share of the pairs said that the recomputation denies; in
recall, the share of its pairs that were not said. Of two kinds of pairs: pages that share a group, and a duplicate with
its winner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pipeline import Groups, UnionFind, pair_counts
from search import Corpus, exact_pairs

from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Canonical, Crawl
from dustream.schemas.signature import PageSignature
from dustream.schemas.status import DuplicateStatus

CONTENT_ROLES = ("unique", "winner", "duplicate", "held")


@dataclass(frozen=True)
class LastPage:
    """What the newest fetch of a URL found."""

    version: int
    first_seen_ms: int
    epoch: int
    signature: PageSignature | None
    canonical: Canonical = "none"
    popularity: float | None = None


class Collection:
    """The last state of every URL, from the log alone."""

    def __init__(self) -> None:
        self.pages: dict[str, LastPage] = {}

    def add(self, crawls: Iterable[Crawl]) -> None:
        for crawl in crawls:
            known = self.pages.get(crawl.url)
            if known is None:
                first = LastPage(crawl.version, crawl.version, crawl.version, crawl.signature, crawl.canonical)
                self.pages[crawl.url] = first
            elif crawl.version > known.version:
                self.pages[crawl.url] = _next(known, crawl)


def _next(known: LastPage, crawl: Crawl) -> LastPage:
    before, now = known.signature, crawl.signature
    same = before is not None and now is not None and before.content_hash == now.content_hash
    if crawl.kind == "seen":
        return replace(known, version=crawl.version)
    epoch = known.epoch if same else crawl.version
    return LastPage(crawl.version, known.first_seen_ms, epoch, now, crawl.canonical)


class Answer(NamedTuple):
    """Of all pages with content: the group of each, and the winner of each duplicate."""

    groups: Groups
    winners: dict[str, str]


def recompute(collection: Collection, tau: float) -> Answer:
    """From scratch."""
    pages = {url: page for url, page in collection.pages.items() if page.signature is not None}
    urls = sorted(pages)
    matches = _matches([pages[url].signature for url in urls], tau)
    union = UnionFind()
    for one, others in enumerate(matches):
        for other in others:
            union.join(urls[one], urls[other])
    groups = {url: union.find(url) for url in urls}
    return Answer(groups, _stars(urls, [_key(url, pages[url]) for url in urls], matches))


def match_count(collection: Collection, tau: float) -> int:
    """Pairs of pages at this similarity or more."""
    return sum(map(len, _matches([page.signature for page in collection.pages.values()], tau))) // 2


def _key(url: str, page: LastPage) -> bytes:
    vertex = vertex_name(page.first_seen_ms, url, page.epoch)
    return Markets().keys(url, page, vertex)[0]


def _matches(signatures: list[PageSignature | None], tau: float) -> list[list[int]]:
    sets = [shingle_array(signature.shingles) for signature in signatures if signature is not None]
    starts = np.concatenate(([0], np.cumsum([len(shingles) for shingles in sets])))
    corpus = Corpus(np.concatenate(sets), starts, [], np.zeros(0))
    matches: list[list[int]] = [[] for _ in sets]
    for pair in exact_pairs(corpus, tau).tolist():
        one, other = divmod(pair, len(sets))
        matches[one].append(other)
        matches[other].append(one)
    return matches


def _stars(urls: list[str], keys: list[bytes], matches: list[list[int]]) -> dict[str, str]:
    """In winner order each page is a winner, or a duplicate of the best winner that matches it."""
    is_winner, winners = [False] * len(urls), {}
    for one in sorted(range(len(urls)), key=keys.__getitem__):
        better = [other for other in matches[one] if is_winner[other]]
        if better:
            winners[urls[one]] = urls[min(better, key=keys.__getitem__)]
        else:
            is_winner[one] = True
    return winners


def said(statuses: Iterable[DuplicateStatus]) -> Answer:
    """What a run says."""
    content = [status for status in statuses if status.role in CONTENT_ROLES]
    groups = {status.url: status.group or status.url for status in content}
    winners = {status.url: status.winner for status in content if status.winner and status.winner != status.url}
    return Answer(groups, winners)


class Errors(NamedTuple):
    """Counts of pairs, so that errors of several moments can be added up."""

    group_pairs_said: int = 0
    group_pairs_true: int = 0
    group_pairs_both: int = 0
    verdicts_said: int = 0
    verdicts_true: int = 0
    verdicts_both: int = 0

    def plus(self, other: Errors) -> Errors:
        return Errors(*(one + another for one, another in zip(self, other, strict=True)))

    @property
    def percent(self) -> tuple[float, float, float, float]:
        """Relative error in precision and recall of group pairs, then of verdicts."""
        return (
            _missing(self.group_pairs_both, self.group_pairs_said),
            _missing(self.group_pairs_both, self.group_pairs_true),
            _missing(self.verdicts_both, self.verdicts_said),
            _missing(self.verdicts_both, self.verdicts_true),
        )


def _missing(right: int, of: int) -> float:
    return 100.0 * (of - right) / of if of else 0.0


def errors(found: Answer, true: Answer) -> Errors:
    assert found.groups.keys() == true.groups.keys(), "the run and the recomputation know different pages"
    both, claimed, real = pair_counts(found.groups, true.groups)
    right = len(found.winners.items() & true.winners.items())
    return Errors(claimed, real, both, len(found.winners), len(true.winners), right)
