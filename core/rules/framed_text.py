"""A list of URLs as one text for compiled code: every URL framed by `^` and `$`, with hashes of all its prefixes, so
that the hash of any piece, and of any URL with a piece replaced, takes one step."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inlined_kernel, inner, kernel
from dustream.core.kernels.hash_slots import Ints, slots_by_hash
from dustream.core.kernels.mix64 import mix64

START, END = "\x02", "\x03"
"""The `^` and `$` around every URL; neither can be in one."""

U64s = npt.NDArray[np.uint64]
I64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

GRAM: Final = 3
GRAM_BUCKETS: Final = 1 << 16


class FramedText:
    """`data[starts[url]:ends[url]]` is a URL with its frame. `prefix[starts[url] + url + i]` is the hash of its first i
    bytes, `powers` are those of the base; `sums` counts bytes by a random weight each, whatever their order."""

    def __init__(self, urls: list[str]) -> None:
        framed = [(START + url + END).encode("utf-8", "surrogatepass") for url in urls]
        self.data = np.frombuffer(b"".join(framed), np.uint8)
        self.ends = np.cumsum(np.fromiter(map(len, framed), np.int64, len(framed)))
        self.starts = self.ends - np.fromiter(map(len, framed), np.int64, len(framed))
        self.prefix, self.powers, self.sums = _prefix_hashes(self.data, self.starts, self.ends)

    @property
    def size(self) -> int:
        return len(self.starts)

    @cached_property
    def hashes(self) -> U64s:
        """Of every URL with its frame."""
        hashes: U64s = _whole_hashes(self.prefix, self.starts, self.ends)
        return hashes

    @cached_property
    def slots(self) -> Ints:
        slots: Ints = slots_by_hash(self.hashes)
        return slots

    @cached_property
    def spread(self) -> I64s:
        """The URLs in an order that has nothing to do with their text."""
        order: I64s = np.argsort(_spread_hashes(self.data, self.starts, self.ends), kind="stable")
        return order

    @cached_property
    def url_at(self) -> Ints:
        """For each byte the URL it is in."""
        return np.repeat(np.arange(self.size, dtype=np.int32), self.ends - self.starts)

    @cached_property
    def grams(self) -> tuple[Ints, Ints]:
        """Where each sequence of three bytes occurs: the places of bucket b are places[bounds[b] : bounds[b + 1]], URL
        after URL, spread."""
        bounds, places = _grams(self.data, self.starts, self.ends, self.spread)
        return bounds, places

    @cached_property
    def path_starts(self) -> I64s:
        """Per URL where its path begins in the data if no standard step has anything to do on it; else −1."""
        starts: I64s = _path_starts(self.data, self.starts, self.ends)
        return starts

    def piece(self, start: int, length: int) -> bytes:
        return self.data[start : start + length].tobytes()


@kernel
def _prefix_hashes(data: Bytes, starts: I64s, ends: I64s) -> tuple[U64s, U64s, U64s]:
    """Polynomial hashes of all prefixes, one slot more per URL than it has bytes; the powers of the base; and the sums
    of the bytes' weights, from the beginning of the data."""
    base = np.uint64(0x9E3779B97F4A7C15)
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    powers = np.ones(longest + 64, np.uint64)
    for i in range(len(powers) - 1):
        powers[i + 1] = powers[i] * base
    weights = np.array([mix64(np.uint64(byte + 1)) for byte in range(256)])
    prefix = np.zeros(len(data) + len(starts), np.uint64)
    sums = np.zeros(len(data) + 1, np.uint64)
    for i in range(len(starts)):
        at = starts[i] + i
        for j in range(ends[i] - starts[i]):
            byte = data[starts[i] + j]
            prefix[at + j + 1] = prefix[at + j] * base + np.uint64(byte) + np.uint64(1)
            sums[starts[i] + j + 1] = sums[starts[i] + j] + weights[byte]
    return prefix, powers, sums


@inlined_kernel
def span(prefix: U64s, powers: U64s, at: int, start: int, length: int) -> np.uint64:
    """The hash of a piece of the URL whose prefixes begin at `at`."""
    return np.uint64(prefix[at + start + length] - prefix[at + start] * powers[length])


@inner
def text_hash(text: Bytes) -> np.uint64:
    hashed = np.uint64(0)
    for byte in text:
        hashed = hashed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(byte) + np.uint64(1)
    return hashed


@kernel
def _whole_hashes(prefix: U64s, starts: I64s, ends: I64s) -> U64s:
    hashes = np.zeros(len(starts), np.uint64)
    for url in range(len(starts)):
        hashes[url] = prefix[ends[url] + url]
    return hashes


@kernel
def _spread_hashes(data: Bytes, starts: I64s, ends: I64s) -> U64s:
    """FNV-1a of the URLs without their frames."""
    hashes = np.zeros(len(starts), np.uint64)
    for url in range(len(starts)):
        mixed = np.uint64(14_695_981_039_346_656_037)
        for at in range(starts[url] + 1, ends[url] - 1):
            mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1_099_511_628_211)
        hashes[url] = mixed
    return hashes


@inner
def gram_bucket(data: Bytes, at: int) -> np.int64:
    value = (np.uint64(data[at]) << np.uint64(16)) | (np.uint64(data[at + 1]) << np.uint64(8)) | np.uint64(data[at + 2])
    return np.int64((value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48))


@kernel
def _grams(data: Bytes, starts: I64s, ends: I64s, order: I64s) -> tuple[Ints, Ints]:
    bounds = np.zeros(GRAM_BUCKETS + 1, np.int32)
    for url in order:
        for at in range(starts[url], ends[url] - GRAM + 1):
            bounds[gram_bucket(data, at) + 1] += 1
    for bucket in range(GRAM_BUCKETS):
        bounds[bucket + 1] += bounds[bucket]
    free = bounds.copy()
    places = np.zeros(bounds[GRAM_BUCKETS], np.int32)
    for url in order:
        for at in range(starts[url], ends[url] - GRAM + 1):
            place = gram_bucket(data, at)
            places[free[place]] = at
            free[place] += 1
    return bounds, places


_SLASH, _DOT, _QUERY = ord("/"), ord("."), ord("?")
_ALLOWED: Final = np.zeros(256, np.bool_)
_ALLOWED[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~!$&'()*+,;=:@.-/")] = True
_HOST: Final = np.zeros(256, np.bool_)
_HOST[list(b"abcdefghijklmnopqrstuvwxyz0123456789_-")] = True


@inner
def path_start(data: Bytes, start: np.int64, end: np.int64) -> np.int64:
    """Where the path begins of an unframed URL that is certainly in standard form; −1: it is not certain."""
    at = start + 4
    is_http = end - start >= 8 and data[start] == 104 and data[start + 1] == 116 and data[start + 2] == 116
    if not is_http or data[start + 3] != 112:
        return np.int64(-1)
    at += data[at] == 115
    if at + 3 > end or data[at] != 58 or data[at + 1] != _SLASH or data[at + 2] != _SLASH:
        return np.int64(-1)
    at += 3
    label = at
    while at < end and data[at] != _SLASH:
        if data[at] == _DOT:
            if at == label:
                return np.int64(-1)
            label = at + 1
        elif not _HOST[data[at]]:
            return np.int64(-1)
        at += 1
    if at in (end, label):
        return np.int64(-1)
    path = at
    while at < end and data[at] != _QUERY:
        if not _ALLOWED[data[at]] or (data[at] == _DOT and data[at - 1] == _SLASH):
            return np.int64(-1)
        at += 1
    if at == end:
        return np.int64(path)
    if at + 1 == end:
        return np.int64(-1)
    for query in range(at + 1, end):
        if not _ALLOWED[data[query]] and data[query] != _QUERY:
            return np.int64(-1)
    return np.int64(path)


@kernel
def _path_starts(data: Bytes, starts: I64s, ends: I64s) -> I64s:
    found = np.zeros(len(starts), np.int64)
    for url in range(len(starts)):
        found[url] = path_start(data, starts[url] + 1, ends[url] - 1)
    return found


@inner
def is_safe_piece(text: Bytes) -> bool:
    """Whether a piece of a path or query may stand in any other, as far as its own bytes go."""
    for i in range(len(text)):
        if not _ALLOWED[text[i]] or (text[i] == _DOT and i > 0 and text[i - 1] == _SLASH):
            return False
    return True
