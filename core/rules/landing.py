"""Where a rule leads. Every URL that a rule changes lands in one of three ways:

    meets     its target is a known duplicate, or a URL never seen at which known duplicates meet: a session id is often
              on every URL of a page
    wrong     its target is known to differ, redirects or is gone; or most of what meets at a URL never seen differs
    unknown   its target was never seen and no other URL becomes it, or the content of either is not known

A rule is applied only if few land wrong and few land unknown: a crawler that skips a page for a target that does not
exist never sees the page again. URLs that are themselves gone, or redirect to somewhere unknown, are not counted.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import Hashes, Ints
from dustream.core.rules.ages import OUTDATED, Ages, Times, current_clusters, is_outdated
from dustream.core.rules.evidence import Bools, EvidenceIndex, cells
from dustream.schemas.rules import UrlRule

UNCOUNTED: Final = -1
MEETS: Final = 0
UNKNOWN: Final = 1
WRONG: Final = 2

CHANCE_DEVIATIONS: Final = 3.0
SEEN_TIMES_MAX: Final = 2.0
"""How many times as many targets may be known as the share of known URLs predicts, if URLs are missing by chance."""

Ways = npt.NDArray[np.int8]


class LandingSettings(NamedTuple):
    """Which shares of the URLs that a rule changes may land wrong or unknown for it to be active.

    `known_share`: the share of a site's URLs that are known, where they are a sample: what is not in the sample looks
    as if it did not exist. None: it is estimated (coverage.py). `label_noise`: the share of URLs that are in a wrong
    cluster. `deviations`: by how many standard deviations a share may be exceeded, so that chance alone takes no rule
    away when more pages come.
    """

    wrong_share_max: float = 0.02
    unknown_share_max: float = 0.05
    known_share: float | None = None
    label_noise: float = 0.0
    deviations: float = 0.0

    def wrong_allowed(self, rewrites: int) -> float:
        return allowed_share(self.wrong_share_max, (1 - self.label_noise) ** 2, rewrites, self.deviations)

    def unknown_allowed(self, rewrites: int) -> float:
        share = 1.0 if self.known_share is None else self.known_share
        return allowed_share(self.unknown_share_max, share, rewrites, self.deviations)

    def with_targets_seen(self, seen: int, targets: int) -> LandingSettings:
        """For a rule so many of whose targets are known. If URLs are missing by chance, the known share of targets is
        about the known share of URLs. If it is far higher, pages were drawn with all their URLs: then a right rule
        finds its targets, and unknown targets count against it."""
        if self.known_share is None or self.known_share >= 1:
            return self
        expected = min(1.0, SEEN_TIMES_MAX * self.known_share)
        by_chance = CHANCE_DEVIATIONS * math.sqrt(expected * (1 - expected) * targets)
        return self._replace(known_share=1.0) if seen > expected * targets + by_chance else self


class Landing(NamedTuple):
    """How many URLs a rule changes, by how they land."""

    meets: int
    unknown: int
    wrong: int

    @property
    def rewrites(self) -> int:
        return sum(self)

    @property
    def words(self) -> str:
        return f"{self.meets} meet their duplicates, {self.unknown} unknown, {self.wrong} wrong"

    def is_safe(self, settings: LandingSettings) -> bool:
        """Whether few enough land wrong or unknown."""
        return self.wrong <= settings.wrong_allowed(self.rewrites) * self.rewrites and self.is_known(settings)

    def reason(self, settings: LandingSettings, what: str = "URLs") -> str:
        """Why a rule that lands like this is not applied; empty if it is safe."""
        if self.is_safe(settings):
            return ""
        if not self.is_known(settings):
            return f"{self.unknown} of {self.rewrites} {what} lead to unknown URLs"
        return f"{self.wrong} of {self.rewrites} {what} lead to other pages"

    def is_known(self, settings: LandingSettings) -> bool:
        """Whether few enough land unknown."""
        return self.unknown <= settings.unknown_allowed(self.rewrites) * self.rewrites


def evidence_of(rule: UrlRule) -> Landing:
    """What becomes of the known URLs that a rule changes."""
    return Landing(rule.support, rule.unknown, rule.false_positives)


def allowed_share(share_max: float, seen_share: float, count: int, deviations: float = 0.0) -> float:
    """What may be seen of a share of at most `share_max` if the rest is only seen so far as `seen_share` goes, over so
    many cases: few of them may have met more than their share by chance."""
    expected = share_max + (1 - share_max) * (1 - seen_share)
    by_chance = deviations if seen_share >= 1 else max(deviations, CHANCE_DEVIATIONS)
    return expected + by_chance * math.sqrt(expected * (1 - expected) / max(1, count))


def counted(ways: Ways) -> Landing:
    return Landing(*(int(np.count_nonzero(ways == way)) for way in (MEETS, UNKNOWN, WRONG)))


def counted_by_page(ways: Ways, clusters: Ints) -> Landing:
    """The same with each page counted once: as wrong if any of its URLs is, else as unknown if none of them meets a
    duplicate. URLs whose content is not known are pages of their own."""
    known = clusters >= 0
    meets, unknown, wrong = np.zeros((3, int(clusters.max(initial=-1)) + 1), np.bool_)
    for way, pages in ((MEETS, meets), (UNKNOWN, unknown), (WRONG, wrong)):
        pages[clusters[known & (ways == way)]] = True
    settled = meets & ~wrong, unknown & ~meets & ~wrong, wrong
    lone = counted(ways[~known])
    return Landing(*(one + int(np.count_nonzero(pages)) for one, pages in zip(lone, settled, strict=True)))


def saved(ways: Ways, targets: Hashes | npt.NDArray[np.int64], seen: Bools) -> int:
    """How many URLs need not be fetched: those that meet their duplicates, less one for each URL never seen at which
    they meet."""
    new = (ways == MEETS) & ~seen
    repeats = len(np.unique(targets[new])) if new.any() else 0
    return int(np.count_nonzero(ways == MEETS)) - repeats


class Targets(NamedTuple):
    """Of each URL that a rule changes: the target by any hash; whether that was seen, the cluster of its content (−1:
    not known), and whether it redirects or is gone."""

    hashes: Hashes
    seen: Bools
    clusters: Ints
    avoid: Bools


@kernel
def ways_of(clusters: Ints, gone: Bools, targets: Targets) -> Ways:
    """How URLs of these clusters land (−1: their content is not known). At a URL never seen a page is right among its
    own if they are more than all others there: one wrong label does not refute all of them."""
    of_group, known, of_cell, counts = cells(targets.hashes, clusters)
    ways = np.full(len(clusters), UNKNOWN, np.int8)
    for i in range(len(clusters)):
        if clusters[i] < 0:
            if gone[i]:
                ways[i] = UNCOUNTED
            elif targets.avoid[i]:
                ways[i] = WRONG
        elif targets.seen[i]:
            if targets.avoid[i]:
                ways[i] = WRONG
            elif targets.clusters[i] >= 0:
                ways[i] = MEETS if targets.clusters[i] == clusters[i] else WRONG
        elif known[of_group[i]] > 1:
            together = counts[of_cell[i]]
            ways[i] = MEETS if 2 * together > known[of_group[i]] else WRONG
    return ways


def ways_in_time(clusters: Ints, gone: Bools, targets: Targets, ages: Ages, target_ages: Ages) -> Ways:
    """How URLs land, if differences that time explains (ages.py) are not counted. Such differences must be fewer than
    the URLs that meet their duplicates: otherwise the rule explains them better than time."""
    if len(ages.changed) == 0:
        return ways_of(clusters, gone, targets)
    current = np.where(targets.seen, clusters, current_clusters(targets.hashes, clusters, *ages)).astype(np.int32)
    ways = ways_of(current, gone, targets)
    explained = _explained(ways, current, targets, *ages, *target_ages)
    is_time = np.count_nonzero(explained) <= np.count_nonzero(ways == MEETS)
    return np.where(explained, UNCOUNTED if is_time else WRONG, ways).astype(np.int8)


@kernel
def _explained(
    ways: Ways,
    clusters: Ints,
    targets: Targets,
    since: Times,
    changed: Times,
    target_since: Times,
    target_changed: Times,
) -> Bools:
    """Which of the differences are those of outdated contents."""
    explained: Bools = clusters == OUTDATED
    for i in range(len(ways)):
        if ways[i] == WRONG and targets.seen[i] and not targets.avoid[i] and targets.clusters[i] >= 0:
            explained[i] = is_outdated(since[i], target_changed[i]) or is_outdated(target_since[i], changed[i])
    return explained


def row_ways(index: EvidenceIndex, rows: Ints, becomes: Hashes, landed: Ints) -> Ways:
    """How rows of a training set land: the hash of what each becomes, and the row of that (−1: it was never seen)."""
    known = index.training
    seen, there = landed >= 0, np.maximum(landed, 0)
    clusters = np.where(seen, known.clusters[there], -1).astype(np.int32)
    targets = Targets(becomes, seen, clusters, seen & known.avoid[there])
    return ways_in_time(known.clusters[rows], known.avoid[rows], targets, known.ages.only(rows), known.ages.only(there))
