"""A hash table from code fragments to the codes that have them: chains in arrays, with a list of free links.

A link's fragment is known by a hash alone; who is met by chance is found out when the codes are compared. A code's
fragments on its own level and on levels below are kept apart (`_KEEPER_OF_LEVEL`, `_KEEPER_ABOVE`): below its own
level, a code looks only for shorter ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.repeatability import longest_common_substring
from dustream.core.text.tokens import fmix64

Codes = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Links = NDArray[np.int32]

NONE = -1
NEXT, OWNER, FRAGMENT = 0, 1, 2  # columns of a link; a link without owner is free

_BASE = np.uint64(0x9E3779B185EBCA87)  # odd, with random-looking bits
_LEVEL_SALT = np.uint64(0xD6E8FEB86659FD93)
_KEEPER_OF_LEVEL, _KEEPER_ABOVE = 0, 1


@njit(cache=True)
def window_hashes(code: Codes, chars: int) -> Hashes:
    """A hash of every run of `chars` characters, by Rabin and Karp."""
    count = code.size - chars + 1
    hashes = np.empty(max(count, 0), dtype=np.uint64)
    if count <= 0:
        return hashes
    power = np.uint64(1)
    rolling = np.uint64(0)
    for i in range(chars):
        rolling = rolling * _BASE + np.uint64(code[i])
        power *= _BASE
    hashes[0] = rolling
    for i in range(chars, code.size):
        rolling = rolling * _BASE + np.uint64(code[i]) - power * np.uint64(code[i - chars])
        hashes[i - chars + 1] = rolling
    return hashes


@njit(cache=True)
def _salted(window_hash: np.uint64, level: int, keeper: int) -> np.uint64:
    return fmix64(window_hash ^ (np.uint64(2 * level + keeper + 1) * _LEVEL_SALT))


@njit(cache=True)
def kept_hashes(code: Codes, own_level: int, steps: Numbers, fragment_chars: Numbers) -> Hashes:
    """Under which hashes a code is kept: its fragments at every step, on its own level and those below."""
    kept = np.empty(code.size * (own_level + 1), dtype=np.uint64)
    count = 0
    for level in range(own_level + 1):
        hashes = window_hashes(code, fragment_chars[level])
        keeper = _KEEPER_OF_LEVEL if level == own_level else _KEEPER_ABOVE
        for start in range(0, hashes.size, steps[level]):
            if start == 0 or hashes[start] != hashes[start - steps[level]]:  # once for one character repeated
                kept[count] = _salted(hashes[start], level, keeper)
                count += 1
    return kept[:count]


@njit(cache=True)
def link_in(heads: Links, links: Links, free: int, owner: int, hashes: Hashes) -> int:
    """Keep an owner under these hashes; the first free link then."""
    for fragment in hashes:
        link, free = free, links[free, NEXT]
        links[link, OWNER], links[link, FRAGMENT] = owner, _folded(fragment)
        _put_first(heads, links, link)
    return free


@njit(cache=True)
def link_out(heads: Links, links: Links, free: int, owner: int, hashes: Hashes) -> int:
    """Undo `link_in`; the first free link then."""
    for hashed in hashes:
        fragment = _folded(hashed)
        slot = _slot(heads, fragment)
        before, link = NONE, heads[slot]
        while links[link, OWNER] != owner or links[link, FRAGMENT] != fragment:
            before, link = link, links[link, NEXT]
        if before == NONE:
            heads[slot] = links[link, NEXT]
        else:
            links[before, NEXT] = links[link, NEXT]
        links[link, OWNER], links[link, NEXT] = NONE, free
        free = link
    return free


@njit(cache=True)
def grow(heads: Links, links: Links, used: int) -> int:
    """In a table made larger: chain the first `used` links, and all others as free; the first of these."""
    for link in range(used):
        _put_first(heads, links, link)
    for link in range(used, len(links)):
        links[link, OWNER], links[link, NEXT] = NONE, link + 1
    return used


@njit(cache=True)
def _put_first(heads: Links, links: Links, link: int) -> None:
    slot = _slot(heads, links[link, FRAGMENT])
    links[link, NEXT] = heads[slot]
    heads[slot] = link


@njit(cache=True)
def _folded(fragment: np.uint64) -> np.int32:
    return np.int32(fragment >> np.uint64(32))


@njit(cache=True)
def _slot(heads: Links, fragment: np.int32) -> int:
    return int(fragment) & (heads.size - 1)


@njit(cache=True)
def close_gaps(arena: Codes, places: Numbers, target: Codes) -> int:
    """Copy the codes that are alive one after the other, and note where they are now; where the last one ends."""
    end = 0
    for number in range(len(places)):
        start, chars = places[number, 0], places[number, 1]
        for i in range(chars):  # a slice that is assigned compiles seconds of error messages
            target[end + i] = arena[start + i]
        places[number, 0] = end
        end += chars
    return end


@njit(cache=True)
def search(
    code: Codes,
    own_level: int,
    delta: float,
    steps: Numbers,
    fragment_chars: Numbers,
    heads: Links,
    links: Links,
    arena: Codes,
    places: Numbers,
    stamps: Numbers,
    stamp: int,
    found: Numbers,
) -> tuple[int, int]:
    """Who contains the code or is contained in it, into `found` (number, common characters); how many, and how many
    were compared."""
    count = compared = 0
    for level in range(own_level + 1):
        hashes = window_hashes(code, fragment_chars[level])
        for keeper in range(2 if level == own_level else 1):
            for i in range(hashes.size):
                if i > 0 and hashes[i] == hashes[i - 1]:
                    continue
                fragment = _folded(_salted(hashes[i], level, keeper))
                link = heads[_slot(heads, fragment)]
                while link != NONE:
                    other = links[link, OWNER]
                    if links[link, FRAGMENT] == fragment and stamps[other] != stamp:
                        stamps[other] = stamp
                        compared += 1
                        start, chars = places[other, 0], places[other, 1]
                        common = longest_common_substring(code, arena[start : start + chars])
                        if common / min(chars, code.size) >= delta:
                            found[count, 0], found[count, 1] = other, common
                            count += 1
                    link = links[link, NEXT]
    return count, compared
