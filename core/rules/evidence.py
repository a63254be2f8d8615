"""What a rule does to the training set (Lei, section 5.2.3): the pairs of eq. 3, and how many URLs fewer there are.

Rewritten URLs are compared by their hashes, in tables of the size of the question: nothing is sorted. URLs that a rule
leaves alone and that nothing is rewritten to stay alone, so they are not in the question: most rules change few URLs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import Hashes, Ints, first_entry, numbered
from dustream.core.rules.ages import OUTDATED, Times, current_clusters
from dustream.core.rules.training import TrainingSet, pair_hash

Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


class Operations(NamedTuple):
    """Per key of the site: copy from key `copied[k]`, or if that is −1 set to `fixed[k]` (0: drop, or leave absent)."""

    copied: Ints
    fixed: Ints


class Evidence(NamedTuple):
    """What a rule does to the training set. Pairs as in eq. 3; `gain`: how many URLs fewer there are afterwards.

    `reached`: how many of the URLs it rewrites have duplicates at all, `support`: how many of them end with one,
    `changed`, `unknown`: how many it changes, and how many of those land unknown (landing.py); not counted where rules
    are judged one after the other.
    """

    support_pairs: int
    false_positive_pairs: int
    support: int
    false_positives: int
    forbidden: int
    gain: int
    reached: int
    changed: int = 0
    unknown: int = 0

    @property
    def false_positive_rate(self) -> float:
        """Lei eq. 3."""
        return self.false_positive_pairs / self.support_pairs if self.support_pairs else 0.0


class EvidenceIndex:
    """Runs a rule over the training set."""

    def __init__(self, training: TrainingSet) -> None:
        self.training = training
        self._marks = np.zeros(training.size, np.int8)

    def evidence(self, rows: Ints, operations: Operations) -> Evidence:
        """What rewriting these rows does."""
        training = self.training
        rewritten = rewritten_hashes(training, rows, operations)
        counts = _evidence_counts(
            rows,
            rewritten,
            training.slots,
            training.hashes,
            training.clusters,
            training.avoid,
            training.repeated,
            training.ages.since,
            training.ages.changed,
            self._marks,
        )
        return Evidence(*counts.tolist())

    def evidence_of_slices(self, order: Ints, bounds: Ints, copied: Ints, fixed: Ints) -> npt.NDArray[np.int64]:
        """The fields of Evidence of each rule: what rewriting a slice of the order does."""
        training = self.training
        counts: npt.NDArray[np.int64] = _evidence_of_slices(
            _EvidenceColumns(
                training.values, training.slots, training.hashes, training.clusters, training.avoid, training.repeated,
                training.ages.since, training.ages.changed, self._marks,
            ), order, bounds, copied, fixed,
        )  # fmt: skip
        return counts

    def supporting_rows(self, rows: Ints, operations: Operations) -> Ints:
        """Those of the rows that the operations change and that then have the URL of a duplicate of theirs."""
        training = self.training
        rewritten = rewritten_hashes(training, rows, operations)
        is_changed = rewritten != training.hashes[rows]
        changed, becomes = rows[is_changed], rewritten[is_changed]
        met = _met(changed, self.rows_at(becomes), self._marks)
        _, _, of_cell, counts = cells(
            np.concatenate((becomes, training.hashes[met])),
            np.concatenate((training.clusters[changed], training.clusters[met])),
        )
        alike = (counts[of_cell[: len(changed)]] > 1) & (training.clusters[changed] >= 0)
        supporting: Ints = changed[alike]
        return supporting

    def rows_at(self, hashes: Hashes) -> Ints:
        """The known URL behind each hash, or −1."""
        found: Ints = _rows_at(hashes, self.training.slots, self.training.hashes)
        return found


@kernel
def _rows_at(asked: Hashes, slots: Ints, hashes: Hashes) -> Ints:
    found = np.zeros(len(asked), np.int32)
    for i in range(len(asked)):
        found[i] = first_entry(asked[i], slots, hashes)
    return found


def rewritten_hashes(training: TrainingSet, rows: Ints, operations: Operations) -> Hashes:
    """The hash of each row's URL after the operations."""
    hashes: Hashes = _rewritten_hashes(training.hashes, training.values, rows, operations.copied, operations.fixed)
    return hashes


@kernel
def _rewritten_hashes(hashes: Hashes, values: Ints, rows: Ints, copied: Ints, fixed: Ints) -> Hashes:
    """A hash is a sum over pairs: only what changes is taken out and put in."""
    after = hashes[rows]
    for key in range(len(copied)):
        if copied[key] == key:
            continue
        put, put_hash = fixed[key], pair_hash(key, fixed[key])
        before, source = values[key], values[max(copied[key], 0)]
        for i in range(len(rows)):
            if copied[key] >= 0:
                put = source[rows[i]]
            if put != before[rows[i]]:
                added = pair_hash(key, put) if copied[key] >= 0 else put_hash
                after[i] += added - pair_hash(key, before[rows[i]])
    return after


@kernel
def _met(rows: Ints, landed: Ints, marks: npt.NDArray[np.int8]) -> Ints:
    """The known URLs outside the rows that the rows become. `marks` is all zero before and after."""
    met = np.zeros(len(rows), np.int32)
    used = 0
    marks[rows] = 1
    for row in landed:
        if row >= 0 and marks[row] == 0:
            marks[row] = 2
            met[used] = row
            used += 1
    marks[rows] = 0
    marks[met[:used]] = 0
    return met[:used]


@kernel
def _evidence_counts(
    rows: Ints,
    rewritten: Hashes,
    slots: Ints,
    hashes: Hashes,
    clusters: Ints,
    avoid: Bools,
    repeated: Bools,
    since: Times,
    changed_at: Times,
    marks: npt.NDArray[np.int8],
) -> npt.NDArray[np.int64]:
    """The fields of Evidence. Unknown clusters (−1) and outdated ones (ages.py) are not counted."""
    is_changed = rewritten != hashes[rows]
    changed, becomes = rows[is_changed], rewritten[is_changed]
    landed = _rows_at(becomes, slots, hashes)
    met = _met(changed, landed, marks)
    together, ends = np.concatenate((changed, met)), np.concatenate((becomes, hashes[met]))
    labels = clusters[together]
    if len(changed_at):
        labels = current_clusters(ends, labels, since[together], changed_at[together])
    of_group, known, of_cell, counts = cells(ends, labels)
    mine = _is_among(met, rows, marks)
    support, false, forbidden, reached = 0, 0, 0, 0
    for i in range(len(changed) + len(met)):
        if of_cell[i] >= 0 and (i < len(changed) or mine[i - len(changed)]):
            support += counts[of_cell[i]] > 1
            false += counts[of_cell[i]] < known[of_group[i]]
    unknown = 0
    for i in range(len(landed)):
        row = landed[i]
        forbidden += row >= 0 and avoid[row]
        if of_cell[i] < 0:
            unknown += labels[i] != OUTDATED
        else:
            unknown += clusters[row] < 0 if row >= 0 else known[of_group[i]] < 2
    for row in rows:
        reached += repeated[row]
    pairs = (known * (known - 1) // 2).sum()
    like_pairs = (counts * (counts - 1) // 2).sum()
    gain = len(changed) - (len(known) - len(met))
    return np.array([pairs, pairs - like_pairs, support, false, forbidden, gain, reached, len(changed), unknown])


class _EvidenceColumns(NamedTuple):
    """The columns of a training set that evidence is counted by, and `EvidenceIndex._marks`."""

    values: Ints
    slots: Ints
    hashes: Hashes
    clusters: Ints
    avoid: Bools
    repeated: Bools
    since: Times
    changed_at: Times
    marks: npt.NDArray[np.int8]


@kernel
def _evidence_of_slices(
    known: _EvidenceColumns, order: Ints, bounds: Ints, copied: Ints, fixed: Ints
) -> npt.NDArray[np.int64]:
    counts = np.zeros((len(bounds), 9), np.int64)
    for rule in range(len(bounds)):
        rows = order[bounds[rule, 0] : bounds[rule, 1]]
        rewritten = _rewritten_hashes(known.hashes, known.values, rows, copied[rule], fixed[rule])
        counts[rule] = _evidence_counts(
            rows, rewritten, known.slots, known.hashes, known.clusters, known.avoid, known.repeated, known.since,
            known.changed_at, known.marks,
        )  # fmt: skip
    return counts


@inner
def _is_among(asked: Ints, rows: Ints, marks: npt.NDArray[np.int8]) -> Bools:
    """Which of the rows that are asked for are among the rows. `marks` is all zero before and after."""
    marks[rows] = 1
    among: Bools = marks[asked] == 1
    marks[rows] = 0
    return among


@kernel
def cells(hashes: Hashes, clusters: Ints) -> tuple[Ints, npt.NDArray[np.int64], Ints, npt.NDArray[np.int64]]:
    """Entries by hash (groups), and by hash and cluster (cells): the group of each, how many of a group have a known
    cluster; the cell of each (−1: unknown cluster), how many are in a cell."""
    of_group, groups = numbered(hashes)
    known = np.zeros(len(groups), np.int64)
    together = hashes.copy()
    for i in range(len(hashes)):
        known[of_group[i]] += clusters[i] >= 0
        together[i] += np.uint64(clusters[i] + 2) * np.uint64(0x9E3779B97F4A7C15)
    of_cell, cells = numbered(together)
    counts = np.zeros(len(cells), np.int64)
    for i in range(len(hashes)):
        if clusters[i] < 0:
            of_cell[i] = -1
        else:
            counts[of_cell[i]] += 1
    return of_group, known, of_cell, counts


# ---------------------------------------------------------------- entries at places, by place and cluster in order


@kernel
def cluster_places(at: Places, clusters: Ints) -> npt.NDArray[np.int64]:
    """At how many places each cluster is."""
    spread = np.zeros(clusters.max() + 1 if len(clusters) else 0, np.int64)
    for i in range(len(at)):
        is_new = i == 0 or at[i] != at[i - 1] or clusters[i] != clusters[i - 1]
        if is_new and clusters[i] >= 0:
            spread[clusters[i]] += 1
    return spread


@kernel
def most_frequent_clusters(at: Places, clusters: Ints) -> tuple[Places, Ints]:
    """The places, and of each the cluster that most of its entries have; of equals the last, an unknown one never."""
    places, chosen = np.empty_like(at), np.empty_like(clusters)
    used, best, start = 0, 0, 0
    for i in range(len(at)):
        if i == 0 or at[i] != at[i - 1]:
            used, best, start = used + 1, 0, i
        elif clusters[i] != clusters[i - 1]:
            start = i
        if i + 1 - start >= best:
            places[used - 1], chosen[used - 1], best = at[i], clusters[i], i + 1 - start
    return places[:used], chosen[:used]


@kernel
def move_evidence(
    at: Places,
    clusters: Ints,
    since: Times,
    changed_at: Times,
    spread: npt.NDArray[np.int64],
    moved: Places,
    targets: Places,
    forbidden: int,
) -> npt.NDArray[np.int64]:
    """The fields of Evidence after everything at a place has moved to `moved[place]` (−1: it stays)."""
    touched = moved >= 0
    touched[targets] = True
    entries = np.flatnonzero(touched[at])
    before, labels = at[entries], clusters[entries]
    after = before.copy()
    for i in range(len(entries)):
        if moved[before[i]] >= 0:
            after[i] = moved[before[i]]
    if len(changed_at):
        labels = current_clusters(after.astype(np.uint64), labels, since[entries], changed_at[entries])
    group, known, cell, counts = cells(before.astype(np.uint64), labels)
    new_group, new_known, new_cell, new_counts = cells(after.astype(np.uint64), labels)
    mine, reached = np.zeros(len(known), np.int64), np.zeros(len(known), np.bool_)
    goes, seen = np.full(len(known), -1, np.int32), np.zeros(len(counts), np.bool_)
    for i in range(len(entries)):
        if moved[before[i]] >= 0:
            goes[group[i]] = new_group[i]
            if cell[i] >= 0 and not seen[cell[i]]:
                seen[cell[i]] = True
                mine[group[i]] += new_counts[new_cell[i]]
                reached[group[i]] |= spread[labels[i]] > 1
    support, false = 0, 0
    for each in range(len(goes)):
        if goes[each] >= 0:
            support += mine[each] > known[each]
            false += new_known[goes[each]] > mine[each]
    pairs, false_pairs = _pair_counts(known, counts)
    new_pairs, new_false_pairs = _pair_counts(new_known, new_counts)
    gain = len(known) - len(new_known)
    return np.array(
        [new_pairs - pairs, max(0, new_false_pairs - false_pairs), support, false, forbidden, gain, reached.sum()]
    )


def supporting_pages(at: Places, clusters: Ints, moved: Places) -> int:
    """How many different pages meet a duplicate after everything at a place has moved to `moved[place]`.

    URLs of one page are alike or not for one reason, whatever their number: as evidence they count once.
    """
    is_target = np.zeros(len(moved), np.bool_)
    is_target[moved[moved >= 0]] = True
    entries = np.flatnonzero(((moved >= 0) | is_target)[at] & (clusters >= 0))
    before, labels = at[entries], clusters[entries]
    after = np.where(moved[before] >= 0, moved[before], before)
    order = np.lexsort((before, labels, after))
    before, labels, after = before[order], labels[order], after[order]
    met = (after[:-1] == after[1:]) & (labels[:-1] == labels[1:]) & (before[:-1] != before[1:])
    return int(np.count_nonzero(np.bincount(labels[:-1][met])))


@inner
def _pair_counts(known: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Support pairs and false-positive pairs (Lei eq. 3) among entries whose content is known."""
    pairs = int((known * (known - 1) // 2).sum())
    return pairs, pairs - int((counts * (counts - 1) // 2).sum())
