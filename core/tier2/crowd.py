"""Matches within a crowd: sets with so much in common that each is a candidate of every other.

Shingles that many sets of the crowd have are its *core*; the others are a set's *own*. A set is *heavy* if it has so
many own shingles that two heavy sets are below the threshold unless they share an own shingle. So heavy sets are found
by their own shingles, with few entries, however many sets there are.

- Without a common own shingle, |A ∩ B| is at most the core part of either, k. Heavy means k < 2τ/(1+τ) · |A|: for two
  heavy sets the smaller k is less than τ/(1+τ) · (|A| + |B|), which a match needs (core/similarity.py).
- Not all own shingles are entered: the smallest |A| − ⌈τ|A|⌉ + 1 are enough (prefix filtering, Chaudhuri et al. 2006).
  A match has |A ∩ B| ≥ τ|A|, so at least ⌈τ|A|⌉ − k own shingles are common, and the smallest of them is among that
  many smallest of A and of B.

This is exact for any core, as long as all sets are divided by the same one. A shingle joins the core when too many sets
are entered under it to examine them all; these sets are then divided again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import NO_KEY, after, find_key, home

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

ENTRIES_MAX = 64  # sets under one shingle; a shingle with this many joins the core
SLOTS_MIN = 1 << 10
LOAD_MAX = 0.6
_NOBODY = -1


@inner
def spelled(shingle: np.uint64) -> np.uint64:
    """The shingle as stored in tables, where 0 marks an empty slot: 0 is stored as 1."""
    return shingle if shingle != NO_KEY else np.uint64(1)


@inner
def is_core(core: Words, shingle: np.uint64) -> bool:
    shingle = spelled(shingle)
    return bool(core[find_key(core, shingle)] == shingle)


@kernel
def add_core(core: Words, shingles: Words) -> int:
    """Add shingles, and return how many were new."""
    added = 0
    for each in shingles:
        shingle = spelled(each)
        slot = find_key(core, shingle)
        added += core[slot] == NO_KEY
        core[slot] = shingle
    return added


@kernel
def own_shingles(core: Words, shingles: Words) -> Words:
    """The shingles that are not in the core, ascending."""
    own, count = np.empty(len(shingles), dtype=np.uint64), 0
    for shingle in shingles:
        own[count] = shingle
        count += not is_core(core, shingle)
    return own[:count]


@kernel
def enter(keys: Words, holders: NDArray[np.int32], own: Words, holder: int, full: Words) -> tuple[int, int]:
    """Enter a set under its own shingles. Returns the number of entries, and of shingles that became `full`."""
    made, filled = 0, 0
    for each in own:
        shingle, entries, is_entered = spelled(each), 0, False
        slot = home(shingle, len(keys))
        while keys[slot] != NO_KEY:
            if keys[slot] == shingle and holders[slot] != _NOBODY:
                entries += 1
                is_entered = is_entered or holders[slot] == holder
            slot = after(slot, len(keys))
        if not is_entered:
            keys[slot], holders[slot] = shingle, holder
            made += 1
            if entries + 1 == ENTRIES_MAX:
                full[filled] = shingle
                filled += 1
    return made, filled


@kernel
def withdraw(keys: Words, holders: NDArray[np.int32], own: Words, holder: int) -> int:
    """Remove a set's entries, and return their number. The slots stay in use until the table is rebuilt."""
    gone = 0
    for each in own:
        shingle = spelled(each)
        slot = home(shingle, len(keys))
        while keys[slot] != NO_KEY:
            if keys[slot] == shingle and holders[slot] == holder:
                holders[slot] = _NOBODY
                gone += 1
            slot = after(slot, len(keys))
    return gone


@kernel
def holders_of(keys: Words, holders: NDArray[np.int32], own: Words) -> Ints:
    """The sets entered under these shingles, once for each shingle."""
    found, count = np.empty(64, dtype=np.int64), 0
    for each in own:
        shingle = spelled(each)
        slot = home(shingle, len(keys))
        while keys[slot] != NO_KEY:
            if keys[slot] == shingle and holders[slot] != _NOBODY:
                if count == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[count] = holders[slot]
                count += 1
            slot = after(slot, len(keys))
    return found[:count]


@kernel
def copy_entries(keys: Words, holders: NDArray[np.int32], new_keys: Words, new_holders: NDArray[np.int32]) -> None:
    for at in range(len(keys)):
        if keys[at] != NO_KEY and holders[at] != _NOBODY:
            slot = home(keys[at], len(new_keys))
            while new_keys[slot] != NO_KEY:
                slot = after(slot, len(new_keys))
            new_keys[slot], new_holders[slot] = keys[at], holders[at]


def core_of(sample: list[Words]) -> Words:
    """The shingles that many of these sets have."""
    shingles, counts = np.unique(np.concatenate(sample), return_counts=True)
    return shingles[counts >= ENTRIES_MAX]


class Crowd:
    """The core, and the heavy sets by their own shingles. Sets are identified by numbers; `shingles_of` fetches
    them."""

    def __init__(self, ratio: tuple[int, int], shingles_of: Callable[[int], Words]) -> None:
        self._numerator, self._denominator = ratio
        self._shingles_of = shingles_of
        self._core: Words = np.zeros(SLOTS_MIN, dtype=np.uint64)
        self._core_size = 0
        self._keys: Words = np.zeros(SLOTS_MIN, dtype=np.uint64)
        self._holders: NDArray[np.int32] = np.zeros(SLOTS_MIN, dtype=np.int32)
        self._used = self._live = 0

    def heavy_part(self, shingles: Words) -> Words | None:
        """The own shingles under which a heavy set is entered; None if it is not heavy."""
        own: Words = own_shingles(self._core, shingles)
        size = len(shingles)
        common = size - len(own)
        if common * (self._numerator + self._denominator) >= 2 * self._numerator * size:
            return None
        needed = -(-self._numerator * size // self._denominator)
        return own[: size - needed + 1]

    def sharing(self, part: Words) -> Ints:
        """The sets entered that share one of these shingles, ascending."""
        return np.unique(holders_of(self._keys, self._holders, part))

    def learn(self, shingles: Words) -> list[int]:
        """Add shingles to the core before the sets that have them are entered. Returns the sets no longer heavy."""
        return self._join_core(shingles)

    def enter(self, number: int, part: Words) -> list[int]:
        """Enter a heavy set. Returns the sets no longer heavy because the core grew."""
        full = self._enter(number, part)
        return self._join_core(full) if len(full) else []

    def withdraw(self, number: int, part: Words) -> None:
        """Remove a heavy set."""
        self._live -= withdraw(self._keys, self._holders, part, number)

    def _enter(self, number: int, part: Words) -> Words:
        if self._used + len(part) > LOAD_MAX * len(self._keys):
            self._make_room(len(part))
        full = np.empty(len(part), dtype=np.uint64)
        made, filled = enter(self._keys, self._holders, part, number, full)
        self._used += made
        self._live += made
        return full[:filled]

    def _join_core(self, shingles: Words) -> list[int]:
        lighter: dict[int, None] = {}
        while len(shingles):
            self._grow_core(len(shingles))
            self._core_size += add_core(self._core, shingles)
            numbers = self.sharing(shingles).tolist()
            for number in numbers:
                self._live -= withdraw(self._keys, self._holders, shingles, number)
            full = []
            for number in numbers:
                if number not in lighter:
                    full.append(self._cut_anew(number, lighter))
            shingles = np.unique(np.concatenate(full)) if full else shingles[:0]
        return list(lighter)

    def _cut_anew(self, number: int, lighter: dict[int, None]) -> Words:
        """Divide a set again after the core grew. Returns the shingles that became full by its new entries."""
        shingles = self._shingles_of(number)
        part = self.heavy_part(shingles)
        if part is not None:
            return self._enter(number, part)
        self.withdraw(number, own_shingles(self._core, shingles))
        lighter[number] = None
        return shingles[:0]

    def _grow_core(self, more: int) -> None:
        size = len(self._core)
        while self._core_size + more > LOAD_MAX * size:
            size *= 2
        if size > len(self._core):
            known, self._core = self._core, np.zeros(size, dtype=np.uint64)
            add_core(self._core, known[known != NO_KEY])

    def _make_room(self, more: int) -> None:
        size = SLOTS_MIN
        while 2 * (self._live + more) > LOAD_MAX * size:
            size *= 2
        keys, holders = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int32)
        copy_entries(self._keys, self._holders, keys, holders)
        self._keys, self._holders, self._used = keys, holders, self._live
