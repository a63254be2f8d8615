"""Groups and winners of rows that have a text and a rank, and nothing else: a corpus.

The match graph and its stars are those of pages (`matching`); the rank alone decides who wins. The work has two steps,
so that the first one can be shared among machines: `match_rows` finds matches within a share of the buckets,
`judge_rows` joins them to groups and chooses the winners. The outcome does not depend on the number of shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import threaded_kernel
from dustream.core.once.matching import (
    ALONE,
    Given,
    Ints,
    MatchGraph,
    OnRows,
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


class Threads(NamedTuple):
    """How parts of the work run beside each other: how many, and `map` for them."""

    jobs: int = 1
    map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map
    on_rows: OnRows = lambda: None


ONE_THREAD = Threads()


class RowVerdicts(NamedTuple):
    """By row: the first row of its group, the row that is kept for it (itself, if it is kept), and the exact Jaccard
    similarity to that one."""

    groups: Ints
    winners: Ints
    similarities: NDArray[np.float64]


def first_rows(rows: RowColumns) -> Ints:
    """By row: the first one with the same tokens; a row that is not compared is on its own."""
    firsts, present = np.arange(len(rows.compared), dtype=np.int64), np.flatnonzero(rows.compared)
    firsts[present] = first_copies(rows.hashes, present)
    return firsts


def match_rows(
    rows: RowColumns,
    firsts: Ints,
    comparison: RowComparison,
    share: tuple[int, int] = ALL_BUCKETS,
    on_rows: OnRows = lambda: None,
) -> Ints:
    """Pairs of rows that connect what matches within a share of the buckets: `(part, parts)`. `firsts`: those of
    `first_rows`."""
    part, parts = (np.uint64(each) for each in share)
    references = comparison.references

    def chosen(contents: Ints, keys: Words) -> NDArray[np.bool_]:
        """The buckets of this share that have more than references."""
        mine: NDArray[np.bool_] = keys % parts == part
        if references:
            known = contents < references
            mine &= ~known | np.isin(keys, keys[mine & ~known], kind="sort")  # hashes are too far apart for a table
        return mine

    distinct = np.flatnonzero(rows.compared & (firsts == np.arange(len(firsts))))
    sets = sets_between(rows.starts, rows.ends, rows.shingles)
    roots = match_graph(rows.keys, distinct, sets, comparison.ratio, chosen, on_rows).roots
    joined = np.flatnonzero(roots != np.arange(len(roots)))
    return np.stack((joined, roots[joined]), axis=1)


def judge_rows(
    rows: RowColumns,
    firsts: Ints,
    comparison: RowComparison,
    pairs: Ints,
    ranked: Ints,
    threads: Threads = ONE_THREAD,
) -> RowVerdicts:
    """The verdict on each row. `pairs`: those of all shares. `ranked` has the rows, the best first, references before
    all others."""
    roots = joined_roots(len(firsts), pairs)[firsts]
    groups = _first_members(roots)
    involved = np.flatnonzero(np.bincount(groups, minlength=len(groups))[groups] > 1)
    winners, similarities = np.arange(len(firsts), dtype=np.int64), np.ones(len(firsts))
    if len(involved):
        cluster = _Clusters(rows, comparison, firsts, roots, involved, threads)
        winners[involved], similarities[involved] = cluster.winners(ranked)
    if comparison.only_references:
        alone = winners >= comparison.references
        winners[alone], similarities[alone] = np.flatnonzero(alone), 1.0
        groups = winners
    return RowVerdicts(groups, winners, similarities)


class _Clusters:
    """The rows that have matches. Clusters do not depend on each other, so threads judge some each."""

    def __init__(
        self, rows: RowColumns, comparison: RowComparison, firsts: Ints, roots: Ints, involved: Ints, threads: Threads
    ) -> None:
        self._comparison, self._involved, self._threads = comparison, involved, threads
        contents, self._content_of = np.unique(firsts[involved], return_inverse=True)
        self._graph = MatchGraph(roots[contents], *_buckets(rows.keys[contents], threads))
        self._sets = sets_between(rows.starts[contents], rows.ends[contents], rows.shingles)
        self._rows = len(firsts)

    def winners(self, ranked: Ints) -> tuple[Ints, NDArray[np.float64]]:
        """The winners of the rows involved, and the similarities to them."""
        number_of = np.full(self._rows, -1, dtype=np.int64)
        number_of[self._involved] = np.arange(len(self._involved))
        places = number_of[ranked]
        places = places[places >= 0]
        parts = self._parts()
        given = Given(
            int(np.searchsorted(self._involved, self._comparison.references)), self._comparison.only_references
        )

        def judged(part: int) -> tuple[Ints, Ints, NDArray[np.float64]]:
            own = np.flatnonzero(parts == part)
            found = ranked_winners(
                self._content_of, places[parts[places] == part], self._graph, self._sets, self._comparison.ratio, given,
                self._threads.on_rows,
            )  # fmt: skip
            return own, found.winners[own], found.similarities[own]

        winners, similarities = np.empty(len(parts), dtype=np.int64), np.empty(len(parts))
        for own, found, reached in self._threads.map(judged, np.unique(parts).tolist()):
            winners[own], similarities[own] = self._involved[found], reached
        return winners, similarities

    def _parts(self) -> Ints:
        """By row: the thread that judges its cluster. All have about as many contents."""
        _, cluster, sizes = np.unique(self._graph.roots, return_inverse=True, return_counts=True)
        before = np.cumsum(sizes) - sizes
        part: Ints = (before * self._threads.jobs // len(cluster))[cluster]
        return part[self._content_of]


def _buckets(keys: Words, threads: Threads) -> tuple[NDArray[np.int32], int]:
    """Per content and band the number of its bucket, ALONE if no other is in it; and the number of buckets."""

    def in_band(band: int) -> tuple[NDArray[np.int32], int]:
        _, bucket, sizes = np.unique(keys[:, band], return_inverse=True, return_counts=True)
        shared = sizes > 1
        numbers = np.where(shared, np.cumsum(shared) - 1, ALONE).astype(np.int32)
        return numbers[bucket], int(shared.sum())

    of, count = np.empty(keys.shape, dtype=np.int32), 0
    for band, (numbers, own) in enumerate(threads.map(in_band, range(keys.shape[1]))):
        of[:, band] = np.where(numbers == ALONE, ALONE, numbers + count)
        count += own
    return of, count


@threaded_kernel
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
