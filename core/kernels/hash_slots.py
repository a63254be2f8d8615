"""Hash tables of 64-bit hashes for compiled code: open addressing, at most half full, equal hashes are one entry."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inlined_kernel, kernel

Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


@inlined_kernel
def slot_count(entries: int) -> int:
    """Of a table for so many entries."""
    count = 8
    while count < 2 * entries:
        count *= 2
    return count


@inlined_kernel
def slot_of(hashed: np.uint64, slots: Ints) -> np.int64:
    """Where the search for a hash begins."""
    return np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(len(slots) - 1))


@kernel
def slots_by_hash(hashes: Hashes) -> Ints:
    """For each slot the first entry whose hash is found there, or −1."""
    slots = np.full(slot_count(len(hashes)), -1, np.int32)
    for entry in range(len(hashes)):
        slot = slot_of(hashes[entry], slots)
        while slots[slot] >= 0 and hashes[slots[slot]] != hashes[entry]:
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot] = entry
    return slots


@inlined_kernel
def first_entry(hashed: np.uint64, slots: Ints, hashes: Hashes) -> np.int32:
    """The first entry with this hash, or −1."""
    slot = slot_of(hashed, slots)
    while slots[slot] >= 0 and hashes[slots[slot]] != hashed:
        slot = (slot + 1) & (len(slots) - 1)
    return np.int32(slots[slot])


@kernel
def numbered(hashes: Hashes) -> tuple[Ints, Ints]:
    """A number for each entry, in the order of first appearance, the same for equal hashes; and the first of each."""
    slots = np.full(slot_count(len(hashes)), -1, np.int32)
    firsts = np.zeros(len(hashes), np.int32)
    numbers = np.zeros(len(hashes), np.int32)
    used = 0
    for entry in range(len(hashes)):
        slot = slot_of(hashes[entry], slots)
        while slots[slot] >= 0 and hashes[firsts[slots[slot]]] != hashes[entry]:
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot] = used
            firsts[used] = entry
            used += 1
        numbers[entry] = slots[slot]
    return numbers, firsts[:used]
