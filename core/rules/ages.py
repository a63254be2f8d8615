"""Differences that time explains.

Pages change between fetches. If one URL of a page was fetched before a change and another one after it, their contents
differ although the URLs show one page. So a difference counts against a rule only if neither content is *outdated*:
the other URL has changed since it was fetched. Two URLs that were each fetched once, at whatever times, have not been
seen to change: their difference counts.

    fetched      crawl 1   crawl 2
    /item/7      X         Y          has changed to Y in crawl 2
    /print/7     X                    X is outdated: the difference is not counted
    /review/7    Z         Z'         has changed in crawl 2, too: the difference counts
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import kernel, merged
from dustream.core.kernels.hash_slots import Hashes, Ints, numbered

Times = npt.NDArray[np.int64]

NEVER: Final = -(1 << 62)
OUTDATED: Final = -2
"""Instead of the cluster of a content that another one has replaced. Like −1, it is not counted."""


class Ages(NamedTuple):
    """Of each URL: when its content was first fetched; and the same if it had another one before, else NEVER. Both are
    empty where no times are known, or nothing has changed."""

    since: Times
    changed: Times

    def only(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64] | Ints) -> Ages:
        return Ages(self.since[which], self.changed[which]) if len(self.changed) else self


NO_AGES: Final = Ages(np.zeros(0, np.int64), np.zeros(0, np.int64))


def ages_of(since: Times, has_changed: npt.NDArray[np.bool_]) -> Ages:
    """Only if anything has changed: nothing is outdated otherwise."""
    return Ages(since, np.where(has_changed, since, NEVER)) if has_changed.any() else NO_AGES


@merged
def is_outdated(since: int, other_changed: int) -> bool:
    """Whether another URL has changed since this one was fetched."""
    return other_changed > since


@kernel
def current_clusters(places: Hashes, clusters: Ints, since: Times, changed: Times) -> Ints:
    """The clusters of URLs that come together at places, without those that the last change there has outdated."""
    if len(changed) == 0:
        return clusters
    of_place, firsts = numbered(places)
    last = np.full(len(firsts), -1, np.int64)
    for i in range(len(places)):
        place = of_place[i]
        if clusters[i] >= 0 and changed[i] > NEVER and (last[place] < 0 or changed[i] > changed[last[place]]):
            last[place] = i
    current = clusters.copy()
    for i in range(len(places)):
        newest = last[of_place[i]]
        is_other = newest >= 0 and clusters[i] >= 0 and clusters[i] != clusters[newest]
        if is_other and is_outdated(since[i], changed[newest]):
            current[i] = OUTDATED
    return current
