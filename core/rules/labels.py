"""Labels from rel=canonical links, beside clusters (Lei, section 6.1).

A page that names another one of its site says that both are one page. Contents that are known decide before it: where
both pages were seen, their clusters stand. Else

    the content of the page is not known        it has the cluster of the page that it names
    the page named was never seen, or           it exists, and has the cluster of those that name it, if these are of
    its content is not known                    one cluster

Which links are relied on is decided for the winner order, too (core/urls/canonical.py).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.hash_slots import Ints

Places = npt.NDArray[np.int64]
NOT_NAMED = -1


class Labels(NamedTuple):
    """The clusters of the entries; and the pages named that are no entries, with theirs (−1: it is not known)."""

    clusters: Ints
    named: Places
    named_clusters: Ints


def with_canonical(places: Places, clusters: Ints, avoid: npt.NDArray[np.bool_], canonical: Places) -> Labels:
    """`canonical`: of each entry the place of the page that it names, itself or another; −1: it names none."""
    labels = clusters.copy()
    next_label = int(clusters.max(initial=-1)) + 1
    entry_at = {place: entry for entry, place in enumerate(places.tolist())}
    named_by: dict[int, list[int]] = defaultdict(list)
    for entry in np.flatnonzero(canonical != NOT_NAMED).tolist():
        named_by[int(canonical[entry])].append(entry)
    named, named_clusters = [], []
    for target in sorted(named_by):
        at = entry_at.get(target)
        if at is not None and avoid[at]:
            continue
        namers = named_by[target]
        label = int(clusters[at]) if at is not None else -1
        if label < 0:
            said = {int(clusters[entry]) for entry in namers if clusters[entry] >= 0}
            label = said.pop() if len(said) == 1 else -1 if said else next_label
            next_label += label == next_label
        if at is None:
            named.append(target)
            named_clusters.append(label)
        for entry in [*namers, *([] if at is None else [at])]:
            if labels[entry] < 0:
                labels[entry] = label
    return Labels(labels, np.array(named, np.int64), np.array(named_clusters, np.int32))
