"""The training set of one site: its URLs with their duplicate clusters (Lei, section 3), as a table of numbers.

Row = URL, column = key, number = value: 0 is absent, every text has one number whatever the key, so that values of
different keys compare directly. URLs are sorted, so nothing learned depends on the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dustream.core.rules.decompose import OPAQUE, Decomposition, decompose
from dustream.core.rules.standard import standard_form

URL_CHARS_MAX: Final = 2_048
KEYS_PER_URL_MAX: Final = 64
KEYS_PER_SITE_MAX: Final = 255
ABSENT: Final = 0

Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


class KnownUrl(NamedTuple):
    """A URL whose content is known. `avoid`: it redirects or is gone, so nothing may be rewritten to it.

    `cluster` None: nothing is known of its content.
    """

    url: str
    cluster: Hashable | None
    avoid: bool = False


@dataclass(frozen=True)
class TrainingSet:
    """`values[key, row]`; `clusters[row]` (−1: nothing is known of its content); `decimal[value]`: a number."""

    urls: tuple[str, ...]
    clusters: Ints
    avoid: npt.NDArray[np.bool_]
    keys: tuple[str, ...]
    values: Ints
    texts: tuple[str, ...]
    decimal: npt.NDArray[np.bool_]
    hashes: Hashes
    left_out: int

    @property
    def size(self) -> int:
        return len(self.urls)

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {url: row for row, url in enumerate(self.urls)}

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The number of every text; the empty one has one of its own if a URL has an empty value, else 0, as absent."""
        return {text: code for code, text in enumerate(self.texts)}


def training_set(known: Iterable[KnownUrl], taken_apart: dict[str, Decomposition] | None = None) -> TrainingSet:
    """The URLs in standard form, sorted. Of several with one standard form the first in sorted order speaks for all.

    `taken_apart` remembers decompositions for who makes several training sets of much the same URLs.
    """
    memory = {} if taken_apart is None else taken_apart
    by_url: dict[str, KnownUrl] = {}
    left_out = 0
    for entry in known:
        url = standard_form(entry.url)
        if len(url) > URL_CHARS_MAX:
            left_out += 1
        elif url not in by_url or (entry.avoid, entry.url) < (by_url[url].avoid, by_url[url].url):
            by_url[url] = entry
    decomposed = {url: memory.get(url) or memory.setdefault(url, decompose(url)) for url in sorted(by_url)}
    keys, whole = _frequent_keys(decomposed.values())
    rows = {
        url: pairs
        for url, pairs in decomposed.items()
        if pairs[0][0] != OPAQUE and len(pairs) <= KEYS_PER_URL_MAX and (whole or all(key in keys for key, _ in pairs))
    }
    return _coded(rows, by_url, keys, left_out + len(decomposed) - len(rows))


def _frequent_keys(decomposed: Iterable[Decomposition]) -> tuple[dict[str, int], bool]:
    """The keys by number, and whether they are all there are."""
    counts: Counter[str] = Counter()
    for structure, count in Counter([tuple([key for key, _ in pairs]) for pairs in decomposed]).items():
        for key in structure:
            counts[key] += count
    chosen = sorted(counts, key=lambda key: (-counts[key], key))[:KEYS_PER_SITE_MAX]
    return {key: i for i, key in enumerate(sorted(chosen))}, len(chosen) == len(counts)


def _coded(
    rows: dict[str, Decomposition], by_url: dict[str, KnownUrl], keys: dict[str, int], left_out: int
) -> TrainingSet:
    codes: dict[str, int] = {}
    values = np.zeros((len(keys), len(rows)), np.int32)
    lengths = np.array([len(pairs) for pairs in rows.values()], np.int64)
    flat_keys = np.array([keys[key] for pairs in rows.values() for key, _ in pairs], np.int32)
    flat_codes = [codes.setdefault(value, len(codes) + 1) for pairs in rows.values() for _, value in pairs]
    values[flat_keys, np.repeat(np.arange(len(rows)), lengths)] = np.array(flat_codes, np.int32)
    entries = [by_url[url] for url in rows]
    return TrainingSet(
        urls=tuple(rows),
        clusters=_numbered(entries),
        avoid=np.array([entry.avoid for entry in entries], np.bool_),
        keys=tuple(keys),
        values=values,
        texts=("", *codes),
        decimal=np.array([False, *(text.isdecimal() for text in codes)], np.bool_),
        hashes=row_hashes(values),
        left_out=left_out,
    )


def _numbered(entries: list[KnownUrl]) -> Ints:
    numbers: dict[Hashable, int] = {}
    return np.array(
        [-1 if e.cluster is None else numbers.setdefault(e.cluster, len(numbers)) for e in entries], np.int32
    )


@njit(cache=True, inline="always")
def pair_hash(key: int, value: int) -> np.uint64:
    """Of one key–value pair (splitmix64); absent is 0. A URL's hash is the sum over its pairs, whatever their order."""
    if value == 0:
        return np.uint64(0)
    x = (np.uint64(key) << np.uint64(32)) ^ np.uint64(value)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def row_hashes(values: Ints) -> Hashes:
    """The hash of every URL."""
    hashes = np.zeros(values.shape[1], np.uint64)
    for key in range(values.shape[0]):
        for row in range(values.shape[1]):
            hashes[row] += pair_hash(key, values[key, row])
    return hashes
