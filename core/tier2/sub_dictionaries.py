"""Sub-dictionaries: sets of token buckets whose share of a page separates pages as well as possible.

Zhu splits the dictionary once, by hash (section 4.1); then every page has about the same share of each part and only
length separates pages. Here each cut of the map learns its own sub-dictionary. The bound on shares (cut_tree.py) holds
for any set of buckets, so the best set is the one with the widest spread. Principal components of the pages' bucket
shares, or similarity to one page, give two sides. The buckets that are more frequent on one side than on the other
make the sub-dictionary. Its shares give better sides, and so on until the cut stops getting cheaper. The two halves of
the learners alternate as training and validation pages, so that the result generalises.

All sums run in fixed order in compiled loops, not in a BLAS: the same sample gives the same map on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.tier2.points import BUCKET_COUNT, BUCKET_SHIFT, PointBatch

LEARNING_PAGES_MAX = 3000  # bounds the time to build a map
LEARNING_PAGES_MIN = 48  # fewer pages do not generalise
COMPONENTS = 2
POWER_ROUNDS = 4
SEED_PAGES = 4
SHARE_FLOOR = 1e-3  # keeps rare words from dominating the similarity to a seed page
REFINEMENT_ROUNDS_MAX = 6
SEED_NEIGHBOURS = 0.03  # of the pages: about the share of one topic among many
PROPOSALS_MAX = 4

Pages = NDArray[np.int64]
Mask = NDArray[np.bool_]


class BucketProfile(NamedTuple):
    """How many distinct shingles of each page lie in each bucket, without zeros."""

    start: NDArray[np.int64]
    bucket: NDArray[np.uint16]
    shingle_count: NDArray[np.int32]
    length: NDArray[np.int64]


class Side(NamedTuple):
    """The cost of a cut at these shares, and which pages lie above it."""

    cost: float
    above: NDArray[np.bool_]


def bucket_profile(batch: PointBatch) -> BucketProfile:
    return BucketProfile(*_bucket_runs(batch.shingles, batch.start), batch.length)


def propose_sub_dictionaries(
    profile: BucketProfile, learners: Pages, divide: Callable[[Pages, Mask], Side]
) -> list[Mask]:
    """The most promising sub-dictionaries for dividing pages like these, by the cost that `divide` reports."""
    looked_at = evenly_spaced(learners[profile.length[learners] > 0], LEARNING_PAGES_MAX)
    halves = looked_at[::2], looked_at[1::2]
    if len(looked_at) < LEARNING_PAGES_MIN:
        return []
    found: list[tuple[float, Mask]] = []
    for above in _first_sides(profile, halves[0]):
        found += _refine(profile, halves, above, divide)
    found.sort(key=lambda proposal: proposal[0])
    return [mask for _, mask in found[:PROPOSALS_MAX]]


def _first_sides(profile: BucketProfile, pages: Pages) -> Iterator[NDArray[np.bool_]]:
    """Initial sides, found in two ways: along the principal components, and by similarity to single pages.

    The first finds large divisions (languages, sites), the second what a few pages have in common (a topic).
    """
    for component in principal_components(profile, pages, COMPONENTS, POWER_ROUNDS):
        yield _highest(project(profile, pages, component), 0.5)
    mean_share = accumulate(profile, pages, np.full(len(pages), 1.0 / len(pages)))
    for seed in evenly_spaced(pages, SEED_PAGES):
        own_share = accumulate(profile, np.array([seed]), np.ones(1))
        likeness = project(profile, pages, (own_share - mean_share) / (mean_share + SHARE_FLOOR))
        yield _highest(likeness, SEED_NEIGHBOURS)


def _highest(score: NDArray[np.float64], fraction: float) -> NDArray[np.bool_]:
    return np.asarray(score > np.sort(score)[int((1 - fraction) * (len(score) - 1))])


def _refine(
    profile: BucketProfile,
    halves: tuple[Pages, Pages],
    above: NDArray[np.bool_],
    divide: Callable[[Pages, Mask], Side],
) -> list[tuple[float, Mask]]:
    """Sides give a sub-dictionary, its shares give sides: as in two-means, with the cost of the cut as the measure.

    A sub-dictionary fits the pages it was learned from far more closely than others. So it divides the other half, and
    the next sub-dictionary is learned from that half, with these sides.
    """
    found: list[tuple[float, Mask]] = []
    teachers, judges = halves
    for _ in range(REFINEMENT_ROUNDS_MAX):
        if above.all() or not above.any():
            break
        mask = sub_dictionary_between(profile, teachers, above)
        side = divide(judges, mask)
        if len(found) > 1 and side.cost >= found[-2][0]:
            break
        found.append((side.cost, mask))
        above = side.above
        teachers, judges = judges, teachers
    return found


def sub_dictionary_between(profile: BucketProfile, pages: Pages, above: NDArray[np.bool_]) -> Mask:
    """The buckets with a larger mean share above than below: of all sets, the one whose mean share differs most."""
    above_count = int(above.sum())
    weight = np.where(above, 1.0 / above_count, -1.0 / (len(pages) - above_count))
    return np.asarray(accumulate(profile, pages, weight) > 0.0)


def principal_components(profile: BucketProfile, pages: Pages, components: int, rounds: int) -> NDArray[np.float64]:
    """Leading directions of the pages' centred bucket shares, by orthogonal iteration from fixed signs."""
    basis = _fixed_signs(components)
    for _ in range(rounds):
        for at in range(components):
            score = project(profile, pages, basis[at])
            direction = accumulate(profile, pages, _centred(score))
            basis[at] = _orthonormal(direction, basis[:at])
    return basis


def evenly_spaced(pages: Pages, most: int) -> Pages:
    """All of the pages, or `most` of them, evenly spaced."""
    if len(pages) <= most:
        return pages
    return pages[np.arange(most) * len(pages) // most]


def _fixed_signs(rows: int) -> NDArray[np.float64]:
    """Starting vectors of ±1 from the SplitMix64 finaliser: pseudo-random and deterministic."""
    number = np.arange(1, rows * BUCKET_COUNT + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.where(number >> np.uint64(63), 1.0, -1.0).reshape(rows, BUCKET_COUNT)


@kernel
def _bucket_runs(
    shingles: NDArray[np.uint64], start: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.int32]]:
    """The buckets of each page's shingles with their counts. Shingles ascend, so a bucket's shingles are contiguous."""
    runs = np.zeros(len(start), np.int64)
    bucket = np.empty(len(shingles), np.uint16)
    count = np.empty(len(shingles), np.int32)
    filled = 0
    for page in range(len(start) - 1):
        last = np.int64(-1)
        for at in range(start[page], start[page + 1]):
            own = np.int64(shingles[at] >> np.uint64(BUCKET_SHIFT))
            if own != last:
                bucket[filled], count[filled], last = own, 0, own
                filled += 1
            count[filled - 1] += 1
        runs[page + 1] = filled
    return runs, bucket[:filled].copy(), count[:filled].copy()


@kernel
def project(profile: BucketProfile, pages: Pages, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_b weight_b · share_b of each page."""
    scores = np.zeros(len(pages))
    for row in range(len(pages)):
        page, total = pages[row], 0.0
        for at in range(profile.start[page], profile.start[page + 1]):
            total += profile.shingle_count[at] * weight[profile.bucket[at]]
        if profile.length[page] > 0:
            scores[row] = total / profile.length[page]
    return scores


@kernel
def accumulate(profile: BucketProfile, pages: Pages, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_page weight_page · share_b of each bucket b."""
    total = np.zeros(BUCKET_COUNT)
    for row in range(len(pages)):
        page = pages[row]
        if profile.length[page] == 0:
            continue
        factor = weight[row] / profile.length[page]
        for at in range(profile.start[page], profile.start[page + 1]):
            total[profile.bucket[at]] += profile.shingle_count[at] * factor
    return total


@kernel
def count_inside(profile: BucketProfile, pages: Pages, mask: Mask) -> NDArray[np.int64]:
    """|A ∩ S| of each page, S given by its buckets."""
    inside = np.zeros(len(pages), np.int64)
    for row in range(len(pages)):
        total = np.int64(0)
        for at in range(profile.start[pages[row]], profile.start[pages[row] + 1]):
            total += profile.shingle_count[at] * mask[profile.bucket[at]]
        inside[row] = total
    return inside


@kernel
def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    total = 0.0
    for value in values:
        total += value
    return values - total / len(values)


@inner
def _dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    total = 0.0
    for at in range(len(one)):
        total += one[at] * other[at]
    return total


@kernel
def _orthonormal(vector: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gram–Schmidt. A vector that vanishes (fewer directions than requested) stays zero."""
    for at in range(len(basis)):
        vector = vector - _dot(vector, basis[at]) * basis[at]
    norm = np.sqrt(_dot(vector, vector))
    return vector / norm if norm > 1e-12 else np.zeros(len(vector))
