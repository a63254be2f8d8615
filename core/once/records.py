"""Groups and winners of rows that have a text and a rank, and nothing else: a corpus.

The match graph and its stars are those of pages (`matching`); the rank alone decides who wins. The work has two steps,
so that the first one can be shared among machines: `match_rows` finds matches within a share of the buckets,
`judge_rows` joins them to groups and chooses the winners. The outcome does not depend on the number of shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.once.matching import (
    ALONE,
    Given,
    Ints,
    MatchGraph,
    Words,
    first_copies,
    match_graph,
    ranked_winners,
    root_of,
    roots_of,
    sets_between,
)

ALL_BUCKETS = (0, 1)


class RowColumns(NamedTuple):
    """By row: the key of every band, the hash of its tokens, where its shingles begin and end, and whether it is
    compared at all (if not, it may have no shingles). `shingles` may be a mapped file."""

    keys: Words
    hashes: Words
    starts: Ints
    ends: Ints
    shingles: Words
    compared: NDArray[np.bool_]


class RowComparison(NamedTuple):
    """The threshold as a ratio. The first `references` rows are those of another corpus, which stays as it is;
    `only_references`: the other rows are not compared with each other."""

    ratio: tuple[int, int]
    references: int = 0
    only_references: bool = False


class RowVerdicts(NamedTuple):
    """By row: the first row of its group, the row that is kept for it (itself, if it is kept), and the exact Jaccard
    similarity to that one."""

    groups: Ints
    winners: Ints
    similarities: NDArray[np.float64]


def match_rows(
    rows: RowColumns,
    comparison: RowComparison,
    share: tuple[int, int] = ALL_BUCKETS,
    on_band: Callable[[], None] = lambda: None,
) -> Ints:
    """Pairs of rows that connect what matches within a share of the buckets: `(part, parts)`. `on_band` is called
    before each band."""
    part, parts = (np.uint64(each) for each in share)
    references = comparison.references

    def chosen(contents: Ints, keys: Words) -> NDArray[np.bool_]:
        """The buckets of this share that have more than references."""
        on_band()
        mine: NDArray[np.bool_] = keys % parts == part
        if references:
            known = contents < references
            mine &= ~known | np.isin(keys, keys[mine & ~known])
        return mine

    distinct = np.unique(_firsts(rows)[rows.compared])
    sets = sets_between(rows.starts, rows.ends, rows.shingles)
    roots = match_graph(rows.keys, distinct, sets, comparison.ratio, chosen).roots
    joined = np.flatnonzero(roots != np.arange(len(roots)))
    return np.stack((joined, roots[joined]), axis=1)


def judge_rows(rows: RowColumns, comparison: RowComparison, pairs: Ints, ranked: Ints) -> RowVerdicts:
    """The verdict on each row. `pairs`: those of all shares. `ranked` has the rows, the best first, references before
    all others."""
    firsts = _firsts(rows)
    roots = joined_roots(len(firsts), pairs)[firsts]
    groups = _first_members(roots)
    involved = np.flatnonzero(np.bincount(groups, minlength=len(groups))[groups] > 1)
    winners, similarities = np.arange(len(firsts), dtype=np.int64), np.ones(len(firsts))
    if len(involved):
        winners[involved], similarities[involved] = _winners(rows, comparison, firsts, roots, involved, ranked)
    if comparison.only_references:
        alone = winners >= comparison.references
        winners[alone], similarities[alone] = np.flatnonzero(alone), 1.0
        groups = winners
    return RowVerdicts(groups, winners, similarities)


def _winners(
    rows: RowColumns, comparison: RowComparison, firsts: Ints, roots: Ints, involved: Ints, ranked: Ints
) -> tuple[Ints, NDArray[np.float64]]:
    """The winners of the rows involved, and the similarities to them."""
    contents, content_of = np.unique(firsts[involved], return_inverse=True)
    graph = MatchGraph(roots[contents], *_buckets(rows.keys[contents]))
    sets = sets_between(rows.starts[contents], rows.ends[contents], rows.shingles)
    number_of = np.full(len(firsts), -1, dtype=np.int64)
    number_of[involved] = np.arange(len(involved))
    places = number_of[ranked]
    given = Given(int(np.searchsorted(involved, comparison.references)), comparison.only_references)
    found = ranked_winners(content_of, places[places >= 0], graph, sets, comparison.ratio, given)
    return involved[found.winners], found.similarities


def _firsts(rows: RowColumns) -> Ints:
    """By row: the first one with the same tokens; a row that is not compared is on its own."""
    firsts, present = np.arange(len(rows.compared), dtype=np.int64), np.flatnonzero(rows.compared)
    firsts[present] = first_copies(rows.hashes, present)
    return firsts


def _buckets(keys: Words) -> tuple[NDArray[np.int32], int]:
    """Per content and band the number of its bucket, ALONE if no other is in it; and the number of buckets."""
    of, count = np.full(keys.shape, ALONE, dtype=np.int32), 0
    for band in range(keys.shape[1]):
        _, bucket, sizes = np.unique(keys[:, band], return_inverse=True, return_counts=True)
        shared = sizes > 1
        numbers = np.where(shared, np.cumsum(shared) - 1 + count, ALONE)
        of[:, band] = numbers[bucket]
        count += int(shared.sum())
    return of, count


@kernel
def joined_roots(count: int, pairs: Ints) -> Ints:
    """The roots of the components that these pairs connect."""
    parents = np.arange(count)
    for pair in range(len(pairs)):
        parents[root_of(parents, pairs[pair, 0])] = root_of(parents, pairs[pair, 1])
    return roots_of(parents)


def _first_members(roots: Ints) -> Ints:
    """By row: the first row with the same root."""
    first = np.full(len(roots), len(roots), dtype=np.int64)
    np.minimum.at(first, roots, np.arange(len(roots), dtype=np.int64))
    members: Ints = first[roots]
    return members
