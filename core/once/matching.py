"""The match graph of all contents, its components and its stars, in compiled code.

The match graph is that of tier 2: contents are candidates if they share a band, candidates match by exact Jaccard, and
pages with one content match. A pair is compared in the first band that it shares, once, and only if the two are not in
one component yet. Pages with one content have the same neighbours, so the best of them represents all.

A bucket with many components that do not match is a crowd: its heavy contents are compared only if they share a shingle
outside the crowd's core (core/tier2/crowd.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.arrays import ascending, copy_into, stable_order
from dustream.core.kernels.compile import inner, kernel, threaded_kernel
from dustream.core.kernels.hash_slots import after, home, slot_count
from dustream.core.once.contents import Columns
from dustream.core.similarity import jaccard, similarity_at_least
from dustream.core.tier2.crowd import Crowd, core_of
from dustream.core.tier2.odd_sketch import SKETCH_WORDS, is_out_of_reach, odd_sketch

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

Chosen = Callable[[Ints, Words], NDArray[np.bool_]]
"""Of contents and their keys of one band: whose buckets are examined."""

OnRows = Callable[[], None]
"""Called after every ROWS_AT_ONCE rows: may release mapped memory, or raise an error to stop."""

ALONE = -1  # in its bucket
ROWS_AT_ONCE = 4_096
NOBODY = -1
CORE_SAMPLE_MAX = 512
CROWD_MIN = 128  # components in one bucket
HEAVY = 2  # the content is in a crowd, and heavy
LIGHT = 1  # the content is in a crowd, and not heavy


class Sets(NamedTuple):
    """The shingle sets of contents: where each begins and ends in `shingles`; and the sketches of those compared."""

    starts: Ints
    ends: Ints
    shingles: Words
    sketches: Words  # (contents * SKETCH_WORDS)
    sketched: NDArray[np.bool_]


class MatchGraph(NamedTuple):
    """Per content the root of its component; per content and band the number of its bucket, ALONE if no other content
    is in it; and the number of buckets."""

    roots: Ints
    buckets: NDArray[np.int32]
    bucket_count: int


def sets_of(columns: Columns) -> Sets:
    return sets_between(columns.starts, columns.ends, columns.shingles)


def sets_between(starts: Ints, ends: Ints, shingles: Words) -> Sets:
    sketches = np.empty(len(starts) * SKETCH_WORDS, dtype=np.uint64)
    return Sets(starts, ends, shingles, sketches, np.zeros(len(starts), dtype=np.bool_))


@threaded_kernel
def first_copies(hashes: Words, present: Ints) -> Ints:
    """For each content in `present`, the first one there with the same content hash."""
    slots = np.full(slot_count(len(present)), -1, dtype=np.int64)
    firsts = np.empty(len(present), dtype=np.int64)
    for row in range(len(present)):
        content = present[row]
        slot = home(hashes[content, 0], len(slots))
        while slots[slot] >= 0 and not np.all(hashes[slots[slot]] == hashes[content]):
            slot = after(slot, len(slots))
        if slots[slot] < 0:
            slots[slot] = content
        firsts[row] = slots[slot]
    return firsts


@inner
def root_of(parents: Ints, content: int) -> int:
    while parents[content] != content:
        parents[content] = parents[parents[content]]
        content = parents[content]
    return content


@inner
def met_before(of: NDArray[np.int32], one: int, other: int, band: int) -> bool:
    """Whether two contents share a bucket of an earlier band."""
    earlier = 0
    while earlier < band and (of[one, earlier] != of[other, earlier] or of[one, earlier] == ALONE):
        earlier += 1
    return earlier < band


@kernel
def sketch(sets: Sets, content: int) -> Words:
    at = content * SKETCH_WORDS
    own = sets.sketches[at : at + SKETCH_WORDS]
    if not sets.sketched[content]:
        copy_into(own, odd_sketch(sets.shingles[sets.starts[content] : sets.ends[content]]))
        sets.sketched[content] = True
    return own


@kernel
def similarity(sets: Sets, one: int, other: int, numerator: int, denominator: int) -> float:
    """The Jaccard similarity of two contents if it is at least the ratio, else -1.0."""
    sketch(sets, other)
    if is_out_of_reach(sketch(sets, one), sets.sketches, other * SKETCH_WORDS, numerator, denominator):
        return -1.0
    shingles = sets.shingles
    ours, others = shingles[sets.starts[one] : sets.ends[one]], shingles[sets.starts[other] : sets.ends[other]]
    return similarity_at_least(ours, others, numerator, denominator)


@threaded_kernel
def join_bucket(
    members: Ints,
    of: NDArray[np.int32],
    band: int,
    sets: Sets,
    numerator: int,
    denominator: int,
    parents: Ints,
    weights: NDArray[np.int8],
    lists_max: int,
) -> bool:
    """Join the components of a bucket's members that match. Members of one component are on one list: a content that
    matches one of them need not be compared with the rest. Heavy contents are on no list and are not compared with each
    other. Returns False if there are too many lists."""
    members = members[stable_order(weights[members] == HEAVY)]
    heads, tails = np.empty(len(members), dtype=np.int64), np.empty(len(members), dtype=np.int64)
    following, lists = np.full(len(members), -1, dtype=np.int64), 0
    for row in range(len(members)):
        content = members[row]
        if lists > lists_max:
            return False
        for each in range(lists):
            if root_of(parents, members[heads[each]]) == root_of(parents, content):
                continue
            at = heads[each]
            while at >= 0:
                other = members[at]
                compared = met_before(of, content, other, band)
                if not compared and similarity(sets, content, other, numerator, denominator) >= 0.0:
                    parents[root_of(parents, content)] = root_of(parents, other)
                    break
                at = following[at]
        if weights[content] != HEAVY:
            lists = put_on_list(members, row, parents, heads, tails, following, lists)
    return True


@inner
def put_on_list(members: Ints, row: int, parents: Ints, heads: Ints, tails: Ints, following: Ints, lists: int) -> int:
    """Merge all lists of the member's component into one, with the member at its end. Returns the number of lists."""
    own, each, root = -1, 0, root_of(parents, members[row])
    while each < lists:
        if root_of(parents, members[heads[each]]) != root:
            each += 1
        elif own < 0:
            own = each
            each += 1
        else:
            following[tails[own]], tails[own] = heads[each], tails[each]
            lists -= 1
            heads[each], tails[each] = heads[lists], tails[lists]
    if own < 0:
        heads[lists] = tails[lists] = row
        return lists + 1
    following[tails[own]] = row
    tails[own] = row
    return lists


@threaded_kernel
def join_band(
    contents: Ints, column: Words, order: Ints, start: int, band: int, of: NDArray[np.int32], count: int, sets: Sets,
    numerator: int, denominator: int, parents: Ints, weights: NDArray[np.int8],
) -> tuple[int, int, int]:  # fmt: skip
    """Number the buckets of one band, from `count` on, and join the matches in them, from row `start` on, for
    ROWS_AT_ONCE rows. `column` has the contents' keys, `order` their rows by key. Stops at the first crowd: returns its
    start and end (or where it stopped, twice) and the next bucket number."""
    stop = start + ROWS_AT_ONCE
    while start < len(order) and start < stop:
        end = start + 1
        while end < len(order) and column[order[end]] == column[order[start]]:
            end += 1
        if end - start > 1:
            members = contents[order[start:end]]
            for content in members:
                of[content, band] = count
            if not join_bucket(members, of, band, sets, numerator, denominator, parents, weights, CROWD_MIN):
                return start, end, count + 1
            count += 1
        start = end
    return start, start, count


@threaded_kernel
def roots_of(parents: Ints) -> Ints:
    roots = np.empty_like(parents)
    for content in range(len(parents)):
        roots[content] = root_of(parents, content)
    return roots


@kernel
def join_sharing(
    content: int, others: Ints, keys: Words, sets: Sets, numerator: int, denominator: int, parents: Ints
) -> None:
    """Join a content with those of the others that share a band with it and match."""
    for other in others:
        is_open = root_of(parents, other) != root_of(parents, content) and np.any(keys[content] == keys[other])
        if is_open and similarity(sets, content, other, numerator, denominator) >= 0.0:
            parents[root_of(parents, content)] = root_of(parents, other)


class Crowds:
    """Which contents in crowds are heavy. Heavy contents are joined as they are found."""

    def __init__(self, keys: Words, sets: Sets, ratio: tuple[int, int], parents: Ints) -> None:
        self._keys, self._sets, self._ratio, self._parents = keys, sets, ratio, parents
        self._crowd = Crowd(ratio, self._set)
        self.weights: NDArray[np.int8] = np.zeros(len(parents), dtype=np.int8)

    def draft(self, members: Ints) -> None:
        new = members[self.weights[members] == 0]
        if not len(new):
            return
        self._lighten(self._crowd.learn(core_of([self._set(content) for content in new[:CORE_SAMPLE_MAX].tolist()])))
        for content in new.tolist():
            part = self._crowd.heavy_part(self._set(content))
            if part is None:
                self.weights[content] = LIGHT
                continue
            sharing = self._crowd.sharing(part)
            if len(sharing):
                join_sharing(content, sharing, self._keys, self._sets, *self._ratio, self._parents)
            self.weights[content] = HEAVY
            self._lighten(self._crowd.enter(content, part))

    def _lighten(self, contents: list[int]) -> None:
        self.weights[contents] = LIGHT

    def _set(self, content: int) -> Words:
        return self._sets.shingles[self._sets.starts[content] : self._sets.ends[content]]


def match_graph(
    keys: Words,
    contents: Ints,
    sets: Sets,
    ratio: tuple[int, int],
    chosen: Chosen | None = None,
    on_rows: OnRows = lambda: None,
) -> MatchGraph:
    """The components of these contents, which have shingles and distinct content hashes. `chosen` restricts what is
    compared to some buckets."""
    parents = np.arange(len(keys), dtype=np.int64)
    of = np.full(keys.shape, ALONE, dtype=np.int32)
    crowds, count = Crowds(keys, sets, ratio, parents), 0
    for band in range(keys.shape[1]):
        filled, column = contents, keys[contents, band]
        if chosen is not None:
            some = chosen(filled, column)
            filled, column = filled[some], column[some]
        order, start = np.argsort(column, kind="stable"), 0
        while start < len(order):
            row = filled, column, order, start, band, of, count
            start, end, count = join_band(*row, sets, *ratio, parents, crowds.weights)
            if start < end:
                members = filled[order[start:end]]
                crowds.draft(members)
                join_bucket(members, of, band, sets, *ratio, parents, crowds.weights, len(members))
                start = end
            on_rows()
    return MatchGraph(roots_of(parents), of, count)


class RankedWinners(NamedTuple):
    """By item: the item that is kept for it (itself, if it is kept), the exact Jaccard similarity to that one, and
    whether both have the same content."""

    winners: Ints
    similarities: NDArray[np.float64]
    exact: NDArray[np.bool_]


class Given(NamedTuple):
    """Items that are winners whatever they match: those below `items`, which are the best. Closed: there are no other
    winners that a content can be dropped for."""

    items: int
    is_closed: bool


NOTHING_GIVEN = Given(0, False)
NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int64)


def ranked_winners(
    firsts: Ints,
    ranked: Ints,
    graph: MatchGraph,
    sets: Sets,
    ratio: tuple[int, int],
    given: Given = NOTHING_GIVEN,
    on_rows: OnRows = lambda: None,
    same: Ints = NO_PAIRS,
) -> RankedWinners:
    """The winners among items with a content each (`firsts`). `ranked`: the items, the best first; there may be items
    that are not among them, whose rows of the result have no meaning. The best of several items with one content stands
    for all. `same`: pairs of contents that match whatever their similarity."""
    contents, places = np.unique(firsts[ranked], return_index=True)
    by_rank = np.argsort(places)
    order, best = contents[by_rank], ranked[places[by_rank]]
    row_of = np.zeros(len(graph.roots), dtype=np.int64)
    row_of[order] = np.arange(len(order))
    found = WinnerLists.empty(len(order), graph, row_of[same])
    sure = int(np.count_nonzero(best < given.items))
    for start in range(0, len(order), ROWS_AT_ONCE):
        stars(order, graph, sets, *ratio, sure, given.is_closed, found, start)
        on_rows()
    rows = row_of[firsts]
    winner_rows = np.where(found.winners[rows] == NOBODY, rows, found.winners[rows])
    return RankedWinners(best[winner_rows], found.similarities[rows], winner_rows == rows)


class WinnerLists(NamedTuple):
    """By row of an order of contents, the best first: the row of the best winner that matches it (NOBODY: it is a
    winner itself), and the similarity to it. Each bucket has a list of its winners, the best first: its head and tail
    by bucket, the next one by row and band. `same`: pairs of rows that match whatever their similarity, the worse one
    first, ascending."""

    winners: Ints
    similarities: NDArray[np.float64]
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    following: NDArray[np.int32]
    same: Ints

    @classmethod
    def empty(cls, rows: int, graph: MatchGraph, same: Ints) -> WinnerLists:
        heads, tails = (np.full(graph.bucket_count, -1, dtype=np.int32) for _ in range(2))
        following = np.full((rows, graph.buckets.shape[1]), -1, dtype=np.int32)
        pairs = np.column_stack((same.max(axis=1), same.min(axis=1))) if len(same) else NO_PAIRS
        pairs = np.ascontiguousarray(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
        return cls(np.full(rows, NOBODY, dtype=np.int64), np.ones(rows), heads, tails, following, pairs)


@threaded_kernel
def stars(
    order: Ints, graph: MatchGraph, sets: Sets, numerator: int, denominator: int, given: int, is_closed: bool,
    found: WinnerLists, start: int,
) -> None:  # fmt: skip
    """Fill in ROWS_AT_ONCE rows from `start` on. The first `given` contents are winners without a comparison, and if it
    is closed, the only ones on lists."""
    of, heads, tails, following = graph.buckets, found.heads, found.tails, found.following
    for row in range(start, min(len(order), start + ROWS_AT_ONCE)):
        content = order[row]
        met = winners_met(content, order, graph.roots, of, heads, following) if row >= given else order[:0]
        for other in met:
            reached = similarity(sets, content, order[other], numerator, denominator)
            if reached >= 0.0:
                found.winners[row], found.similarities[row] = other, reached
                break
        if len(found.same):
            take_decided(row, order, sets, found)
        is_listed = found.winners[row] == NOBODY and (row < given or not is_closed)
        for band in range(of.shape[1]):
            bucket = of[content, band]
            if is_listed and bucket != ALONE:
                if heads[bucket] < 0:
                    heads[bucket] = row
                else:
                    following[tails[bucket], band] = row
                tails[bucket] = row


@inner
def take_decided(row: int, order: Ints, sets: Sets, found: WinnerLists) -> None:
    """A winner that is the same by decision counts if it is better than the one that matches by similarity."""
    at = np.searchsorted(found.same[:, 0], row)
    while at < len(found.same) and found.same[at, 0] == row:
        other = found.same[at, 1]
        is_better = found.winners[row] == NOBODY or other < found.winners[row]
        if is_better and found.winners[other] == NOBODY:
            one, best = order[row], order[other]
            ours = sets.shingles[sets.starts[one] : sets.ends[one]]
            others = sets.shingles[sets.starts[best] : sets.ends[best]]
            found.winners[row], found.similarities[row] = other, jaccard(ours, others)
        at += 1


@inner
def winners_met(
    content: int, order: Ints, roots: Ints, of: NDArray[np.int32], heads: NDArray[np.int32],
    following: NDArray[np.int32],
) -> Ints:  # fmt: skip
    """The rows of the winners in the content's buckets that are in its component, the best first."""
    met, count = np.empty(8, dtype=np.int64), 0
    for band in range(of.shape[1]):
        row = np.int64(heads[of[content, band]]) if of[content, band] != ALONE else np.int64(-1)
        while row >= 0:
            other = order[row]
            if roots[other] == roots[content] and not met_before(of, content, other, band):
                if count == len(met):
                    met = np.concatenate((met, np.empty_like(met)))
                met[count] = row
                count += 1
            row = np.int64(following[row, band])
    return ascending(met[:count])
