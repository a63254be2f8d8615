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

from dustream.core.kernels.arrays import largest
from dustream.core.kernels.compile import kernel, merged
from dustream.core.kernels.hash_slots import Hashes, Ints, slots_by_hash
from dustream.core.rules.ages import NO_AGES, Ages
from dustream.core.rules.url_table import UrlTable
from dustream.core.urls.keys import OPAQUE, Keys
from dustream.core.winners import CANONICAL_PLACES

URL_CHARS_MAX: Final = 2_048
KEYS_PER_URL_MAX: Final = 64
KEYS_PER_SITE_MAX: Final = 255
ABSENT: Final = 0

Ranks = npt.NDArray[np.int8]
"""What pages say of themselves, as places in the winner order: by their rel=canonical links (CANONICAL_PLACES), and
behind all others those that redirect or are gone."""
RANK_AVOIDED: Final = 3


class KnownUrl(NamedTuple):
    """A URL whose content is known. `avoid`: it redirects or is gone, so nothing may be rewritten to it.

    `cluster` None: nothing is known of its content.
    """

    url: str
    cluster: Hashable | None
    avoid: bool = False


@dataclass(frozen=True)
class TrainingSet:
    """`values[key, row]`; `clusters[row]` (−1: nothing is known of its content); `decimal[value]`: a number.
    `places[row]`: where the URL is in the table; `codes[value]`: the code of its text there. `ranks[row]`: what the
    page says of itself (reasons.py). `ages`: by row, or empty."""

    table: UrlTable
    places: npt.NDArray[np.int64]
    clusters: Ints
    avoid: npt.NDArray[np.bool_]
    keys: tuple[str, ...]
    values: Ints
    codes: Ints
    decimal: npt.NDArray[np.bool_]
    hashes: Hashes
    ranks: Ranks
    ages: Ages
    left_out: int

    @property
    def size(self) -> int:
        return len(self.places)

    @cached_property
    def urls(self) -> tuple[str, ...]:
        return tuple(map(self.table.urls.__getitem__, self.places.tolist()))

    def text(self, value: int) -> str:
        return self.table.text(int(self.codes[value]))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """By the number of a value; absent is the empty one."""
        return self.table.texts(self.codes)

    @cached_property
    def slots(self) -> Ints:
        """Where in the table each URL is found by its hash."""
        slots: Ints = slots_by_hash(self.hashes)
        return slots

    @cached_property
    def repeated(self) -> npt.NDArray[np.bool_]:
        """Per row: whether its cluster has another URL."""
        counts = np.bincount(self.clusters[self.clusters >= 0], minlength=1)
        repeated: npt.NDArray[np.bool_] = (self.clusters >= 0) & (counts[np.maximum(self.clusters, 0)] > 1)
        return repeated

    @cached_property
    def all_rows(self) -> Ints:
        return np.arange(self.size, dtype=np.int32)

    def rows_with(self, key: int, value: int) -> Ints:
        """The rows with this value of a key, in order."""
        if (key, value) not in self._rows_with:
            self._rows_with[key, value] = np.flatnonzero(self.values[key] == value).astype(np.int32)
        return self._rows_with[key, value]

    @cached_property
    def _rows_with(self) -> dict[tuple[int, int], Ints]:
        return {}

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {url: row for row, url in enumerate(self.urls)}

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The number of every text; the empty one has one of its own if a URL has an empty value, else 0, as absent."""
        return {text: code for code, text in enumerate(self.texts)}


def ranks_of(avoid: npt.NDArray[np.bool_]) -> Ranks:
    """Of pages without canonical links."""
    return np.where(avoid, RANK_AVOIDED, CANONICAL_PLACES["none"]).astype(np.int8)


def training_set(known: Iterable[KnownUrl], table: UrlTable | None = None) -> TrainingSet:
    """The URLs in standard form, sorted. Of several with one standard form, the first in sorted order is used.

    `table`: shared by training sets with mostly the same URLs.
    """
    table = table or UrlTable()
    by_url: dict[str, KnownUrl] = {}
    left_out = 0
    for entry in known:
        url = table.standard(entry.url)
        if len(url) > URL_CHARS_MAX:
            left_out += 1
        elif url not in by_url or (entry.avoid, entry.url) < (by_url[url].avoid, by_url[url].url):
            by_url[url] = entry
    urls = sorted(by_url)
    clusters = _numbered(by_url[url].cluster for url in urls)
    avoid = np.array([by_url[url].avoid for url in urls], np.bool_)
    return training_of(table, table.rows(urls), clusters, avoid, left_out)


def training_of(
    table: UrlTable,
    places: npt.NDArray[np.int64],
    clusters: Ints,
    avoid: npt.NDArray[np.bool_],
    left_out: int = 0,
    ranks: Ranks | None = None,
    ages: Ages = NO_AGES,
) -> TrainingSet:
    """The URLs at these places of a table, each once, in the order of their text."""
    ranks = ranks_of(avoid) if ranks is None else ranks
    structures, own = table.structures(places)
    keys = _frequent_keys(structures, np.bincount(own, minlength=len(structures)).tolist())
    fits = np.array([_is_taken(structure, keys) for structure in structures], np.bool_)[own]
    if not fits.all():
        left_out += len(places) - int(fits.sum())
        places, clusters, avoid, ranks = places[fits], clusters[fits], avoid[fits], ranks[fits]
        ages = ages.only(fits)
    values, codes, decimal = table.values(places, keys)
    return TrainingSet(
        table=table,
        places=places,
        clusters=in_order(clusters),
        avoid=avoid,
        keys=tuple(keys),
        values=values,
        codes=codes,
        decimal=decimal,
        hashes=row_hashes(values),
        ranks=ranks,
        ages=ages,
        left_out=left_out,
    )


def _is_taken(structure: Keys, keys: dict[str, int]) -> bool:
    return structure[0] != OPAQUE and len(structure) <= KEYS_PER_URL_MAX and all(key in keys for key in structure)


def _frequent_keys(structures: list[Keys], urls: list[int]) -> dict[str, int]:
    """The keys that most URLs have, by number; of each structure it is known how many URLs have it."""
    counts: Counter[str] = Counter()
    for structure, count in zip(structures, urls, strict=True):
        for key in structure if count else ():
            counts[key] += count
    chosen = sorted(counts, key=lambda key: (-counts[key], key))[:KEYS_PER_SITE_MAX]
    return {key: i for i, key in enumerate(sorted(chosen))}


def _numbered(clusters: Iterable[Hashable | None]) -> Ints:
    numbers: dict[Hashable, int] = {}
    return np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in clusters], np.int32)


@kernel
def in_order(clusters: Ints) -> Ints:
    """The clusters, numbered as they come up; −1 stays."""
    numbers = np.full(largest(clusters) + 1 if len(clusters) else 0, -1, np.int32)
    numbered, used = clusters.copy(), 0
    for i in range(len(clusters)):
        if clusters[i] >= 0:
            if numbers[clusters[i]] < 0:
                numbers[clusters[i]] = used
                used += 1
            numbered[i] = numbers[clusters[i]]
    return numbered


@merged
def pair_hash(key: int, value: int) -> np.uint64:
    """Of one key–value pair (splitmix64); absent is 0. A URL's hash is the sum over its pairs, whatever their order."""
    if value == 0:
        return np.uint64(0)
    x = (np.uint64(key) << np.uint64(32)) ^ np.uint64(value)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def row_hashes(values: Ints) -> Hashes:
    """The hash of every URL."""
    hashes = np.zeros(values.shape[1], np.uint64)
    for key in range(values.shape[0]):
        for row in range(values.shape[1]):
            hashes[row] += pair_hash(key, values[key, row])
    return hashes
