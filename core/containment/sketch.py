"""The terms by which containment candidates are found.

A page's shingles with the smallest hashes are a random sample of its text, and a shingle's hash is the same in every
page. A page *posts* its 32 smallest and *asks* with its 8 smallest. If a longer page has a share s of it, each of the 8
is in the longer page with probability s, and posted by it as long as it is at most four times as long. Beyond that,
some of the 8 are not among its 32: at 8 times the length, half of them.

A page with a feature code (Guo et al.) also posts and asks with character runs of its code, sampled alike: a second way
to find candidates. Terms only propose pairs: containment is measured on shingles (core/tier2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import kernel
from dustream.core.text.repeatability import code_points
from dustream.core.text.shingle_bytes import shingle_array, shingle_count
from dustream.core.text.tokens import fmix64
from dustream.schemas.signature import PageSignature

Terms = NDArray[np.uint64]

SHINGLES_MIN = 20  # smaller pages are contained in too many others
POSTED, ASKED = 32, 8
CODE_POSTED, CODE_ASKED = 16, 8
CODE_RUN_CHARS = 6  # three quarters of the shortest code (8 characters)

ASK, POST, CODE = 1, 2, 4
"""Flags of a term: the page searches containers by it; it can be found by it; it is a run of the feature code."""

_SAMPLED = np.uint64((1 << 52) - 1)  # the hash in a shingle; the bits above are its first token's bucket
_ALL_BITS = np.uint64((1 << 64) - 1)
_BASE = np.uint64(0x9E3779B185EBCA87)
_CODE_SALT = np.uint64(0xD6E8FEB86659FD93)


class Sketch(NamedTuple):
    """A page's terms, each with its flags, and the masks for estimating the shared part of two pages."""

    terms: Terms
    kinds: NDArray[np.uint8]
    masks: NDArray[np.uint64]


@kernel
def _smallest_into(values: Terms, mask: np.uint64, found: Terms) -> int:
    """Write the distinct values that are smallest under the mask into `found`, ascending, and return their number."""
    count = 0
    for value in values:
        small = value & mask
        if count == found.size and small >= (found[count - 1] & mask):
            continue
        at = count if count < found.size else count - 1
        while at > 0 and (found[at - 1] & mask) > small:
            at -= 1
        if at > 0 and found[at - 1] == value:
            continue
        last = count if count < found.size else count - 1
        for i in range(last, at, -1):
            found[i] = found[i - 1]
        found[at] = value
        count = last + 1
    return count


@kernel
def _code_runs(code: NDArray[np.uint32], chars: int) -> Terms:
    """A hash of every run of `chars` characters."""
    runs = np.empty(max(code.size - chars + 1, 0), dtype=np.uint64)
    for start in range(runs.size):
        rolling = np.uint64(0)
        for i in range(start, start + chars):
            rolling = rolling * _BASE + np.uint64(code[i])
        runs[start] = fmix64(rolling ^ _CODE_SALT)
    return runs


@kernel
def _sketch_into(shingles: Terms, terms: Terms, masks: NDArray[np.uint64]) -> int:
    """Write the terms of a page and its masks, and return the number of terms. The two masks of 128 bits are those of
    the terms asked with and of the terms posted; the lowest seven bits of a term select its bit."""
    count = _smallest_into(shingles, _SAMPLED, terms)
    masks[:] = 0
    for i in range(count):
        word = np.int64(terms[i] >> np.uint64(6) & np.uint64(1))
        bit = np.uint64(1) << (terms[i] & np.uint64(63))
        masks[2 + word] |= bit
        if i < ASKED:
            masks[word] |= bit
    return count


@kernel
def _sketches_into(
    shingles: Terms, starts: NDArray[np.int64], ends: NDArray[np.int64], terms: Terms, counts: NDArray[np.int32],
    masks: NDArray[np.uint64],
) -> None:  # fmt: skip
    for page in range(starts.size):
        counts[page] = _sketch_into(shingles[starts[page] : ends[page]], terms[page], masks[page])


def sketches_of(
    shingles: Terms, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[Terms, NDArray[np.int32], NDArray[np.uint64]]:
    """The sketches of many pages, whose distinct shingles are at `starts` to `ends`: per page a row of terms, the
    number of terms in it, and its masks. Without feature codes."""
    terms, counts = np.empty((starts.size, POSTED), dtype=np.uint64), np.empty(starts.size, dtype=np.int32)
    masks = np.empty((starts.size, 4), dtype=np.uint64)
    _sketches_into(shingles, starts, ends, terms, counts, masks)
    return terms, counts, masks


def sketch_of(shingles: Terms, code: str) -> Sketch:
    """A page's sketch; `shingles` are distinct."""
    terms, masks = np.empty(POSTED, dtype=np.uint64), np.empty(4, dtype=np.uint64)
    return _with_code(terms[: _sketch_into(shingles, terms, masks)], masks, code)


def page_sketches(pages: Sequence[PageSignature]) -> list[Sketch]:
    """The sketches of some pages; their shingles are copied."""
    ends = np.cumsum([shingle_count(page.shingles) for page in pages], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])[:-1].copy()
    terms, counts, masks = sketches_of(shingle_array(b"".join([page.shingles for page in pages])), starts, ends)
    each = zip(terms, counts.tolist(), masks, pages, strict=True)
    return [_with_code(row[:count], mask, page.code) for row, count, mask, page in each]


def _with_code(terms: Terms, masks: NDArray[np.uint64], code: str) -> Sketch:
    kinds = shingle_kinds(terms.size)
    if code:
        runs = code_terms(code)
        terms, kinds = np.concatenate([terms, runs]), np.concatenate([kinds, code_kinds(runs.size)])
    return Sketch(terms, kinds, masks)


def code_terms(code: str) -> Terms:
    """The terms of a feature code."""
    found = np.empty(CODE_POSTED, dtype=np.uint64)
    return found[: _smallest_into(_code_runs(code_points(code), CODE_RUN_CHARS), _ALL_BITS, found)]


def shingle_kinds(count: int) -> NDArray[np.uint8]:
    return _kinds(count, ASKED, 0)


def code_kinds(count: int) -> NDArray[np.uint8]:
    return _kinds(count, CODE_ASKED, CODE)


@lru_cache(maxsize=POSTED + CODE_POSTED)
def _kinds(count: int, asked: int, code: int) -> NDArray[np.uint8]:
    kinds = np.full(count, POST | code, dtype=np.uint8)
    kinds[:asked] |= ASK
    kinds.flags.writeable = False
    return kinds
