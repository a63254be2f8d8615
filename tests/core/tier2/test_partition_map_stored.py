"""Maps as stored data, and arguments that cannot be right."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.partitioning import tie_of
from dustream.core.pipeline import pipeline
from dustream.core.settings import Settings
from dustream.core.tier2.cut_tree import LosslessMap
from dustream.core.tier2.partition_map import (
    PartitionMap,
    build_map,
    default_map,
    map_from_bytes,
    map_id,
    map_to_bytes,
)
from dustream.core.tier2.points import PARTITIONS_MAX, PointBatch, batch_of, tau_parts
from dustream.core.topology import partition_of


@pytest.fixture(scope="module")
def batch() -> PointBatch:
    draws = np.random.default_rng(8)
    sizes = draws.integers(0, 300, 200)
    pages = [np.unique(draws.integers(0, 1 << 64, int(size), dtype=np.uint64)) for size in sizes]
    return batch_of(pages, langs=["en", "zh"] * 100)


@pytest.fixture(params=["ours", "zhu1", "zhu2", "zhu3", "default", "single"])
def partition_map(request: pytest.FixtureRequest, batch: PointBatch) -> PartitionMap:
    if request.param == "default":
        return default_map(8)
    if request.param == "single":
        return build_map(batch, 1, 0.9)
    return build_map(batch, 8, 0.9, request.param)


def test_round_trip(partition_map: PartitionMap, batch: PointBatch) -> None:
    stored = map_to_bytes(partition_map)
    again = map_from_bytes(stored)
    assert map_to_bytes(again) == stored
    assert map_id(again) == map_id(partition_map)
    for one, other in zip(again.routes(batch), partition_map.routes(batch), strict=True):
        assert np.array_equal(one, other)


def test_description_names_every_partition(batch: PointBatch) -> None:
    text = build_map(batch, 8, 0.9).describe()
    assert [f"partition {number}\n" in text + "\n" for number in range(8)] == [True] * 8
    assert "8 partitions" in build_map(batch, 8, 0.9, "zhu2").describe()


def test_a_single_partition_is_everyones_home(batch: PointBatch) -> None:
    for single in (default_map(1), build_map(batch, 1, 0.9), build_map(batch_of([]), 1, 0.9)):
        homes, contacted = single.routes(batch)
        assert not homes.any() and contacted.all() and contacted.shape == (200, 1)


def test_unknown_version_and_kind(partition_map: PartitionMap) -> None:
    fields = msgspec.msgpack.decode(map_to_bytes(partition_map))
    for change in ({"version": 99}, {"kind": "hexagons"}):
        with pytest.raises(StateMismatch, match="build it again"):
            map_from_bytes(msgspec.msgpack.encode(fields | change))


def test_what_is_no_map(partition_map: PartitionMap) -> None:
    stored = map_to_bytes(partition_map)
    for broken in (b"", b"\xc1", stored[:-3], msgspec.msgpack.encode([1, 2]), b"<html>"):
        with pytest.raises(StateMismatch):
            map_from_bytes(broken)


def test_damaged_trees_are_refused(batch: PointBatch) -> None:
    data = build_map(batch, 8, 0.9).data
    first = data.cuts[0]
    damages = [
        replace(data, partitions=9),
        replace(data, tau_parts=0),
        replace(data, masks=data.masks + b"x"),
        replace(data, cuts=data.cuts[:-1]),
        replace(data, cuts=(replace(first, below=0), *data.cuts[1:])),
        replace(data, cuts=(replace(first, sub_dictionary=1000), *data.cuts[1:])),
        replace(data, cuts=(replace(first, coordinate=-5), *data.cuts[1:])),
    ]
    for damaged in damages:
        with pytest.raises(StateMismatch, match="damaged"):
            LosslessMap(damaged)


@pytest.mark.parametrize("tau", [0.0, 1.0, -0.5, 1.5, 0.00001, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["ours", "zhu2"])
def test_tau_out_of_range(batch: PointBatch, tau: float, kind: str) -> None:
    with pytest.raises(BadSetting, match="between 0 and 1"):
        build_map(batch, 4, tau, kind)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="between 0 and 1"):
        default_map(4, tau)


def test_tau_is_rounded_down() -> None:
    assert [tau_parts(tau) for tau in (0.9, 0.85, 2 / 3, 0.99999)] == [9000, 8500, 6666, 9999]


def test_partition_counts_out_of_range(batch: PointBatch) -> None:
    for count in (0, -1, PARTITIONS_MAX + 1):
        for build in (lambda n: default_map(n), lambda n: build_map(batch, n, 0.9)):
            with pytest.raises(BadSetting, match="use a number"):
                build(count)
    for count in (2, 3, 100, 257, PARTITIONS_MAX):  # a map without a leaf for each partition is refused
        assert default_map(count).partitions == count


def test_a_sample_too_small_and_an_unknown_kind(batch: PointBatch) -> None:
    with pytest.raises(BadSetting, match="too few"):
        build_map(batch, 64, 0.9)
    with pytest.raises(BadSetting, match="zhu3"):
        build_map(batch, 4, 0.9, "zhu4")  # type: ignore[arg-type]


def test_a_probe_for_a_partition_that_does_not_exist() -> None:
    """As one sent under another map would be: whoever carries the message refuses it."""
    for partition in (8, -1):
        with pytest.raises(BadSetting, match="does not exist"):
            partition_of(partition, 8)
    assert partition_of(7, 8) == 7


def test_ties_are_pinned() -> None:
    """Homes in stored states depend on them."""
    assert tie_of("http://example.com/") == 2672753311
    assert 0 <= tie_of("") < 2**32


@pytest.mark.parametrize(("partitions", "tau"), [(4, 0.9), (16, 0.9), (8, 0.8)])
def test_a_map_for_other_settings_is_refused(partitions: int, tau: float) -> None:
    with pytest.raises(BadSetting, match=f"is for {partitions} partitions and threshold {tau}, the settings are for 8"):
        pipeline(Settings(partitions=8, threshold=0.9), default_map(partitions, tau))


@pytest.mark.parametrize("threshold", [0.57, 0.9, 0.87654])
def test_a_map_for_these_settings_is_taken(threshold: float) -> None:
    """Also where the map's ten-thousandths round the threshold."""
    settings = Settings(partitions=8, threshold=threshold)
    for partition_map in (None, default_map(8, threshold)):
        assert {spec.partitions for spec in pipeline(settings, partition_map).processors} == {8}
