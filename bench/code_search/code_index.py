"""All pages that repeat a page or are repeated by it, without comparing with all (Guo et al., section III.C).

The paper puts codes into a suffix tree from the longest to the shortest, and never takes one out. Pages of a stream
come in any order, change and go: here a table of code fragments proposes, which by proof misses none, and the longest
common substring decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from code_search.fragment_table import (
    NONE,
    OWNER,
    Codes,
    Hashes,
    close_gaps,
    grow,
    kept_hashes,
    link_in,
    link_out,
    search,
)
from code_search.levels import CODE_CHARS_MAX, CODE_CHARS_MIN, make_levels

from dustream.core.text.repeatability import code_points

_LINKS_FIRST = 1 << 12
_CODES_FIRST = 1 << 8
_ARENA_FIRST = 1 << 12


class Repeated(NamedTuple):
    """Another page, how many characters its code has, and how many of them in a row are in the page asked for."""

    key: str
    chars: int
    common: int


class ContainmentIndex:
    """Codes by key. `compared` counts the codes that were looked at in full."""

    def __init__(self, delta: float) -> None:
        self.levels = make_levels(delta)
        self.compared = 0
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._free_numbers: list[int] = []
        self._heads = np.full(_LINKS_FIRST, NONE, dtype=np.int32)
        self._links = np.empty((_LINKS_FIRST, 3), dtype=np.int32)
        self._links_used = 0
        self._free_link = grow(self._heads, self._links, 0)
        self._arena = np.empty(_ARENA_FIRST, dtype=np.uint32)
        self._arena_end = self._chars = 0
        self._places = np.zeros((_CODES_FIRST, 2), dtype=np.int64)
        self._stamps = np.zeros(_CODES_FIRST, dtype=np.int64)
        self._found = np.empty((_CODES_FIRST, 2), dtype=np.int64)
        self._stamp = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, key: str, code: str) -> None:
        """Keep a page's code, in place of what it had before. A code under CODE_CHARS_MIN is not kept."""
        self.remove(key)
        if not is_comparable(code):
            return
        points = code_points(code)
        hashes = self._kept(points)
        self._make_room(hashes.size)
        start = self._store(points)
        number = self._new_number(key)
        self._places[number] = start, points.size
        self._free_link = link_in(self._heads, self._links, self._free_link, number, hashes)
        self._links_used += hashes.size

    def remove(self, key: str) -> None:
        """Forget a page; nothing happens if it is not known."""
        number = self._numbers.pop(key, None)
        if number is None:
            return
        start, chars = self._places[number].tolist()
        hashes = self._kept(self._arena[start : start + chars])
        self._free_link = link_out(self._heads, self._links, self._free_link, number, hashes)
        self._links_used -= hashes.size
        self._places[number] = 0, 0
        self._chars -= chars
        self._keys[number] = ""
        self._free_numbers.append(number)

    def search(self, code: str) -> list[Repeated]:
        """The pages whose repeatability over the code, or the code's over them, is at least δ; by key."""
        if not is_comparable(code):
            return []
        points = code_points(code)
        self._stamp += 1
        levels = self.levels
        count, compared = search(
            points,
            levels.level_of_length[points.size],
            levels.delta,
            levels.steps,
            levels.fragment_chars,
            self._heads,
            self._links,
            self._arena,
            self._places,
            self._stamps,
            self._stamp,
            self._found,
        )
        self.compared += compared
        return sorted(
            Repeated(self._keys[number], int(self._places[number, 1]), common)
            for number, common in self._found[:count].tolist()
        )

    @property
    def bytes_used(self) -> int:
        """Of the arrays; the keys come on top."""
        arrays = (self._heads, self._links, self._arena, self._places, self._stamps, self._found)
        return sum(array.nbytes for array in arrays)

    def _kept(self, points: Codes) -> Hashes:
        levels = self.levels
        kept: Hashes = kept_hashes(points, levels.level_of_length[points.size], levels.steps, levels.fragment_chars)
        return kept

    def _new_number(self, key: str) -> int:
        if self._free_numbers:
            number = self._free_numbers.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
            if number == len(self._places):
                self._places = np.concatenate([self._places, np.zeros_like(self._places)])
                self._stamps = np.concatenate([self._stamps, np.zeros_like(self._stamps)])
                self._found = np.empty_like(self._places)
        self._numbers[key] = number
        return number

    def _store(self, points: Codes) -> int:
        self._chars += points.size
        if self._arena_end + points.size > self._arena.size:
            arena = np.empty(max(_ARENA_FIRST, 2 * self._chars), dtype=np.uint32)
            self._arena_end = close_gaps(self._arena, self._places, arena)
            self._arena = arena
        start = self._arena_end
        self._arena_end += points.size
        self._arena[start : self._arena_end] = points
        return start

    def _make_room(self, links: int) -> None:
        """Links for so many more. A table that is full doubles, those in use first."""
        used, size = self._links_used, len(self._links)
        if used + links <= size:
            return
        while size < used + links:
            size *= 2
        in_use = self._links[self._links[:, OWNER] != NONE]
        self._links = np.empty((size, 3), dtype=np.int32)
        self._links[:used] = in_use
        self._heads = np.full(size, NONE, dtype=np.int32)
        self._free_link = grow(self._heads, self._links, used)


def is_comparable(code: str) -> bool:
    """Whether there is enough in a code to be found elsewhere."""
    return CODE_CHARS_MIN <= len(code) <= CODE_CHARS_MAX
