"""The hash table of compiled code: open addressing with linear probing, over 64-bit hashes.

A table is an array of slots. It has one of two forms:

- *keys*: each slot holds a hash, 0 if it is empty (`find_key`); values stand in arrays beside it, at the same slot.
- *entries*: each slot holds the number of an entry, -1 if it is empty; hashes and values stand in arrays of entries.
  `slots_by_hash`, `first_entry` and `numbered` treat entries with equal hashes as one.

Tables with another notion of equality, or several entries per key, probe from `home` by `after` until an empty slot.
There always is one: callers enlarge a table before it is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner, kernel, merged

Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]

NO_KEY = np.uint64(0)
NOT_FOUND = -1


@merged
def slot_count(entries: int) -> int:
    """The size of a table for so many entries: a power of two, at most half full."""
    count = 8
    while count < 2 * entries:
        count *= 2
    return count


@inner
def home(hashed: np.uint64, size: int) -> int:
    """Where the search for a hash begins in a table whose size is a power of two."""
    return np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(size - 1))  # type: ignore[return-value]


@inner
def after(slot: int, size: int) -> int:
    """The next slot to examine."""
    return slot + 1 if slot + 1 < size else 0


@inner
def find_key(keys: Hashes, key: np.uint64) -> int:
    """The slot of the key; the empty slot where it belongs if it is absent."""
    # Unsigned: numba checks signed indexes for being negative, and this is called for every tag and attribute.
    mask = np.uint64(len(keys) - 1)
    slot = (key ^ (key >> np.uint64(32))) & mask
    while keys[slot] != NO_KEY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)  # type: ignore[return-value]


@inner
def find_key_within(keys: Hashes, key: np.uint64, probes_max: int) -> int:
    """As `find_key`; NOT_FOUND after so many slots that hold other keys. For tables that may be full."""
    slot = home(key, len(keys))
    for _ in range(probes_max):
        if keys[slot] == NO_KEY or keys[slot] == key:
            return slot
        slot = after(slot, len(keys))
    return NOT_FOUND


@kernel
def slots_by_hash(hashes: Hashes, slots_per_entry: int = 2) -> Ints:
    """A table of entries: for each slot the first entry whose hash is found there, or -1."""
    slots = np.full(slot_count(slots_per_entry * len(hashes) // 2), -1, np.int32)
    for entry in range(len(hashes)):
        slot = _slot_of_entry(hashes[entry], slots, hashes)
        if slots[slot] < 0:
            slots[slot] = entry
    return slots


@inner
def _slot_of_entry(hashed: np.uint64, slots: Ints, hashes: Hashes) -> int:
    slot = home(hashed, len(slots))
    while slots[slot] >= 0 and hashes[slots[slot]] != hashed:
        slot = after(slot, len(slots))
    return slot


@inner
def first_entry(hashed: np.uint64, slots: Ints, hashes: Hashes) -> np.int32:
    """The first entry with this hash, or -1."""
    return np.int32(slots[_slot_of_entry(hashed, slots, hashes)])


@kernel
def numbered(hashes: Hashes) -> tuple[Ints, Ints]:
    """A number for each entry, in the order of first appearance, the same for equal hashes; and the first of each."""
    slots = np.full(slot_count(len(hashes)), -1, np.int32)
    firsts = np.zeros(len(hashes), np.int32)
    numbers = np.zeros(len(hashes), np.int32)
    used = 0
    for entry in range(len(hashes)):
        slot = home(hashes[entry], len(slots))
        while slots[slot] >= 0 and hashes[firsts[slots[slot]]] != hashes[entry]:
            slot = after(slot, len(slots))
        if slots[slot] < 0:
            slots[slot] = used
            firsts[used] = entry
            used += 1
        numbers[entry] = slots[slot]
    return numbers, firsts[:used]


def key_table(
    entries: Mapping[int, Any], value_type: npt.DTypeLike, slots_per_entry: int
) -> tuple[Hashes, npt.NDArray[Any]]:
    """A table of keys: hash → value, or a row of values. The keys and the values by slot."""
    hashes = np.fromiter(entries, np.uint64, len(entries))
    values = np.array(list(entries.values()), value_type)
    slots = slots_by_hash(hashes, slots_per_entry)
    is_used = slots >= 0
    keys, found = np.zeros(len(slots), np.uint64), np.zeros((len(slots), *values.shape[1:]), value_type)
    keys[is_used], found[is_used] = hashes[slots[is_used]], values[slots[is_used]]
    return keys, found
