"""Groups and winners of records that have only a text and a rank: a corpus, row by row.

The match graph and its stars are those of pages (`matching`); the rank alone decides the winners.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.once.contents import Contents
from dustream.core.once.matching import NOBODY, Ints, first_copies, match_graph, sets_of, stars


class RecordVerdicts(NamedTuple):
    """By record: the first record of its group, the record kept for it (itself, if it is kept), the exact Jaccard
    similarity to that one, and whether both have the same content."""

    groups: Ints
    winners: Ints
    similarities: NDArray[np.float64]
    exact: NDArray[np.bool_]


def judge_records(contents: Contents, ranked: Ints) -> RecordVerdicts:
    """The verdict on each content. `ranked` has their numbers, the best first."""
    count = len(contents)
    if not count:
        none = np.empty(0, dtype=np.int64)
        return RecordVerdicts(none, none, np.empty(0), np.empty(0, dtype=np.bool_))
    columns, numbers = contents.columns(), np.arange(count, dtype=np.int64)
    firsts, sets = first_copies(columns.hashes, numbers), sets_of(columns)
    roots, buckets, bucket_count = match_graph(columns, np.unique(firsts), sets, contents.ratio)
    ranked_firsts, places = np.unique(firsts[ranked], return_index=True)
    by_rank = np.argsort(places)  # of several records with one content, the best represents all
    order, best = ranked_firsts[by_rank], ranked[places[by_rank]]
    found, similarities = stars(order, roots, buckets, bucket_count, sets, *contents.ratio)
    row_of = np.empty(count, dtype=np.int64)
    row_of[order] = np.arange(len(order))
    rows = row_of[firsts]
    winner_rows = np.where(found[rows] == NOBODY, rows, found[rows])
    return RecordVerdicts(
        groups=_first_members(roots[firsts]),
        winners=best[winner_rows],
        similarities=similarities[rows],
        exact=winner_rows == rows,
    )


def _first_members(roots: Ints) -> Ints:
    """By record: the first record with the same root."""
    _, first, group = np.unique(roots, return_index=True, return_inverse=True)
    members: Ints = first[group]
    return members
