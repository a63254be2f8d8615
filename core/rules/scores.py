"""How good a normalization is (Lei, section 3, eqs. 1–3)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from dustream.core.rules.landing import Landing, Targets, counted, ways_of


def compression_rate(urls_before: int, urls_after: int) -> float:
    """Eq. 1: 1 − N_norm / N_ori."""
    return 1 - urls_after / urls_before if urls_before else 0.0


class Score(NamedTuple):
    """Counts over a set of URLs with known clusters before and after normalization."""

    urls_before: int
    urls_after: int
    clusters_before: int
    clusters_after: int
    support_pairs: int
    false_positive_pairs: int

    @property
    def compression_rate(self) -> float:
        return compression_rate(self.urls_before, self.urls_after)

    @property
    def dup_reduction_rate(self) -> float:
        """Eq. 2: 1 − (1 − C_norm / N_norm) / (1 − C_ori / N_ori); 0 where nothing was duplicate."""
        if self.urls_before == self.clusters_before or not self.urls_after:
            return 0.0
        before = 1 - self.clusters_before / self.urls_before
        return 1 - (1 - self.clusters_after / self.urls_after) / before

    @property
    def false_positive_rate(self) -> float:
        """Eq. 3: N_fpp / N_supp."""
        return self.false_positive_pairs / self.support_pairs if self.support_pairs else 0.0


def score(normalized: Iterable[tuple[str, Hashable]]) -> Score:
    """From (normalized URL, cluster) of every known URL. A normalized URL belongs to its most frequent cluster."""
    groups: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for url, cluster in normalized:
        groups[url][cluster] += 1
    return Score(
        urls_before=sum(group.total() for group in groups.values()),
        urls_after=len(groups),
        clusters_before=len({cluster for group in groups.values() for cluster in group}),
        clusters_after=len({group.most_common(1)[0][0] for group in groups.values()}),
        support_pairs=sum(_pairs(group.total()) for group in groups.values()),
        false_positive_pairs=sum(
            _pairs(group.total()) - sum(_pairs(count) for count in group.values()) for group in groups.values()
        ),
    )


class Normalized(NamedTuple):
    """A known URL in standard form, what the rules make of it, the cluster of its content (None: not known), and
    whether it redirects or is gone."""

    url: str
    normalized: str
    cluster: Hashable | None
    avoid: bool = False


def landing(known: Iterable[Normalized]) -> Landing:
    """How the URLs land that the rules change, all rules together."""
    urls = list(known)
    numbers: dict[Hashable, int] = {}
    number = [-1 if each.cluster is None else numbers.setdefault(each.cluster, len(numbers)) for each in urls]
    place_of = {each.url: i for i, each in enumerate(urls)}
    changed = [i for i, each in enumerate(urls) if each.normalized != each.url]
    there = [place_of.get(urls[i].normalized, -1) for i in changed]
    keys: dict[str, int] = {}
    targets = Targets(
        np.array([keys.setdefault(urls[i].normalized, len(keys)) for i in changed], np.uint64),
        np.array([place >= 0 for place in there], np.bool_),
        np.array([number[place] if place >= 0 else -1 for place in there], np.int32),
        np.array([place >= 0 and urls[place].avoid for place in there], np.bool_),
    )
    clusters = np.array([number[i] for i in changed], np.int32)
    return counted(ways_of(clusters, np.array([urls[i].avoid for i in changed], np.bool_), targets))


class SizeScore(NamedTuple):
    """Where only sizes are known: URLs before and after, and pairs of requests that became one URL, by their sizes."""

    urls_before: int
    urls_after: int
    pairs: int
    pairs_of_other_sizes: int

    @property
    def compression_rate(self) -> float:
        return compression_rate(self.urls_before, self.urls_after)


def size_score(normalized: Iterable[tuple[str, tuple[int, int]]]) -> SizeScore:
    """From (normalized URL, its sizes from … to) of every known URL: intervals that overlap are of one size.

    Equal sizes are no proof of equal content, and a page that changed has another: this validates, it does not score.
    """
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for url, sizes in normalized:
        groups[url].append(sizes)
    return SizeScore(
        urls_before=sum(map(len, groups.values())),
        urls_after=len(groups),
        pairs=sum(_pairs(len(group)) for group in groups.values()),
        pairs_of_other_sizes=sum(map(_apart, groups.values())),
    )


def _apart(intervals: list[tuple[int, int]]) -> int:
    """How many pairs do not overlap: for each interval those that end before it begins."""
    ends = sorted(high for _, high in intervals)
    return sum(bisect_left(ends, low) for low, _ in intervals)


def micro_average(scores: Iterable[Score]) -> Score:
    """All sites as one: the counts add up."""
    return Score(*(sum(column) for column in zip(*scores, strict=True)))


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
