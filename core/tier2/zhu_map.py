"""Zhu et al.'s partition map (section 4): languages first, then a grid over the lengths in N sub-dictionaries.

Kept beside the lossless map for comparison. It loses pairs: those whose pages were assigned different languages, and
those that leave the bounding space (L_i τ/ρ, L_i ρ/τ), which is sound only for impractically large ρ (section 4.2).
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.kernels.compile import kernel
from dustream.core.tier2.points import (
    BUCKET_COUNT,
    PARTITIONS_MAX,
    TAU_PARTS,
    PointBatch,
    batch_of,
    count_by_table,
    require_partitions,
    tau_parts,
)
from dustream.core.tier2.routing import Routing

ZHU_VERSION = 1
DIMENSIONS_MAX = 3
RHO_PARTS = 10_000
# A page's lengths in hashed sub-dictionaries are strongly correlated, so most cells of a grid are nearly empty. With
# one cell per partition, 2-D and 3-D are less even than 1-D; packed from many cells, they are more even.
INTERVALS_DEFAULT = 32
INTERVALS_MAX = 64
ONE_CELL = 0
"""Intervals per dimension: the fewest that give each partition its own cell."""
FINE_INTERVALS_MAX = 4096

Packing = Literal["morton", "spread"]
"""How cells are assigned to partitions: runs of equal load along the Morton order, which keeps neighbours together; or
the heaviest first, each to the emptiest partition, for the most equal loads."""
PACKINGS: tuple[Packing, ...] = ("morton", "spread")


class LanguageGrid(Struct, frozen=True, array_like=True):
    """The partitions of some languages. `bounds` are left bounds per dimension; `cell_partition` is row-major."""

    languages: tuple[str, ...]
    bounds: tuple[tuple[int, ...], ...]
    cell_partition: tuple[int, ...]


class ZhuMapData(Struct, frozen=True, kw_only=True, tag="zhu", tag_field="kind"):
    """The stored form. Pages in a language without a grid go to the first grid."""

    version: int
    partitions: int
    tau_parts: int
    rho_parts: int
    dimensions: int
    grids: tuple[LanguageGrid, ...]
    sample_pages: int


class Variation(NamedTuple):
    """δ: how unevenly words fall into sub-dictionaries; ε: how far |A^k| is from L(A^1); ρ as in section 4.2."""

    delta: float
    epsilon: float
    rho: float


class ZhuMap(Routing):
    """Homes by language and length ranges, probes by the bounding space of Expression (1)."""

    def __init__(self, data: ZhuMapData) -> None:
        _check(data)
        self.data = data
        self.partitions = data.partitions
        self.tau = data.tau_parts / TAU_PARTS
        self._table = hashed_sub_dictionaries(data.dimensions)
        self._grid_of = {name: at for at, grid in enumerate(data.grids) for name in grid.languages}
        self._bounds = [[np.array(bounds, np.int64) for bounds in grid.bounds] for grid in data.grids]
        self._cells = [np.array(grid.cell_partition, np.int64) for grid in data.grids]

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        """Probes are the partitions whose ranges meet the page's bounding space."""
        homes, contacted = self.routes(batch_of([shingles], [tie], [lang]))
        home = int(homes[0])
        return home, tuple(partition for partition in np.flatnonzero(contacted[0]).tolist() if partition != home)

    def routes(self, batch: PointBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        lengths = length_vectors(batch, self._table, self.data.dimensions)
        homes = np.zeros(len(batch), np.int64)
        contacted = np.zeros((len(batch), self.partitions), np.bool_)
        grid_of = [0] * len(batch) if batch.lang is None else [self._grid_of.get(name, 0) for name in batch.lang]
        for at, grid in enumerate(self._bounds):
            pages = np.flatnonzero(np.array(grid_of, np.int64) == at)
            self._route_in_grid(lengths[pages], pages, grid, self._cells[at], homes, contacted)
        return homes, contacted

    def describe(self) -> str:
        """The grids as text: the cuts of each dimension and the partitions they share."""
        data = self.data
        rho = data.rho_parts / RHO_PARTS
        lines = [f"Zhu {data.dimensions}-D map, {self.partitions} partitions, tau {self.tau}, rho {rho}"]
        for grid in data.grids:
            numbers = sorted(set(grid.cell_partition))
            lines.append(f"  languages {', '.join(grid.languages) or 'all'}: partitions {numbers[0]}–{numbers[-1]}")
            lines += [f"    length in sub-dictionary {i + 1} from {list(b)}" for i, b in enumerate(grid.bounds)]
        return "\n".join(lines)

    def _route_in_grid(
        self,
        lengths: NDArray[np.int64],
        pages: NDArray[np.int64],
        bounds: list[NDArray[np.int64]],
        cells: NDArray[np.int64],
        homes: NDArray[np.int64],
        contacted: NDArray[np.bool_],
    ) -> None:
        shape = np.array([len(one) for one in bounds])
        tau, rho = self.data.tau_parts, self.data.rho_parts
        ranges = [interval_ranges(lengths[:, i], b, tau, rho) for i, b in enumerate(bounds)]
        own = np.stack([np.searchsorted(b, lengths[:, i], "right") - 1 for i, b in enumerate(bounds)], axis=1)
        homes[pages] = cells[np.ravel_multi_index(tuple(own.T), tuple(shape))]
        lows, highs = np.stack([low for low, _ in ranges], axis=1), np.stack([high for _, high in ranges], axis=1)
        _mark_cells(lows, highs, shape, cells, pages, contacted)
        contacted[pages, homes[pages]] = True


def learn_zhu_map(
    batch: PointBatch,
    partitions: int,
    tau: float,
    dimensions: int = DIMENSIONS_MAX,
    rho: float = 1.1,
    intervals: int = INTERVALS_DEFAULT,
    packing: Packing = "morton",
) -> ZhuMap:
    """Sections 4.1 and 4.3 on a sample. The paper does not specify the number of intervals per dimension, nor which
    cells share a machine."""
    require_partitions(partitions)
    parts = tau_parts(tau)
    if not 1 <= dimensions <= DIMENSIONS_MAX:
        raise BadSetting(f"{dimensions} dimensions: Zhu's map has 1 to {DIMENSIONS_MAX}")
    if not 1.0 <= rho <= 100.0:
        raise BadSetting(f"rho is {rho}: the interval enlarging factor must be between 1 and 100, such as 1.1")
    if not 0 <= intervals <= INTERVALS_MAX:
        raise BadSetting(
            f"{intervals} intervals: use 1 to {INTERVALS_MAX} for each dimension, or 0 for one cell per partition"
        )
    lengths = length_vectors(batch, hashed_sub_dictionaries(dimensions), dimensions)
    grids = []
    first = 0
    for languages, pages, share in _language_shares(batch, partitions):
        grids.append(_language_grid(languages, lengths[pages], first, share, parts, intervals, packing))
        first += share
    return ZhuMap(
        ZhuMapData(
            version=ZHU_VERSION,
            partitions=partitions,
            tau_parts=parts,
            rho_parts=math.ceil(rho * RHO_PARTS),
            dimensions=dimensions,
            grids=tuple(grids),
            sample_pages=len(batch),
        )
    )


def hashed_sub_dictionaries(dimensions: int) -> NDArray[np.uint8]:
    """Bucket → sub-dictionary. Buckets are hashes already; a multiplier keeps neighbours apart."""
    bucket = np.arange(BUCKET_COUNT, dtype=np.uint64)
    mixed = (bucket * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return (mixed % np.uint64(dimensions)).astype(np.uint8)


def length_vectors(batch: PointBatch, table: NDArray[np.uint8], dimensions: int) -> NDArray[np.int64]:
    """Zhu's lengths, words with repeats, if the batch has them; else distinct shingles by their first word."""
    if batch.token_lengths is None:
        return np.asarray(count_by_table(batch.shingles, batch.start, table, dimensions))
    if batch.token_lengths.shape[1] != dimensions:
        raise BadSetting(f"length vectors of {batch.token_lengths.shape[1]} dimensions for a {dimensions}-D map")
    return batch.token_lengths


def fine_intervals(sizes: NDArray[np.int64], tau: float) -> tuple[int, ...]:
    """Left bounds by SpotSigs' scan, p_i / p_{i+1} < τ (section 4.3): near duplicates are at most one apart."""
    parts = tau_parts(tau)
    bounds: list[int] = []
    for size in np.unique(sizes).tolist():
        if not bounds or bounds[-1] * TAU_PARTS < parts * size:
            bounds.append(size)
    if len(bounds) > FINE_INTERVALS_MAX:
        raise BadSetting(f"tau {tau} cuts lengths into {len(bounds)} fine intervals, more than {FINE_INTERVALS_MAX}")
    return tuple(bounds)


def merge_intervals(page_counts: NDArray[np.int64], targets: int) -> tuple[int, ...]:
    """First fine interval of each coarse one: consecutive runs with Σ (pages − M/S)² least (section 4.3).

    Fewer fine intervals than targets stay as they are: SpotSigs' condition forbids dividing them.
    """
    fine = len(page_counts)
    targets = min(targets, fine)
    reach = np.concatenate([np.zeros(1), np.cumsum(page_counts)])
    wanted = reach[-1] / targets
    best = np.full((targets + 1, fine + 1), np.inf)
    last_start = np.zeros((targets + 1, fine + 1), np.int64)
    best[0, 0] = 0.0
    for runs in range(1, targets + 1):
        for end in range(runs, fine + 1):
            cost = best[runs - 1, :end] + (reach[end] - reach[:end] - wanted) ** 2
            last_start[runs, end] = int(np.argmin(cost))
            best[runs, end] = cost[last_start[runs, end]]
    starts: list[int] = []
    end = fine
    for runs in range(targets, 0, -1):
        end = int(last_start[runs, end])
        starts.append(end)
    return tuple(reversed(starts))


def coarse_bounds(sizes: NDArray[np.int64], targets: int, tau: float) -> tuple[int, ...]:
    """Left bounds of the balanced intervals of one dimension; the first starts at 0, the last has no end."""
    fine = np.array(fine_intervals(sizes, tau) or (0,), np.int64)
    counts = np.bincount(np.searchsorted(fine, sizes, "right") - 1, minlength=len(fine))
    bounds = [int(fine[start]) for start in merge_intervals(counts, targets)]
    return (0, *bounds[1:])


def interval_ranges(
    lengths: NDArray[np.int64], bounds: NDArray[np.int64], tau: int, rho: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last interval that hold a whole number strictly within (L τ/ρ, L ρ/τ); none when first > last."""
    smallest = lengths * tau * RHO_PARTS // (TAU_PARTS * rho) + 1
    largest = -(-lengths * rho * TAU_PARTS // (RHO_PARTS * tau)) - 1
    low = np.searchsorted(bounds, smallest, "right") - 1
    high = np.searchsorted(bounds, largest, "right") - 1
    return low, np.where(largest < smallest, low - 1, high)


def measure_variation(lengths: NDArray[np.int64], shingle_counts: NDArray[np.int64], quantile: float) -> Variation:
    """δ and ε as section 4.2 defines them, at a quantile over the pages ("sampled with an approximation")."""
    total = lengths.sum(axis=1)
    used = total > 0
    if not used.any():
        return Variation(0.0, 0.0, 1.0)
    share = lengths[used] * lengths.shape[1]
    unevenness = np.abs(total[used, None] / np.maximum(share, 0.5) - 1).max(axis=1)
    difference = np.abs(shingle_counts[used] / total[used] - 1)
    delta, epsilon = float(np.quantile(unevenness, quantile)), float(np.quantile(difference, quantile))
    return Variation(delta, epsilon, enlarging_factor(delta, epsilon))


def enlarging_factor(delta: float, epsilon: float) -> float:
    """ρ = (1+δ)(1+ε) / ((1−δ)(1−ε)), section 4.2; no finite ρ is sound once δ or ε reaches 1."""
    if delta >= 1 or epsilon >= 1:
        return math.inf
    return (1 + delta) * (1 + epsilon) / ((1 - delta) * (1 - epsilon))


def _language_shares(batch: PointBatch, partitions: int) -> list[tuple[tuple[str, ...], NDArray[np.int64], int]]:
    """(languages, their pages, partitions for them): one grid per language that fills a partition, one for the rest."""
    langs = np.array(batch.lang if batch.lang is not None else [""] * len(batch), dtype=np.str_)
    counted = sorted(Counter(langs.tolist()).items(), key=lambda item: (-item[1], item[0]))
    own = [name for name, count in counted if count * partitions >= len(batch)][:partitions]
    groups: list[tuple[str, ...]] = [(name,) for name in own]
    rest = tuple(name for name, _ in counted if name not in own)
    if rest and len(groups) < partitions:
        groups.append(rest)
    elif rest:
        groups[0] = (*groups[0], *rest)
    pages = [np.flatnonzero(np.isin(langs, np.array(group))) for group in groups] or [np.zeros(0, np.int64)]
    shares = _proportional([len(some) for some in pages], partitions)
    return list(zip(groups or [()], pages, shares, strict=True))


def _proportional(loads: list[int], partitions: int) -> list[int]:
    """Each load gets one partition; every further one goes to the highest load per partition."""
    shares = [1] * len(loads)
    for _ in range(partitions - len(loads)):
        neediest = max(range(len(loads)), key=lambda at: (loads[at] / shares[at], -at))
        shares[neediest] += 1
    return shares


def _language_grid(
    languages: tuple[str, ...],
    lengths: NDArray[np.int64],
    first: int,
    share: int,
    tau: int,
    intervals: int,
    packing: Packing,
) -> LanguageGrid:
    targets = _intervals_per_dimension(share, lengths.shape[1])
    targets = tuple(max(count, intervals) for count in targets) if share > 1 else targets
    bounds = tuple(coarse_bounds(lengths[:, i], count, tau / TAU_PARTS) for i, count in enumerate(targets))
    own = [np.searchsorted(np.array(b), lengths[:, i], "right") - 1 for i, b in enumerate(bounds)]
    shape = tuple(len(b) for b in bounds)
    loads = np.bincount(np.ravel_multi_index(tuple(own), shape), minlength=math.prod(shape))
    packed = _spread_evenly(loads, share) if packing == "spread" else _equal_runs(loads, morton_order(shape), share)
    return LanguageGrid(languages, bounds, tuple(first + one for one in packed))


def _intervals_per_dimension(cells: int, dimensions: int) -> tuple[int, ...]:
    """As equal as possible, with a product of at least `cells`: 64 in 3-D is 4 × 4 × 4, 32 is 4 × 4 × 2."""
    base = 1
    while (base + 1) ** dimensions <= cells:
        base += 1
    counts = [base] * dimensions
    for at in range(dimensions):
        if math.prod(counts) < cells:
            counts[at] = math.ceil(cells / (math.prod(counts) // counts[at]))
            counts[at] = min(counts[at], base + 1)
    return tuple(counts)


def _spread_evenly(loads: NDArray[np.int64], partitions: int) -> list[int]:
    """Cells to partitions, the heaviest first, each to the partition with the least load so far."""
    assigned = [0] * len(loads)
    filled = [(0, 0)] * partitions
    for cell in np.argsort(-loads, kind="stable").tolist():
        target = min(range(partitions), key=lambda at: (filled[at], at))
        assigned[cell] = target
        load, cells = filled[target]
        filled[target] = (load + int(loads[cell]), cells + 1)
    return assigned


def morton_order(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The cells of a grid along the Morton curve: the bits of their coordinates interleaved."""
    coordinates = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape))
    code = np.zeros(coordinates.shape[1], np.int64)
    for bit in range(max(shape).bit_length()):
        for i, one in enumerate(coordinates):
            code |= (one >> bit & 1) << (bit * len(shape) + i)
    return np.argsort(code, kind="stable")


def _equal_runs(loads: NDArray[np.int64], order: NDArray[np.int64], partitions: int) -> list[int]:
    """Cells to partitions: consecutive runs of the order whose greatest load is as small as possible."""
    reach = np.concatenate([np.zeros(1, np.int64), np.cumsum(loads[order])])
    low, high = max(int(loads.max()), -(-int(reach[-1]) // partitions)), int(reach[-1])
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_run_ends(reach, middle)) <= partitions else (middle + 1, high)
    assigned = np.zeros(len(loads), np.int64)
    assigned[order] = np.searchsorted(_run_ends(reach, low), np.arange(len(loads)), "right")
    return [int(one) for one in assigned]


def _run_ends(reach: NDArray[np.int64], load_max: int) -> list[int]:
    """Ends of the runs, each as long as its load allows; `reach` has the cumulative loads."""
    ends = [0]
    while ends[-1] < len(reach) - 1:
        ends.append(int(np.searchsorted(reach, reach[ends[-1]] + load_max, "right")) - 1)
    return ends[1:]


@kernel
def _mark_cells(
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    shape: NDArray[np.int64],
    cells: NDArray[np.int64],
    pages: NDArray[np.int64],
    contacted: NDArray[np.bool_],
) -> None:
    """Mark the partitions of every cell whose intervals all lie within a page's ranges."""
    for row in range(len(pages)):
        wide = np.maximum(high[row] - low[row] + 1, 0)
        for number in range(np.prod(wide)):
            rest, cell, stride = number, 0, 1
            for i in range(len(shape) - 1, -1, -1):
                cell += (low[row, i] + rest % wide[i]) * stride
                rest //= wide[i]
                stride *= shape[i]
            contacted[pages[row], cells[cell]] = True


def _check(data: ZhuMapData) -> None:
    """Reject a damaged map: it comes from a file or a topic, and would misroute pages."""
    sound = (
        1 <= data.partitions <= PARTITIONS_MAX
        and 0 < data.tau_parts < TAU_PARTS
        and data.rho_parts >= RHO_PARTS
        and 1 <= data.dimensions <= DIMENSIONS_MAX
        and len(data.grids) > 0
        and all(_is_sound_grid(grid, data) for grid in data.grids)
    )
    if not sound:
        raise StateMismatch("the partition map is damaged: build it again with `dustream partitions`")


def _is_sound_grid(grid: LanguageGrid, data: ZhuMapData) -> bool:
    return (
        len(grid.bounds) == data.dimensions
        and len(grid.cell_partition) == math.prod(len(bounds) for bounds in grid.bounds) > 0
        and all(bounds[0] == 0 and all(one < other for one, other in pairwise(bounds)) for bounds in grid.bounds)
        and all(0 <= partition < data.partitions for partition in grid.cell_partition)
    )
