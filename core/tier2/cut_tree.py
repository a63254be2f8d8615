"""The lossless partition map: a tree of cuts over length and sub-dictionary shares. All arithmetic is in integers.

A *length cut* divides pages by L, the number of distinct shingles. A *share cut* has a sub-dictionary of its own, a
set S of token buckets, and divides by the share s = |A ∩ S| / |A| of a page's shingles that lie in it. A page crosses
a cut when a page at Jaccard ≥ τ may lie on the other side; it probes every partition that it reaches by crossing.

Which pages cross. Let |A| = a, and B be A with x shingles removed and y added. J(A, B) = (a − x)/(a + y) ≥ τ means
    x + τ·y ≤ (1 − τ)·a.                                                                                     (1)
- Length: |B| ≤ a + y ≤ a/τ and |B| ≥ a − x ≥ τ·a.
- Share, s(A) ≥ c > s(B): of removals, those from S move the share most, of additions, those outside S, so
    (1 − c)·x + c·y > |A ∩ S| − c·a,
  and the left side, linear, is greatest under (1) at x = (1 − τ)a or at y = (1 − τ)a/τ. Hence
    s(A) < 1 − τ(1 − c)   or   s(A) < c/τ.                                                                   (2)
- Share, s(A) < c ≤ s(B): the same with the complement of S: 1 − s(A) ≤ 1 − τc or 1 − s(A) ≤ (1 − c)/τ.       (3)
At c = 1/2 and τ = .9 that is .056 to either side; the total-variation bound |s(A) − s(B)| ≤ 1 − τ would give .1.

Ties. Many pages can have one coordinate (a template, empty pages), more than one partition should hold. A cut therefore
has a tie threshold besides its coordinate: pages exactly at the coordinate go below if their tie is below the
threshold. These pages always cross, so no pair is lost and only they pay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import StateMismatch
from dustream.core.kernels.compile import inner, kernel
from dustream.core.partitioning import TIE_BITS
from dustream.core.tier2.points import BUCKET_COUNT, BUCKET_SHIFT, PARTITIONS_MAX, TAU_PARTS, PointBatch
from dustream.core.tier2.routing import Routing

LOSSLESS_VERSION = 1
SHARE_UNITS = 65536
BY_LENGTH = -1
BYTE_MAX = 255
VECTOR_BYTES = 32


class Cut(Struct, frozen=True, array_like=True):
    """One inner node. Children are indexes of cuts, or ~partition; `sub_dictionary` is the index of a mask, or
    BY_LENGTH.

    A partition may have several leaves.
    """

    sub_dictionary: int
    coordinate: int
    tie_below: int
    below: int
    above: int


class LosslessMapData(Struct, frozen=True, kw_only=True, tag="lossless", tag_field="kind"):
    """The stored form. `masks` has one bit per token bucket, 512 bytes for each sub-dictionary."""

    version: int
    partitions: int
    tau_parts: int
    cuts: tuple[Cut, ...]
    masks: bytes
    sample_pages: int


class _CutArrays(NamedTuple):
    """The cuts by column. `members` has a row for each bucket: 1 for the sub-dictionaries that contain it."""

    members: NDArray[np.uint8]
    sub_dictionary: NDArray[np.int64]
    coordinate: NDArray[np.int64]
    tie_below: NDArray[np.int64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]


class LosslessMap(Routing):
    """Every pair at Jaccard ≥ τ meets: home(B) is home(A) or among probes(A), and vice versa."""

    def __init__(self, data: LosslessMapData) -> None:
        _check(data)
        self.data = data
        self.partitions = data.partitions
        self.tau = data.tau_parts / TAU_PARTS
        self._members, self._columns = _arrays(data)

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """The language is ignored: near duplicates may be assigned different ones."""
        if self.partitions == 1:
            return 0, ()
        home, *probes = _route_alone(
            shingles, tie, self._members, self._columns, self.data.tau_parts, self.partitions
        ).tolist()
        return home, tuple(probes)

    def routes(self, batch: PointBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        contacted = np.zeros((len(batch), self.partitions), np.bool_)
        cuts = _CutArrays(self._members, *self._columns)
        homes = _route_pages(batch.shingles, batch.start, batch.tie, cuts, self.data.tau_parts, contacted)
        return homes, contacted

    def describe(self) -> str:
        """The tree as text, one line per cut and per partition."""
        head = f"lossless map, {self.partitions} partitions, tau {self.tau}, from {self.data.sample_pages} pages"
        return "\n".join([head, *_describe(self.data, 0 if self.data.cuts else ~0)])


@inner
def _length_may_fall_to(length: int, most: int, tau: int) -> bool:
    return most * TAU_PARTS >= tau * length


@inner
def _length_may_reach(length: int, least: int, tau: int) -> bool:
    return length * TAU_PARTS >= tau * least


@inner
def _share_may_fall_below(inside: int, length: int, cut: int, tau: int) -> bool:
    """Bound (2) for s(A) = inside / length ≥ c = cut / SHARE_UNITS; products stay below 2**62."""
    by_adding = cut * length * TAU_PARTS >= tau * inside * SHARE_UNITS
    by_removing = (length - inside) * SHARE_UNITS * TAU_PARTS >= tau * (SHARE_UNITS - cut) * length
    return by_adding or by_removing


@inner
def _share_may_reach(inside: int, length: int, cut: int, tau: int) -> bool:
    """Bound (3): the complement's share falls to at most 1 − c."""
    return bool(_share_may_fall_below(length - inside, length, SHARE_UNITS - cut, tau))


@inner
def _count_inside(shingles: NDArray[np.uint64], members: NDArray[np.uint8]) -> NDArray[np.int64]:
    """|A ∩ S| for every sub-dictionary at once: rows of bytes are added in a few vector instructions per shingle."""
    width = members.shape[1]
    inside = np.zeros(width, np.int64)
    if width == 0:
        return inside
    some = np.zeros(width, np.uint8)
    for first in range(0, len(shingles), BYTE_MAX):
        some[:] = 0
        for at in range(first, min(first + BYTE_MAX, len(shingles))):
            row = members[shingles[at] >> np.uint64(BUCKET_SHIFT)]
            for i in range(width):
                some[i] += row[i]
        inside += some
    return inside


@inner
def _sides(length: int, counts: NDArray[np.int64], tie: int, cuts: _CutArrays, at: int, tau: int) -> tuple[bool, bool]:
    """(the page lies below the cut, it crosses). A page without shingles has share 1 and matches only such pages."""
    coordinate, tie_below = cuts.coordinate[at], cuts.tie_below[at]
    by_length = cuts.sub_dictionary[at] == BY_LENGTH
    inside = length if by_length else counts[cuts.sub_dictionary[at]]
    if by_length:
        own = length
    else:
        own = SHARE_UNITS if length == 0 else inside * SHARE_UNITS // length
    below = own < coordinate or (own == coordinate and tie < tie_below)
    if own == coordinate and tie_below > 0:
        return below, True
    if length == 0:
        return below, False
    if by_length:
        if below:
            return below, _length_may_reach(length, coordinate, tau)
        return below, _length_may_fall_to(length, coordinate if tie_below > 0 else coordinate - 1, tau)
    if below:
        return below, _share_may_reach(inside, length, coordinate, tau)
    return below, _share_may_fall_below(inside, length, coordinate + 1 if tie_below > 0 else coordinate, tau)


@inner
def _route_page(
    shingles: NDArray[np.uint64], tie: int, cuts: _CutArrays, tau: int, contacted: NDArray[np.bool_]
) -> int:
    """Mark the partitions that the page contacts, and return its home: the leaf reached without crossing."""
    stack = np.empty(len(cuts.below) + 1, np.int64)
    on_home_path = np.empty(len(cuts.below) + 1, np.bool_)
    length, counts = len(shingles), _count_inside(shingles, cuts.members)
    home = 0
    stack[0], on_home_path[0], top = (0 if len(cuts.below) else ~0), True, 1
    while top:
        top -= 1
        at, homeward = stack[top], on_home_path[top]
        if at < 0:
            contacted[~at] = True
            if homeward:
                home = ~at
            continue
        below, crosses = _sides(length, counts, tie, cuts, at, tau)
        stack[top], on_home_path[top] = (cuts.below[at] if below else cuts.above[at]), homeward
        top += 1
        if crosses:
            stack[top], on_home_path[top] = (cuts.above[at] if below else cuts.below[at]), False
            top += 1
    return home


@kernel
def _route_pages(
    shingles: NDArray[np.uint64],
    start: NDArray[np.int64],
    tie: NDArray[np.int64],
    cuts: _CutArrays,
    tau: int,
    contacted: NDArray[np.bool_],
) -> NDArray[np.int64]:
    homes = np.empty(len(start) - 1, np.int64)
    for page in range(len(homes)):
        own = shingles[start[page] : start[page + 1]]
        homes[page] = _route_page(own, tie[page], cuts, tau, contacted[page])
    return homes


@kernel
def _route_alone(
    shingles: NDArray[np.uint64],
    tie: int,
    members: NDArray[np.uint8],
    columns: NDArray[np.int64],
    tau: int,
    partitions: int,
) -> NDArray[np.int64]:
    """Home, then the probes ascending. The arguments are plain arrays: passing a named tuple costs more than
    routing."""
    cuts = _CutArrays(members, columns[0], columns[1], columns[2], columns[3], columns[4])
    contacted = np.zeros(partitions, np.bool_)
    home = _route_page(shingles, tie, cuts, tau, contacted)
    found = np.empty(partitions, np.int64)
    found[0], count = home, 1
    for partition in range(partitions):
        if contacted[partition] and partition != home:
            found[count] = partition
            count += 1
    return found[:count]


def _arrays(data: LosslessMapData) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(members, the other columns of `_CutArrays`). Rows are padded to whole vectors."""
    packed = np.frombuffer(data.masks, np.uint8).reshape(-1, BUCKET_COUNT // 8)
    columns = np.array(
        [(c.sub_dictionary, c.coordinate, c.tie_below, c.below, c.above) for c in data.cuts], np.int64
    ).reshape(-1, 5)
    members = np.unpackbits(packed, axis=1).T
    padding = -members.shape[1] % VECTOR_BYTES
    return np.ascontiguousarray(np.pad(members, ((0, 0), (0, padding)))), np.ascontiguousarray(columns.T)


def _check(data: LosslessMapData) -> None:
    """Reject a damaged map: it comes from a file or a topic, and would misroute pages."""
    mask_count, rest = divmod(len(data.masks), BUCKET_COUNT // 8)
    leaves = {~child for cut in data.cuts for child in (cut.below, cut.above) if child < 0}
    inner = sorted(child for cut in data.cuts for child in (cut.below, cut.above) if child >= 0)
    sound = (
        1 <= data.partitions <= PARTITIONS_MAX
        and 0 < data.tau_parts < TAU_PARTS
        and rest == 0
        and leaves == (set(range(data.partitions)) if data.cuts else set())
        and (bool(data.cuts) or data.partitions == 1)
        and inner == list(range(1, len(data.cuts)))
        and all(child < 0 or child > at for at, cut in enumerate(data.cuts) for child in (cut.below, cut.above))
        and all(BY_LENGTH <= cut.sub_dictionary < mask_count for cut in data.cuts)
        and all(0 <= cut.coordinate < 2**31 and 0 <= cut.tie_below <= 2**TIE_BITS for cut in data.cuts)
        and all(cut.sub_dictionary == BY_LENGTH or cut.coordinate <= SHARE_UNITS for cut in data.cuts)
    )
    if not sound:
        raise StateMismatch("the partition map is damaged: build it again with `dustream partitions`")


def _describe(data: LosslessMapData, at: int) -> list[str]:
    lines: list[str] = []
    pending = [(at, 1)]
    while pending:
        node, depth = pending.pop()
        if node < 0:
            lines.append("  " * depth + f"partition {~node}")
            continue
        cut = data.cuts[node]
        lines.append("  " * depth + _describe_cut(cut, data.masks))
        pending += [(cut.above, depth + 1), (cut.below, depth + 1)]
    return lines


def _describe_cut(cut: Cut, masks: bytes) -> str:
    ties = f", ties {cut.tie_below / 2**TIE_BITS:.0%} below" if cut.tie_below else ""
    if cut.sub_dictionary == BY_LENGTH:
        return f"length < {cut.coordinate}{ties}"
    width = BUCKET_COUNT // 8
    buckets = sum(byte.bit_count() for byte in masks[cut.sub_dictionary * width : (cut.sub_dictionary + 1) * width])
    share = cut.coordinate / SHARE_UNITS
    return f"share of sub-dictionary {cut.sub_dictionary} ({buckets} buckets) < {share:.4f}{ties}"
