"""Groups and winners of records that have a text and a rank, and nothing else: a corpus, row by row.

The match graph and its stars are those of pages (`matching`); the rank alone decides who wins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dustream.core.once.contents import Contents
from dustream.core.once.matching import Ints, RankedWinners, first_copies, match_graph, ranked_winners, sets_of


class RecordVerdicts(NamedTuple):
    """By record: the first record of its group, and its winner."""

    groups: Ints
    kept: RankedWinners


def judge_records(contents: Contents, ranked: Ints) -> RecordVerdicts:
    """The verdict on each of the contents. `ranked` has their numbers, the best first."""
    count = len(contents)
    if not count:
        none = np.empty(0, dtype=np.int64)
        return RecordVerdicts(none, RankedWinners(none, np.empty(0), np.empty(0, dtype=np.bool_)))
    columns = contents.columns()
    firsts, sets = first_copies(columns.hashes, np.arange(count, dtype=np.int64)), sets_of(columns)
    graph = match_graph(columns, np.unique(firsts), sets, contents.ratio)
    winners = ranked_winners(firsts, ranked, graph, sets, contents.ratio)
    return RecordVerdicts(_first_members(graph.roots[firsts]), winners)


def _first_members(roots: Ints) -> Ints:
    """By record: the first record with the same root."""
    _, first, group = np.unique(roots, return_index=True, return_inverse=True)
    members: Ints = first[group]
    return members
