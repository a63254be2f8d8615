"""Which share of a site's URLs is known, estimated from the URLs alone.

Versions, mirrors and translations of a site have the same paths under several values of one path part or host label. In
a sample, each of these paths is missing under another value as often as any URL is missing from the sample. So the
share of a value's paths that a sibling has, too, is above the share of known URLs by chance at most (capture and
recapture). The greatest of these shares is the estimate: where one value has all paths of another, the list is
complete, whatever the others lack.

Where fewer than three siblings have many paths in common nothing is known, and the list counts as complete.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import Hashes, Ints, numbered
from dustream.core.rules.training import TrainingSet, pair_hash
from dustream.core.urls.keys import is_named

SIBLINGS_MIN: Final = 3
SIBLINGS_MAX: Final = 32
"""Values of one key that are compared: the most frequent ones."""
PATHS_MIN: Final = 30
COMMON_PATHS_MIN: Final = 10
SHARE_MIN: Final = 0.05
COMPLETE_FROM: Final = 0.9
"""An estimate from which on a list counts as complete: no estimate reaches 1, since chance is taken off."""
CHANCE_DEVIATIONS: Final = 2.0
"""The best of many matches is above the share of known URLs by chance; so much is taken off."""


def known_share(training: TrainingSet) -> float:
    """The share of the site's URLs that the training set has; 1 if it cannot be estimated."""
    parts = np.array([not is_named(key) and key != "scheme" for key in training.keys], np.bool_)
    shares = [
        share
        for key in np.flatnonzero(parts).tolist()
        if training.keys[key].startswith(("host_", "path_"))
        for share in _sibling_shares(training, parts, key)
    ]
    share = max(SHARE_MIN, max(shares, default=1.0))
    return share if share < COMPLETE_FROM else 1.0


def _sibling_shares(training: TrainingSet, parts: npt.NDArray[np.bool_], key: int) -> list[float]:
    """Of the values of a key that have many paths in common with another value: the greatest share of their paths that
    one other value has; nothing if these are too few values."""
    column = training.values[key]
    counts = np.bincount(column)
    counts[0] = 0
    values = np.argsort(-counts, kind="stable")[:SIBLINGS_MAX]
    values = values[counts[values] >= PATHS_MIN].astype(np.int32)
    if len(values) < SIBLINGS_MIN:
        return []
    place = np.full(len(counts), -1, np.int32)
    place[values] = np.arange(len(values))
    rows = np.flatnonzero(place[column] >= 0).astype(np.int32)
    paths = _paths(training.values, parts, key, rows)
    common = _common_paths(paths, place[column[rows]], len(values))
    own = np.diag(common).copy()
    np.fill_diagonal(common, 0)
    best = common.max(axis=1)
    matched = (own >= PATHS_MIN) & (best >= COMMON_PATHS_MIN) & (best >= SHARE_MIN * own)
    if np.count_nonzero(matched) < SIBLINGS_MIN:
        return []
    share = best[matched] / own[matched]
    shares: list[float] = (share - CHANCE_DEVIATIONS * np.sqrt(share * (1 - share) / own[matched])).tolist()
    return shares


@kernel
def _paths(values: Ints, parts: npt.NDArray[np.bool_], key: int, rows: Ints) -> Hashes:
    """Hashes of hosts and paths without one key."""
    paths = np.zeros(len(rows), np.uint64)
    for other in range(len(values)):
        if parts[other] and other != key:
            for i in range(len(rows)):
                paths[i] += pair_hash(other, values[other, rows[i]])
    return paths


@kernel
def _common_paths(paths: Hashes, siblings: Ints, count: int) -> npt.NDArray[np.int64]:
    """How many paths two siblings have in common; on the diagonal: how many one has."""
    of_path, firsts = numbered(paths)
    has = np.zeros(len(firsts), np.uint64)
    for i in range(len(paths)):
        has[of_path[i]] |= np.uint64(1) << np.uint64(siblings[i])
    common = np.zeros((count, count), np.int64)
    found = np.zeros(count, np.int64)
    for sets in has:
        used = 0
        for sibling in range(count):
            if sets >> np.uint64(sibling) & np.uint64(1):
                found[used] = sibling
                used += 1
        for i in range(used):
            for j in range(used):
                common[found[i], found[j]] += 1
    return common
