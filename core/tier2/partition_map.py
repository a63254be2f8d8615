"""Partition maps: which partition stores a page, and which others may hold its near duplicates.

A map is versioned data, built once from a sample and published; the same bytes route the same pages on every machine.
There are two kinds: the lossless map (cut_tree.py), the default, and Zhu's (zhu_map.py), for comparison.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from statistics import NormalDist
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.tier2.cut_learning import learn_lossless_map
from dustream.core.tier2.cut_tree import BY_LENGTH, LOSSLESS_VERSION, Cut, LosslessMap, LosslessMapData
from dustream.core.tier2.points import PAGE_SHINGLES_MAX, PointBatch, require_partitions, tau_parts
from dustream.core.tier2.zhu_map import INTERVALS_DEFAULT, ZHU_VERSION, Packing, ZhuMap, ZhuMapData, learn_zhu_map

MapKind = Literal["ours", "zhu1", "zhu2", "zhu3"]
KINDS: tuple[MapKind, ...] = ("ours", "zhu1", "zhu2", "zhu3")

# The default map. The log length of web pages in distinct shingles has a standard deviation of 1.2 to 1.7 in four
# collections, so one round of stripes is about that wide. A page contacts 1 + 2 log(1/tau)/width stripes.
ROUND_LOG_LENGTH = 1.6
ROUND_LOG_LENGTH_MAX = 9.0
STRIPE_LOG_LENGTH_MIN = 0.07


PartitionMap = LosslessMap | ZhuMap


class Balance(NamedTuple):
    """How a map distributes pages: pages with their home in each partition, pages that contact it, contacts per
    page."""

    load: NDArray[np.int64]
    visits: NDArray[np.int64]
    imbalance_factor: float
    contacts_mean: float
    contacts_max: int
    communication_avoided: float


def build_map(
    sample: PointBatch,
    partitions: int,
    tau: float,
    kind: MapKind = "ours",
    rho: float = 1.1,
    intervals: int = INTERVALS_DEFAULT,
    packing: Packing = "morton",
) -> PartitionMap:
    """The map for pages like these; `rho`, `intervals` and `packing` apply to Zhu's map only."""
    if kind not in KINDS:
        raise BadSetting(f"unknown kind of partition map {kind!r}: choose one of {', '.join(KINDS)}")
    if kind == "ours":
        return learn_lossless_map(sample, partitions, tau)
    return learn_zhu_map(sample, partitions, tau, int(kind.removeprefix("zhu")), rho, intervals, packing)


def length_cuts(partition_map: PartitionMap) -> list[int]:
    """Lengths at which a map cuts; for Zhu's, lengths in the first sub-dictionary times the number of dimensions."""
    if isinstance(partition_map, LosslessMap):
        return sorted({cut.coordinate for cut in partition_map.data.cuts if cut.sub_dictionary == BY_LENGTH})
    data = partition_map.data
    return sorted({bound * data.dimensions for grid in data.grids for bound in grid.bounds[0][1:]})


def default_map(partitions: int, tau: float = 0.9) -> LosslessMap:
    """A map for a stream that starts without a sample. It is lossless, too.

    Lengths are divided into narrow stripes, assigned to the partitions in turn. Whatever the distribution of lengths,
    as long as it is wider than one round of stripes, the partitions are even. Only many pages of one length upset it.
    """
    require_partitions(partitions)
    bounds = stripe_bounds(partitions) if partitions > 1 else np.zeros(0, np.int64)
    return LosslessMap(
        LosslessMapData(
            version=LOSSLESS_VERSION,
            partitions=partitions,
            tau_parts=tau_parts(tau),
            cuts=tuple(_length_cuts(bounds, np.arange(len(bounds) + 1) % partitions, 0)[0]),
            masks=b"",
            sample_pages=0,
        )
    )


def stripe_bounds(partitions: int) -> NDArray[np.int64]:
    """Lengths between stripes, a constant factor apart as far as whole numbers allow."""
    width = min(max(ROUND_LOG_LENGTH / partitions, STRIPE_LOG_LENGTH_MIN), ROUND_LOG_LENGTH_MAX / partitions)
    steps = np.arange(1, int(np.log(PAGE_SHINGLES_MAX) / width))
    return np.unique(np.rint(np.exp(steps * width)).astype(np.int64))


def map_to_bytes(partition_map: PartitionMap) -> bytes:
    return msgspec.msgpack.encode(partition_map.data)


def map_from_bytes(stored: bytes) -> PartitionMap:
    """Read the bytes that `map_to_bytes` wrote, after checking that this program supports their version."""
    try:
        head = msgspec.msgpack.decode(stored, type=_Head)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"this is not a partition map ({error}): build one with `dustream partitions`") from error
    known = {"lossless": LOSSLESS_VERSION, "zhu": ZHU_VERSION}
    if known.get(head.kind) != head.version:
        raise StateMismatch(
            f"a partition map of kind {head.kind!r} and version {head.version} is not supported: build it "
            "again with `dustream partitions` and replay into a fresh state, or use the program that made it"
        )
    try:
        data = msgspec.msgpack.decode(stored, type=LosslessMapData | ZhuMapData)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"the partition map is damaged ({error}): build it again") from error
    return LosslessMap(data) if isinstance(data, LosslessMapData) else ZhuMap(data)


def map_id(partition_map: PartitionMap) -> str:
    """Identifies a map by its content: a state filled under one map cannot be used with another."""
    return blake2b(map_to_bytes(partition_map), digest_size=8).hexdigest()


def measure_balance(partition_map: PartitionMap, batch: PointBatch) -> Balance:
    homes, contacted = partition_map.routes(batch)
    load = np.bincount(homes, minlength=partition_map.partitions)
    contacts = contacted.sum(axis=1)
    return Balance(
        load,
        contacted.sum(axis=0),
        imbalance_factor(load),
        float(contacts.mean()) if len(contacts) else 0.0,
        int(contacts.max(initial=0)),
        communication_avoided(contacts, partition_map.partitions),
    )


def imbalance_factor(load: NDArray[np.int64]) -> float:
    """Pages in the fullest partition over the mean (Zhu, section 6.1)."""
    return float(load.max() / load.mean()) if load.any() else 1.0


def chance_imbalance(partitions: int, pages: int, sample_pages: int = 0) -> float:
    """The imbalance factor by chance alone: of the fullest of P partitions, if pages are assigned at random.

    The highest of P normal draws by Blom's approximation. With `sample_pages`, the map was learned from that many other
    pages, and the sampling error of its cuts is added.
    """
    highest = NormalDist().inv_cdf((partitions - 0.375) / (partitions + 0.25))
    variance = partitions / pages + (partitions / sample_pages if sample_pages else 0.0)
    return 1 + highest * math.sqrt(variance)


def communication_avoided(contacts: NDArray[np.int64], partitions: int) -> float:
    """The share of the page sends of all-to-all comparison that this map avoids (Zhu, Figure 5)."""
    if partitions == 1 or len(contacts) == 0:
        return 1.0
    return 1.0 - float((contacts - 1).sum()) / (len(contacts) * (partitions - 1))


class _Head(msgspec.Struct, frozen=True):
    kind: str
    version: int


def _length_cuts(bounds: NDArray[np.int64], stripes: NDArray[np.int64], first_cut: int) -> tuple[list[Cut], int]:
    """A balanced tree over ascending bounds with a partition in each gap, and its reference for the parent."""
    if len(bounds) == 0:
        return [], ~int(stripes[0])
    middle = len(bounds) // 2
    below, below_child = _length_cuts(bounds[:middle], stripes[: middle + 1], first_cut + 1)
    above, above_child = _length_cuts(bounds[middle + 1 :], stripes[middle + 1 :], first_cut + 1 + len(below))
    return [Cut(BY_LENGTH, int(bounds[middle]), 0, below_child, above_child), *below, *above], first_cut
