"""The hash table of compiled code, against dictionaries."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import (
    NO_KEY,
    NOT_FOUND,
    find_key,
    find_key_within,
    first_entry,
    key_table,
    numbered,
    slots_by_hash,
)

CORE = Path(__file__).parents[3] / "core"

# Few values, many of which have one home: probing, wrapping around and equal hashes are all frequent.
hash_lists = st.lists(st.integers(0, 6).map(lambda n: n << 32 | n) | st.integers(0, 2**64 - 1), max_size=40)


@kernel
def count_keys(keys: NDArray[np.uint64], counts: NDArray[np.int64], wanted: NDArray[np.uint64]) -> None:
    for key in wanted:
        slot = find_key(keys, key)
        keys[slot] = key
        counts[slot] += 1


@kernel
def slots_within(keys: NDArray[np.uint64], wanted: NDArray[np.uint64], probes_max: int) -> NDArray[np.int64]:
    slots = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        slots[i] = find_key_within(keys, wanted[i], probes_max)
        if slots[i] >= 0:
            keys[slots[i]] = wanted[i]
    return slots


@kernel
def first_entries(
    wanted: NDArray[np.uint64], slots: NDArray[np.int32], hashes: NDArray[np.uint64]
) -> NDArray[np.int32]:
    found = np.empty(len(wanted), np.int32)
    for i in range(len(wanted)):
        found[i] = first_entry(wanted[i], slots, hashes)
    return found


@settings(deadline=None)  # the first call compiles
@given(hash_lists)
def test_keys_are_counted_as_by_a_dictionary(hashes: list[int]) -> None:
    hashes = [each or 1 for each in hashes]
    keys, counts = np.zeros(128, np.uint64), np.zeros(128, np.int64)
    count_keys(keys, counts, np.array(hashes, np.uint64))
    found = {int(key): int(count) for key, count in zip(keys, counts, strict=True) if key != NO_KEY}
    assert found == {each: hashes.count(each) for each in hashes}


def test_a_full_table_is_found_full_in_bounded_time() -> None:
    wanted = np.arange(1, 10, dtype=np.uint64)
    slots = slots_within(np.zeros(8, np.uint64), wanted, 8).tolist()
    assert sorted(slots[:8]) == list(range(8))
    assert slots[8] == NOT_FOUND


@settings(deadline=None)  # the first call compiles
@given(hash_lists, hash_lists)
def test_the_first_entry_of_a_hash_is_found(hashes: list[int], others: list[int]) -> None:
    known = np.array(hashes, np.uint64)
    found = first_entries(np.array(hashes + others, np.uint64), slots_by_hash(known), known)
    assert found.tolist() == [hashes.index(each) if each in hashes else -1 for each in hashes + others]


@settings(deadline=None)  # the first call compiles
@given(hash_lists)
def test_entries_are_numbered_by_first_appearance(hashes: list[int]) -> None:
    numbers, firsts = numbered(np.array(hashes, np.uint64))
    distinct = list(dict.fromkeys(hashes))
    assert numbers.tolist() == [distinct.index(each) for each in hashes]
    assert [hashes[first] for first in firsts] == distinct


@settings(deadline=None)  # the first call compiles
@given(st.dictionaries(st.integers(1, 2**64 - 1), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_a_table_built_by_python_has_all_values(entries: dict[int, tuple[int, int]]) -> None:
    keys, values = key_table(entries, np.int64, slots_per_entry=4)
    found = {int(key): tuple(row) for key, row in zip(keys, values.tolist(), strict=True) if key != NO_KEY}
    assert found == entries
    assert len(keys) >= 4 * len(entries)


def test_no_other_module_wraps_around_a_table() -> None:
    """Each would be a second implementation of linear probing."""
    wraps = re.compile(r"\(\w+ \+ (np\.u?int64\()?1\)+ [%&]|(\w+) \+ 1 if \2 \+ 1 (<|==)")
    found = {str(path.relative_to(CORE)) for path in CORE.rglob("*.py") if wraps.search(path.read_text())}
    assert found == {"kernels/hash_slots.py"}
