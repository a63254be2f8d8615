"""The list of URLs that DustBuster works on, its settings, and the values passed between its phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inlined_kernel, kernel
from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.framed_text import (
    END,
    START,
    Bytes,
    FramedText,
    I64s,
    U64s,
)
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import SubstringRewrite

URLS_MAX: Final = 20_000
URL_BYTES_MAX: Final = 512
FRAME_START, FRAME_END = ord(START), ord(END)
SLASH = ord("/")

ALIKE, UNLIKE, UNKNOWN, UNDECIDED = 1, 0, 2, 3
"""What is known of a URL and what a rule makes of it; undecided: the outcome may not be in standard form."""


class Limits(NamedTuple):
    """When outcomes decide on a rule: `enough` right ones or `too_many` wrong ones end the counting. `asks`: a fetcher
    will be asked for what is not known, about `asked_max` URLs at most."""

    asked_max: int
    ms: int
    bound: float
    enough: float
    too_many: float
    asks: bool


class DustSettings(NamedTuple):
    """The parameters of the paper, with its values; T is 6 with sketches and 11 with sizes."""

    substring_max: int = 35
    bucket_max: int = 6
    sized_bucket_max: int = 11
    mrd: float = 0.05
    mad: int = 1
    mw: int = 1100
    ms: int = 3
    validation_count: int = 100
    refutation: float = 0.05
    iterations_max: int = 10
    label_noise: float = 0.0

    @property
    def refutation_bound(self) -> float:
        """The refutation threshold, where this share of the labels is wrong."""
        return 1 - (1 - self.refutation) * (1 - self.label_noise) ** 2

    def limits(self, asks: bool = False) -> Limits:
        bound, count = self.refutation_bound, self.validation_count
        return Limits(count, self.ms, bound, (1 - bound) * count, bound * count, asks)


class LoggedUrl(NamedTuple):
    """One URL of the list. `sketch` None: only the size interval is known; no interval either: nothing is."""

    url: str
    sketch: str | None = None
    size_min: int = -1
    size_max: int = -1


class RulePair(NamedTuple):
    """α ↔ β with the size of its support; α is the longer one."""

    alpha: str
    beta: str
    support: int


@dataclass(frozen=True)
class DustRule:
    """A valid rule, with how often its outcome was known to be right or wrong within its scope; and the listed URLs
    that it finds something in, by their rows. `landed`: of each the listed URL that it becomes, −1 if there is none, or
    nobody has looked."""

    rewrite: SubstringRewrite
    right: int
    wrong: int
    rows: Ints
    landed: Ints


Fetch = Callable[[str], str | None]
"""Fetches a URL and gives its sketch, or None if that failed."""


class Searched(NamedTuple):
    """A list in the form that validation needs: its text (framed_text.py), and the known contents of its URLs."""

    data: Bytes
    starts: I64s
    ends: I64s
    prefix: U64s
    powers: U64s
    hashes: U64s
    slots: Ints
    url_at: Ints
    bounds: Ints
    places: Ints
    spread: I64s
    path_starts: I64s
    by_sketch: bool
    sketches: I64s
    low: I64s
    high: I64s


class UrlList:
    """URLs in standard form, sorted, each once; what is known of them in columns. `sketches`: −1 is unknown. `wanted`:
    which can be an instance of a rule, if that was found out already."""

    def __init__(
        self,
        urls: list[str],
        sketches: I64s,
        low: I64s,
        high: I64s,
        names: Sequence[str] = (),
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.urls = urls
        self.wanted = wanted
        self.names = names  # of the sketches, for a fetcher
        self.sketches = sketches
        self.low, self.high = low, high
        self.by_sketch = bool((sketches >= 0).any())

    @cached_property
    def text(self) -> FramedText:
        return FramedText(self.urls)

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {url: row for row, url in enumerate(self.urls)}

    @cached_property
    def searched(self) -> Searched:
        text = self.text
        return Searched(
            text.data, text.starts, text.ends, text.prefix, text.powers, text.hashes, text.slots,
            text.url_at, *text.grams, text.spread, text.path_starts, self.by_sketch, self.sketches, self.low, self.high,
        )  # fmt: skip

    def relation(self, row: int, outcome: str) -> int:
        """How a listed URL and one that may be listed are related."""
        other = self.row_of.get(outcome, -1)
        if other < 0:
            return UNKNOWN
        return int(relation_of(row, other, self.by_sketch, self.sketches, self.low, self.high))


def url_list(entries: Iterable[LoggedUrl]) -> UrlList:
    """The list of a log, cut to the size that is looked at."""
    merged: dict[str, LoggedUrl] = {}
    for entry in entries:
        url = standard_form(entry.url)
        if is_listed(url):
            merged[url] = _merged(merged.get(url), entry)
    urls = sorted(merged)
    if len(urls) > URLS_MAX:
        # By sketch, not by URL: a sample that tears duplicates apart would show no rules.
        urls = sorted(sorted(merged, key=lambda url: (*_spread(merged[url].sketch or url), url))[:URLS_MAX])
    numbers: dict[str, int] = {}
    sketches = [merged[url].sketch for url in urls]
    return UrlList(
        urls,
        np.array([-1 if s is None else numbers.setdefault(s, len(numbers)) for s in sketches], np.int64),
        np.array([merged[url].size_min for url in urls], np.int64),
        np.array([merged[url].size_max for url in urls], np.int64),
        tuple(numbers),
    )


def is_listed(url: str) -> bool:
    """Whether a URL in standard form is looked at."""
    short = len(url) <= URL_BYTES_MAX // 4 or len(url.encode("utf-8", "surrogatepass")) <= URL_BYTES_MAX
    return short and START not in url and END not in url


def _merged(before: LoggedUrl | None, entry: LoggedUrl) -> LoggedUrl:
    """Several requests for one URL: the size interval widens, the last sketch counts."""
    if before is None:
        return entry
    sizes = [size for size in (before.size_min, entry.size_min) if size >= 0]
    return LoggedUrl(
        entry.url, entry.sketch or before.sketch, min(sizes, default=-1), max(before.size_max, entry.size_max)
    )


def _spread(url: str) -> tuple[int, str]:
    """An order independent of the text: its first entries are a fair sample."""
    mixed = 14_695_981_039_346_656_037
    for byte in url.encode("utf-8", "surrogatepass"):
        mixed = ((mixed ^ byte) * 1_099_511_628_211) & 0xFFFF_FFFF_FFFF_FFFF
    return mixed, url


A_START, A_LENGTH, B_START, B_LENGTH, SUPPORT = range(5)
"""The columns of detected rules: where α and β are in the text, and their support."""


@inlined_kernel
def relation_of(u: int, v: int, by_sketch: bool, sketches: I64s, low: I64s, high: I64s) -> int:
    if by_sketch:
        known, alike = sketches[u] >= 0 and sketches[v] >= 0, sketches[u] == sketches[v]
    else:
        known, alike = low[u] >= 0 and low[v] >= 0, low[u] <= high[v] and low[v] <= high[u]
    return (ALIKE if alike else UNLIKE) if known else UNKNOWN


@kernel
def same_bytes(data: Bytes, a: int, b: int, length: int) -> bool:
    i = 0
    while i < length and data[a + i] == data[b + i]:
        i += 1
    return i == length
