"""DustBuster (Bar-Yossef, Keidar, Schonfeld): substring rules α → β from a list of URLs, without any page.

    detect      all substrings up to a length with their envelopes (prefix, suffix); substrings with one envelope form a
                bucket; likely-similar pairs in small buckets are instances of a rule; a rule has large support
    eliminate   of two rules with nearly equal support where one refines the other, the broader is redundant
    validate    on known URLs (or fetched ones): few outcomes may differ in content; a rule is tried shrinking first
    canonize    apply all rules again and again, a bounded number of times (see normalize.py)

What tells likely-similar: a sketch (group, digest), or where there is only a log, overlapping size intervals.
A rule's scope is the common directory of the URLs that speak for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dustream.core.mix64 import mix64
from dustream.core.rules.framed_text import (
    END,
    GRAM,
    START,
    Bytes,
    FramedText,
    I64s,
    U64s,
    gram_bucket,
    is_safe_piece,
    path_start,
    span,
    text_hash,
)
from dustream.core.rules.hash_slots import Ints, first_entry, slot_count
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import SubstringRewrite

URLS_MAX: Final = 20_000
URL_BYTES_MAX: Final = 512
RULE_SLOTS_MAX: Final = 1 << 22
RULE_SLOTS_PER_URL: Final = 128
RULES_MAX: Final = 30_000
SIZED_BUCKET_MAX: Final = 11
OUTCOMES_MAX: Final = 2_000
"""How many of the URLs a rule changes are looked at, in an order that has nothing to do with their text."""

MATES_MAX: Final = 128
"""URLs with one sketch, where they are compared pair by pair before their substrings are."""

_FRAME_START, _FRAME_END = ord(START), ord(END)
_SLASH = ord("/")

ALIKE, UNLIKE, UNKNOWN, UNDECIDED = 1, 0, 2, 3
"""What is known of a URL and what a rule makes of it; undecided: the outcome may not be in standard form."""

LOOKED_AT_FIRST: Final = 16
"""After so many outcomes, and whenever they have doubled, it is looked whether a rule is refuted."""


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
    """The parameters of the paper, with its values; `bucket_max` is 6 with sketches and 11 with sizes."""

    substring_max: int = 35
    bucket_max: int = 6
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


@dataclass(frozen=True)
class DustFindings:
    """What each phase left. `truncated`: more kinds of rules were met than are counted."""

    detected: int
    remaining: int
    rules: list[DustRule]
    truncated: bool


Fetch = Callable[[str], str | None]
"""Fetches a URL and gives its sketch, or None if that failed."""


class Searched(NamedTuple):
    """A list as rules are tried on it: its text (framed_text.py), and what is known of its URLs."""

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
    """URLs in standard form, sorted, each once; what is known of them in columns. `sketches`: −1 is unknown."""

    def __init__(self, urls: list[str], sketches: I64s, low: I64s, high: I64s, names: Sequence[str] = ()) -> None:
        self.urls = urls
        self.names = names  # of the sketches, for who has a fetcher
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
        return int(_relation(row, other, self.by_sketch, self.sketches, self.low, self.high))


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
    """An order that has nothing to do with the text: the first of it are a fair sample."""
    mixed = 14_695_981_039_346_656_037
    for byte in url.encode("utf-8", "surrogatepass"):
        mixed = ((mixed ^ byte) * 1_099_511_628_211) & 0xFFFF_FFFF_FFFF_FFFF
    return mixed, url


def dust_rules(
    entries: Iterable[LoggedUrl], settings: DustSettings | None = None, fetch: Fetch | None = None
) -> DustFindings:
    """All phases, from a log."""
    return rules_of_list(url_list(entries), settings, fetch)


def rules_of_list(listed: UrlList, settings: DustSettings | None = None, fetch: Fetch | None = None) -> DustFindings:
    """All phases."""
    settings = settings or DustSettings()
    if not listed.by_sketch:
        settings = settings._replace(bucket_max=max(settings.bucket_max, SIZED_BUCKET_MAX))
    detected, truncated = _detected(listed, settings)
    if not len(detected):
        return DustFindings(0, 0, [], truncated)
    alive = _alive(listed.text.data, listed.text.sums, detected, settings.mrd, settings.mad, settings.mw)
    remaining = _as_parts(listed.text.data, detected[alive])
    return DustFindings(len(detected), len(remaining), validate(remaining, listed, settings, fetch), truncated)


# ---------------------------------------------------------------- detect


A_START, A_LENGTH, B_START, B_LENGTH, SUPPORT = range(5)
"""The columns of detected rules: where α and β are in the text, and their support."""


class Likely(NamedTuple):
    """A list as instances of rules are looked for in it: its text, which URLs can be instances, what tells that two
    are likely similar, and how long substrings and how large buckets may be."""

    prefix: U64s
    powers: U64s
    starts: I64s
    ends: I64s
    wanted: npt.NDArray[np.bool_]
    sketches: I64s
    low: I64s
    high: I64s
    by_sketch: bool
    substring_max: int
    bucket_max: int


class RuleTable(NamedTuple):
    """Rules by the hash of their texts: the support of each, and one instance: (start, length) of α and of β."""

    keys: U64s
    support: Ints
    places: Ints


def detect_likely_rules(listed: UrlList, settings: DustSettings) -> tuple[list[RulePair], bool]:
    """DetectLikelyRules: pairs with support of at least MS, the largest support first; and whether some were lost."""
    detected, truncated = _detected(listed, settings)
    return _rule_pairs(listed.text, detected), truncated


def _rule_pairs(text: FramedText, rules: I64s) -> list[RulePair]:
    return [
        RulePair(text.piece(a, a_length).decode(), text.piece(b, b_length).decode(), support)
        for a, a_length, b, b_length, support in rules.tolist()
    ]


def _detected(listed: UrlList, settings: DustSettings) -> tuple[I64s, bool]:
    nothing = np.zeros((0, 5), np.int64)
    if len(listed.urls) < 2:
        return nothing, False
    wanted = _wanted_urls(listed, settings)
    if not wanted.any():
        return nothing, False
    text = listed.text
    by_text, by_end = _orders(listed.urls)
    shared = _shared_with_next(text.data, text.starts, text.ends, by_text, False)
    shared_ends = _lowest(_shared_with_next(text.data, text.starts, text.ends, by_end, True))
    likely = Likely(
        text.prefix, text.powers, text.starts, text.ends, wanted, listed.sketches, listed.low, listed.high,
        listed.by_sketch, settings.substring_max, settings.bucket_max,
    )  # fmt: skip
    # Most sites are small, and have few rules: a table that turns out too small is thrown away for a larger one.
    slots = min(RULE_SLOTS_MAX, 1 << (RULE_SLOTS_PER_URL * int(wanted.sum())).bit_length())
    while True:
        table = _new_rule_table(slots)
        full = _gather_instances(likely, by_text, shared, by_end, shared_ends, table)
        if not full or slots == RULE_SLOTS_MAX:
            return _in_order(text, table.support, table.places, settings.ms), bool(full)
        slots = min(RULE_SLOTS_MAX, slots * 8)


def _wanted_urls(listed: UrlList, settings: DustSettings) -> npt.NDArray[np.bool_]:
    """Which URLs can be an instance of a rule. Only those that share their sketch are looked at for that."""
    wanted = np.ones(len(listed.urls), np.bool_)
    if not listed.by_sketch:
        return wanted
    wanted[:] = False
    rows = mates(listed.sketches)
    wanted[rows] = _wanted_mates([listed.urls[row] for row in rows.tolist()], listed.sketches[rows], settings)
    return wanted


def mates(sketches: I64s | Ints) -> I64s:
    """The rows whose sketch another row has, too."""
    counts = np.bincount(sketches[sketches >= 0], minlength=1)
    return np.flatnonzero((sketches >= 0) & (counts[np.maximum(sketches, 0)] > 1))


def differences_recur(urls: list[str], sketches: I64s | Ints, settings: DustSettings) -> bool:
    """Whether rules can be found among URLs each of which has a mate. Cheap: no other URL needs to be looked at."""
    return bool(_wanted_mates(urls, sketches.astype(np.int64), settings).any())


def _wanted_mates(urls: list[str], sketches: I64s, settings: DustSettings) -> npt.NDArray[np.bool_]:
    text = FramedText(urls)
    wanted: npt.NDArray[np.bool_] = _wanted(
        text.data, text.starts, text.ends, text.prefix, text.powers, text.sums,
        sketches, settings.substring_max, settings.ms,
    )  # fmt: skip
    return wanted


def _orders(urls: list[str]) -> tuple[I64s, I64s]:
    """The framed URLs sorted by their bytes, and by their bytes from the end."""
    data = [url.encode("utf-8", "surrogatepass") + b"\x03" for url in urls]
    by_end = sorted(range(len(data)), key=[text[::-1] + b"\x02" for text in data].__getitem__)
    return np.array(sorted(range(len(data)), key=data.__getitem__), np.int64), np.array(by_end, np.int64)


def _lowest(shared: Ints) -> Ints:
    """`lowest[k, i]`: the least of the 2^k values from i on. So any range has its least in two steps."""
    levels = [shared]
    width = 1
    while 2 * width <= len(shared):
        before = levels[-1]
        after = before.copy()
        after[:-width] = np.minimum(before[:-width], before[width:])
        levels.append(after)
        width *= 2
    return np.stack(levels)


def _new_rule_table(slots: int) -> RuleTable:
    return RuleTable(np.zeros(slots, np.uint64), np.zeros(slots, np.int32), np.zeros((slots, 4), np.int32))


def _in_order(text: FramedText, support: Ints, places: Ints, ms: int) -> I64s:
    """The rules with enough support: the largest first, longer ones before shorter ones, then by their texts."""
    found = np.flatnonzero(support >= ms)
    rules = np.column_stack((places[found], support[found])).astype(np.int64)
    rules = rules[_sorted_rules(text.data, rules)]
    if text.data.max(initial=0) < 0x80:
        return rules[:RULES_MAX]
    whole = [_is_whole(text, rule) for rule in rules[: 2 * RULES_MAX].tolist()]
    return rules[: 2 * RULES_MAX][np.array(whole, np.bool_)][:RULES_MAX]


def _is_whole(text: FramedText, rule: list[int]) -> bool:
    """Not cut within a character: the same rule is there with whole characters, too."""
    try:
        text.piece(rule[A_START], rule[A_LENGTH]).decode()
        text.piece(rule[B_START], rule[B_LENGTH]).decode()
    except UnicodeDecodeError:
        return False
    return True


@njit(cache=True)
def _sorted_rules(data: Bytes, rules: I64s) -> I64s:
    """The order of the rules (merge sort); turns each so that α is the longer one, or the greater of equals."""
    for i in range(len(rules)):
        a, a_length, b, b_length = rules[i, 0], rules[i, 1], rules[i, 2], rules[i, 3]
        if a_length < b_length or (a_length == b_length and _compared(data, a, a_length, b, b_length) < 0):
            rules[i, 0], rules[i, 1], rules[i, 2], rules[i, 3] = b, b_length, a, a_length
    order, other = np.arange(len(rules)), np.zeros(len(rules), np.int64)
    width = 1
    while width < len(rules):
        for begin in range(0, len(rules), 2 * width):
            middle, end = min(begin + width, len(rules)), min(begin + 2 * width, len(rules))
            i, j = begin, middle
            for k in range(begin, end):
                if i < middle and (j >= end or not _comes_before(data, rules, order[j], order[i])):
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
        order, other = other, order
        width *= 2
    return order


@njit(cache=True, inline="always")
def _comes_before(data: Bytes, rules: I64s, one: int, other: int) -> bool:
    compared = rules[other, SUPPORT] - rules[one, SUPPORT]
    if compared == 0:
        compared = rules[other, A_LENGTH] - rules[one, A_LENGTH]
    if compared == 0:
        a_length = rules[one, A_LENGTH]
        compared = _compared(data, rules[one, A_START], a_length, rules[other, A_START], a_length)
    if compared == 0:
        b, b_length = rules[one, B_START], rules[one, B_LENGTH]
        compared = _compared(data, b, b_length, rules[other, B_START], rules[other, B_LENGTH])
    return bool(compared < 0)


@njit(cache=True, inline="always")
def _compared(data: Bytes, a: int, a_length: int, b: int, b_length: int) -> np.int64:
    same, most = 0, min(a_length, b_length)
    while same < most and data[a + same] == data[b + same]:
        same += 1
    return np.int64(data[a + same]) - np.int64(data[b + same]) if same < most else np.int64(a_length - b_length)


@njit(cache=True)
def _wanted(
    data: Bytes, starts: I64s, ends: I64s, prefix: U64s, powers: U64s, sums: U64s, sketches: I64s, longest: int, ms: int
) -> npt.NDArray[np.bool_]:
    """Which URLs can be an instance of a rule with enough support.

    A rule has in all its instances one core: what is left of a pair without its common beginning and end. Where one
    side of the core is empty the other may be turned (`aba` in `cabac`), but has the same bytes, and one pair can be
    several instances. So pairs whose core is met too seldom are left out; unless so many URLs have one sketch that
    going through the pairs would take longer than it saves.
    """
    by_sketch = np.argsort(sketches, kind="mergesort")
    bounds = _runs(sketches[by_sketch])
    mates = bounds[1:] - bounds[:-1]
    if len(mates) and mates.max() > MATES_MAX:
        return np.ones(len(starts), np.bool_)
    room = (mates * (mates - 1) // 2).sum()
    keys, counts = np.zeros(slot_count(room), np.uint64), np.zeros(slot_count(room), np.int32)
    pairs, used = np.zeros((room, 3), np.int64), 0
    for run in range(len(mates)):
        for i in range(bounds[run], bounds[run + 1]):
            for j in range(i + 1, bounds[run + 1]):
                u, v = by_sketch[i], by_sketch[j]
                core, times = _core(data, starts, ends, prefix, powers, sums, u, v, longest)
                if times:
                    pairs[used, 0], pairs[used, 1], pairs[used, 2] = u, v, _counted_key(keys, counts, core, times)
                    used += 1
    wanted = np.zeros(len(starts), np.bool_)
    for i in range(used):
        if counts[pairs[i, 2]] >= ms:
            wanted[pairs[i, 0]] = wanted[pairs[i, 1]] = True
    return wanted


@njit(cache=True)
def _runs(ordered: I64s) -> I64s:
    """Where the runs of equal known sketches begin and end in a row of them, unknown ones (−1) left out."""
    bounds, used = np.zeros(len(ordered) + 1, np.int64), 0
    for i in range(len(ordered)):
        if ordered[i] >= 0 and (i == 0 or ordered[i] != ordered[i - 1]):
            bounds[used] = i
            used += 1
    bounds[used] = len(ordered)
    return bounds[: used + 1]


@njit(cache=True)
def _core(
    data: Bytes, starts: I64s, ends: I64s, prefix: U64s, powers: U64s, sums: U64s, u: int, v: int, longest: int
) -> tuple[np.uint64, int]:
    """A hash of the core of a pair, and of how many instances of one rule the pair can be (0: of none)."""
    u_size, v_size = ends[u] - starts[u], ends[v] - starts[v]
    most = min(u_size, v_size)
    before = 0
    while before < most and data[starts[u] + before] == data[starts[v] + before]:
        before += 1
    after = 0
    while after < most and data[ends[u] - 1 - after] == data[ends[v] - 1 - after]:
        after += 1
    shared = min(after, most - before)
    u_core, v_core = u_size - before - shared, v_size - before - shared
    if max(u_core, v_core) > longest:
        return np.uint64(0), 0
    if u_core and v_core:
        a = mix64(span(prefix, powers, starts[u] + u, before, u_core) + np.uint64(u_core))
        b = mix64(span(prefix, powers, starts[v] + v, before, v_core) + np.uint64(v_core))
        return (mix64(a) ^ mix64(b)) | np.uint64(1), 1
    longer, length = (u, u_core) if u_core else (v, v_core)
    start = starts[longer] + before
    return mix64(sums[start + length] - sums[start]) | np.uint64(1), 1 + before + after - most


@njit(cache=True)
def _counted_key(keys: U64s, counts: Ints, key: np.uint64, times: int) -> int:
    """The slot of the key, where it is counted."""
    slot = np.int64(mix64(key) & np.uint64(len(keys) - 1))
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    keys[slot] = key
    counts[slot] += times
    return int(slot)


@njit(cache=True)
def _shared_with_next(text: Bytes, starts: I64s, ends: I64s, order: I64s, from_end: bool) -> npt.NDArray[np.int32]:
    """How many bytes each URL has in common with the next in this order, from the start or from the end."""
    shared = np.zeros(len(order), np.int32)
    for i in range(len(order) - 1):
        a, b = order[i], order[i + 1]
        most = min(ends[a] - starts[a], ends[b] - starts[b])
        same = 0
        if from_end:
            while same < most and text[ends[a] - 1 - same] == text[ends[b] - 1 - same]:
                same += 1
        else:
            while same < most and text[starts[a] + same] == text[starts[b] + same]:
                same += 1
        shared[i] = same
    return shared


@njit(cache=True)
def _gather_instances(
    likely: Likely, by_text: I64s, shared: Ints, by_end: I64s, shared_ends: Ints, table: RuleTable
) -> bool:
    """All buckets, prefix by prefix: URLs with a common prefix are neighbours in sorted order, so the substring table
    never exists as a whole; and as long as they have more bytes in common they are the same for the longer prefixes,
    too. True if the rule table is full."""
    full = False
    end_rank = np.zeros(len(by_end), np.int64)
    end_rank[by_end] = np.arange(len(by_end))
    seen = np.zeros(likely.sketches.max() + 2, np.int64)
    groups, used = np.zeros((len(by_text), 3), np.int64), 1
    groups[0, 1] = len(by_text)
    while used:
        used -= 1
        begin, end, depth = groups[used]
        if likely.by_sketch and not _has_mates(by_text[begin:end], likely.wanted, likely.sketches, seen):
            continue
        deepest = int(shared[begin : end - 1].min())
        ranks = np.sort(end_rank[by_text[begin:end]])
        full |= _buckets_of_prefix(
            likely, by_end[ranks], _shared_between(ranks, shared_ends), depth, deepest, seen, table
        )
        if full and len(table.keys) < RULE_SLOTS_MAX:
            return True
        used = _add_parts(groups, used, shared, begin, end, deepest)
    return full


@njit(cache=True)
def _add_parts(parts: I64s, used: int, shared: Ints, begin: int, end: int, least: int) -> int:
    """Of neighbours, those that have more than the least in common: (begin, end, how many bytes at least)."""
    start = begin
    for i in range(begin, end):
        if i == end - 1 or shared[i] == least:
            if i > start:
                parts[used, 0], parts[used, 1], parts[used, 2] = start, i + 1, least + 1
                used += 1
            start = i + 1
    return used


@njit(cache=True)
def _has_mates(group: I64s, wanted: npt.NDArray[np.bool_], sketches: I64s, seen: I64s) -> bool:
    """Whether two wanted URLs have one sketch. `seen`: in which group each sketch was met last; behind all, how many
    groups there were."""
    seen[-1] += 1
    for url in group:
        if wanted[url] and sketches[url] >= 0:
            if seen[sketches[url]] == seen[-1]:
                return True
            seen[sketches[url]] = seen[-1]
    return False


@njit(cache=True)
def _shared_between(ranks: I64s, lowest: Ints) -> Ints:
    """How many bytes each URL has in common with the next, from the end; ranks are in the order from the end."""
    shared = np.zeros(len(ranks), np.int32)
    for i in range(len(ranks) - 1):
        shared[i] = _least(lowest, ranks[i], ranks[i + 1])
    return shared


@njit(cache=True, inline="always")
def _least(lowest: Ints, begin: int, end: int) -> int:
    """Of the values from `begin` to before `end` (`_lowest`)."""
    level, width = 0, 1
    while 2 * width <= end - begin:
        level, width = level + 1, 2 * width
    return int(min(lowest[level, begin], lowest[level, end - width]))


@njit(cache=True)
def _buckets_of_prefix(
    likely: Likely, group: I64s, shared: Ints, depth: int, deepest: int, seen: I64s, table: RuleTable
) -> bool:
    """The buckets of the URLs with one prefix, `depth` to `deepest` bytes of it: URLs with a common suffix, too, are
    neighbours in the order of the group, which is from the end."""
    full = False
    runs, used = np.zeros((len(group), 3), np.int64), 1
    runs[0, 1] = len(group)
    while used:
        used -= 1
        begin, end, suffix = runs[used]
        run = group[begin:end]
        if likely.by_sketch and not _has_mates(run, likely.wanted, likely.sketches, seen):
            continue
        longest = int(shared[begin : end - 1].min())
        full |= _buckets_of_envelopes(likely, run, depth, deepest, suffix, longest, table)
        used = _add_parts(runs, used, shared, begin, end, longest)
    return full


@njit(cache=True)
def _buckets_of_envelopes(
    likely: Likely, run: I64s, depth: int, deepest: int, suffix: int, longest: int, table: RuleTable
) -> bool:
    """The buckets of URLs with these prefixes and suffixes: which of them have a substring short enough in between is
    told by how long both are together. Each likely-similar pair is an instance with every prefix that leaves a suffix
    of this run. True: the table is full."""
    full = False
    prefix, powers, starts, ends = likely.prefix, likely.powers, likely.starts, likely.ends
    wanted, sketches, low, high = likely.wanted, likely.sketches, likely.low, likely.high
    keys, support, places = table.keys, table.support, table.places
    lengths, bucket = ends[run] - starts[run], np.zeros(likely.bucket_max + 1, np.int64)
    shortest = _shortest_wanted(run, lengths, wanted, deepest + longest + 1 + likely.substring_max)
    for outside in range(max(depth + suffix, shortest - likely.substring_max), deepest + longest + 1):
        count = _fill_bucket(bucket, run, lengths, outside, likely.substring_max)
        if count > likely.bucket_max:
            continue
        for i in range(count):
            for j in range(i + 1, count):
                u, v = bucket[i], bucket[j]
                if not _is_likely_similar(likely.by_sketch, wanted, sketches, low, high, u, v):
                    continue
                a_length, b_length = ends[u] - starts[u] - outside, ends[v] - starts[v] - outside
                for at in range(max(depth, outside - longest), min(deepest, outside - suffix) + 1):
                    a = mix64(span(prefix, powers, starts[u] + u, at, a_length) + np.uint64(a_length))
                    b = mix64(span(prefix, powers, starts[v] + v, at, b_length) + np.uint64(b_length))
                    key = (mix64(a) ^ mix64(b)) | np.uint64(1)
                    full |= _count_rule(keys, support, places, key, starts[u] + at, a_length, starts[v] + at, b_length)
    return full


@njit(cache=True, inline="always")
def _shortest_wanted(run: I64s, lengths: I64s, wanted: npt.NDArray[np.bool_], most: int) -> int:
    shortest = most
    for i in range(len(run)):
        if wanted[run[i]]:
            shortest = min(shortest, lengths[i])
    return shortest


@njit(cache=True, inline="always")
def _fill_bucket(bucket: I64s, run: I64s, lengths: I64s, outside: int, substring_max: int) -> int:
    """Up to one URL too many; how many are in it."""
    count, i = 0, 0
    while i < len(run) and count < len(bucket):
        if 0 <= lengths[i] - outside <= substring_max:
            bucket[count] = run[i]
            count += 1
        i += 1
    return count


@njit(cache=True, inline="always")
def _is_likely_similar(
    by_sketch: bool, wanted: npt.NDArray[np.bool_], sketches: I64s, low: I64s, high: I64s, u: int, v: int
) -> bool:
    if by_sketch:
        similar = wanted[u] and wanted[v] and sketches[u] >= 0 and sketches[u] == sketches[v]
    else:
        similar = low[u] >= 0 and low[v] >= 0 and low[u] <= high[v] and low[v] <= high[u]
    return bool(similar)


@njit(cache=True, inline="always")
def _count_rule(
    keys: U64s, support: Ints, places: Ints, key: np.uint64, a: int, a_length: int, b: int, b_length: int
) -> bool:
    """One more instance of a rule; True if its place in the table could not be found in a bounded search."""
    slot, left = np.int64(mix64(key) & np.uint64(len(keys) - 1)), 64
    while left and keys[slot] != key and keys[slot] != 0:
        slot, left = (slot + 1) & (len(keys) - 1), left - 1
    if left and keys[slot] == 0:
        keys[slot] = key
        places[slot, 0], places[slot, 1], places[slot, 2], places[slot, 3] = a, a_length, b, b_length
    if left:
        support[slot] += 1
    return left == 0


# ---------------------------------------------------------------- parts of URLs


PART_BYTES_MAX: Final = 35
"""How much a rule takes in beside what it replaces."""
_DELIMITERS: Final = np.zeros(256, np.bool_)
_DELIMITERS[list(b"/?&=;:.,-_+~@!*|" + START.encode() + END.encode())] = True


def _as_parts(data: Bytes, rules: I64s) -> I64s:
    """The rules as replacements of parts of URLs: α and β begin and end with a delimiter, or with the URL. A rule that
    ends within a number or a word says something of numbers and words that it was never shown. So it is tried without
    what α and β have in common behind the last delimiter of that, and with what stands beside them, up to the next
    delimiter, in the URLs that they were found in.
    """
    parts = np.concatenate((rules, rules))
    texts = np.concatenate((_bounded(data, parts[: len(rules)], True), _bounded(data, parts[len(rules) :], False)))
    _, firsts = np.unique(texts, return_index=True)
    distinct = parts[np.sort(firsts[texts[firsts] != 0])]
    ordered: I64s = distinct[_sorted_rules(data, distinct)]
    return ordered


@njit(cache=True)
def _bounded(data: Bytes, rules: I64s, leaves_out: bool) -> U64s:
    """Bounds the rules in place; a hash of the texts of each, 0 where that is not possible. If `leaves_out`, nothing is
    taken in where something can be left out."""
    texts = np.zeros(len(rules), np.uint64)
    for i in range(len(rules)):
        a, a_length, b, b_length = rules[i, A_START], rules[i, A_LENGTH], rules[i, B_START], rules[i, B_LENGTH]
        less = _to_delimiter(data, a + a_length - 1, b + b_length - 1, -1, min(a_length, b_length), leaves_out)
        a_length, b_length = a_length - less, b_length - less
        less = _to_delimiter(data, a, b, 1, min(a_length, b_length), leaves_out)
        a, a_length, b, b_length = a + less, a_length - less, b + less, b_length - less
        if min(a_length, b_length) == 0 or (a_length == b_length and _same(data, a, b, a_length)):
            continue
        if not (_are_delimiters(data, a, b) and _are_delimiters(data, a + a_length - 1, b + b_length - 1)):
            continue
        rules[i, A_START], rules[i, A_LENGTH], rules[i, B_START], rules[i, B_LENGTH] = a, a_length, b, b_length
        one, other = text_hash(data[a : a + a_length]), text_hash(data[b : b + b_length])
        texts[i] = mix64(one + np.uint64(a_length)) ^ mix64(mix64(other + np.uint64(b_length)))
    return texts


@njit(cache=True)
def _to_delimiter(data: Bytes, a: int, b: int, inwards: int, most: int, leaves_out: bool) -> int:
    """How many bytes that both have α and β leave out at one end, so that they end with a delimiter; below 0: how many
    they take in; 0 if they end with one, or cannot."""
    if most and _are_delimiters(data, a, b):
        return 0
    for count in range(most if leaves_out else 0):
        at = count * inwards
        if data[a + at] != data[b + at]:
            break
        if _DELIMITERS[data[a + at]]:
            return count
    frame = _FRAME_END if inwards > 0 else _FRAME_START  # of the URL beside this one
    for count in range(1, PART_BYTES_MAX + 1):
        one, other = a - count * inwards, b - count * inwards
        if min(one, other) < 0 or max(one, other) >= len(data) or data[one] != data[other] or data[one] == frame:
            break
        if _DELIMITERS[data[one]]:
            return -count
    return 0


@njit(cache=True, inline="always")
def _are_delimiters(data: Bytes, a: int, b: int) -> bool:
    return bool(_DELIMITERS[data[a]] and _DELIMITERS[data[b]])


# ---------------------------------------------------------------- eliminate


def eliminate_redundancies(rules: Sequence[RulePair], settings: DustSettings) -> list[RulePair]:
    """EliminateRedundancies, over rules sorted by support: within a window of MW rules and MRD or MAD of support."""
    text = FramedText([rule.alpha + rule.beta for rule in rules])
    columns = [(len(rule.alpha.encode()), len(rule.beta.encode()), rule.support) for rule in rules]
    placed = [
        (start + 1, alpha, start + 1 + alpha, beta, support)
        for start, (alpha, beta, support) in zip(text.starts.tolist(), columns, strict=True)
    ]
    places = np.array(placed, np.int64).reshape(-1, 5)
    alive = _alive(text.data, text.sums, places, settings.mrd, settings.mad, settings.mw)
    return [rule for rule, stays in zip(rules, alive.tolist(), strict=True) if stays]


@njit(cache=True)
def _alive(data: Bytes, sums: U64s, rules: I64s, mrd: float, mad: int, mw: int) -> npt.NDArray[np.bool_]:
    """Which rules are not redundant. Of two rules one of which refines the other, α and β differ by the same bytes."""
    count = len(rules)
    alive, following = np.ones(count, np.bool_), _next_with_same_difference(sums, rules)
    for i in range(count):
        j = following[i]
        lowest = rules[i, SUPPORT] - max(mrd * rules[i, SUPPORT], mad)
        while alive[i] and 0 <= j < i + 1 + mw and rules[j, SUPPORT] >= lowest:
            grown = rules[i, A_LENGTH] - rules[j, A_LENGTH]
            if alive[j] and rules[i, B_LENGTH] - rules[j, B_LENGTH] == grown:
                if grown > 0 and _refines(data, rules[i], rules[j]):
                    alive[j] = False
                elif grown < 0 and _refines(data, rules[j], rules[i]):
                    alive[i] = False
            j = following[j]
    return alive


@njit(cache=True)
def _next_with_same_difference(sums: U64s, rules: I64s) -> I64s:
    """Per rule the next one whose α has the same bytes more than its β; −1: none."""
    following = np.full(len(rules), -1, np.int64)
    keys, last = np.zeros(slot_count(len(rules)), np.uint64), np.full(slot_count(len(rules)), -1, np.int64)
    for i in range(len(rules)):
        a, b = rules[i, A_START], rules[i, B_START]
        more = sums[a + rules[i, A_LENGTH]] - sums[a] - (sums[b + rules[i, B_LENGTH]] - sums[b])
        key = mix64(more) | np.uint64(1)
        slot = np.int64(mix64(key) & np.uint64(len(keys) - 1))
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + 1) & (len(keys) - 1)
        keys[slot] = key
        if last[slot] >= 0:
            following[last[slot]] = i
        last[slot] = i
    return following


@njit(cache=True)
def _refines(data: Bytes, inner: I64s, outer: I64s) -> bool:
    """Whether `inner` = γ`outer`δ: the same substitution in a narrower context."""
    alpha, beta = outer[A_LENGTH], outer[B_LENGTH]
    for at in range(inner[A_LENGTH] - alpha + 1):
        rest = inner[A_LENGTH] - alpha - at
        if (
            _same(data, inner[A_START] + at, outer[A_START], alpha)
            and _same(data, inner[B_START], inner[A_START], at)
            and _same(data, inner[B_START] + at, outer[B_START], beta)
            and _same(data, inner[B_START] + at + beta, inner[A_START] + at + alpha, rest)
        ):
            return True
    return False


@njit(cache=True)
def _same(data: Bytes, a: int, b: int, length: int) -> bool:
    i = 0
    while i < length and data[a + i] == data[b + i]:
        i += 1
    return i == length


# ---------------------------------------------------------------- validate


REFUTED, VALID, OPEN = 0, 1, 2
"""What compiled code says of a rule; open: it needs the standard form of texts, or a fetcher."""

F_SIDE, F_RIGHT, F_WRONG, F_URL, F_SCOPE, F_END = range(6)
"""The columns of valid rules: which side of which rule, right and wrong outcomes, a URL in the scope and how many bytes
of it (with its frame's first) the scope is, and where the rows of the rule end."""


def validate(rules: I64s, listed: UrlList, settings: DustSettings, fetch: Fetch | None = None) -> list[DustRule]:
    """Validate: rules by support; what refines a rule that is already in is not tried; shrinking goes first."""
    valid: list[DustRule] = []
    kept = np.zeros(len(rules), np.bool_)
    before = _last_with_same_difference(listed.text.sums, rules)
    limits = settings.limits(asks=fetch is not None)
    at = 0
    while at < 2 * len(rules):
        at, facts, rows, landed = _try_rules(listed.searched, rules, before, kept, at, limits)
        valid += _told_rules(listed, rules, facts, rows, landed)
        if at < 2 * len(rules):
            found = validate_rule(*_sides(listed.text.data, rules, at), listed, limits, fetch)
            kept[at // 2] = found is not None
            valid += [found] if found is not None else []
            at += 2 - at % 2 if found is not None else 1
    return valid


def _told_rules(listed: UrlList, rules: I64s, facts: I64s, rows: Ints, landed: Ints) -> list[DustRule]:
    """What compiled code has found valid."""
    told, begin, text = [], 0, listed.text
    for side, right, wrong, url, scope, end in facts.tolist():
        within = text.piece(int(text.starts[url]) + 1, scope - 1).decode()
        rewrite = _as_rewrite(*_sides(text.data, rules, side), within)
        told.append(DustRule(rewrite, right, wrong, rows[begin:end], landed[begin:end]))
        begin = end
    return told


@njit(cache=True)
def _sides(data: Bytes, rules: I64s, side: int) -> tuple[Bytes, Bytes]:
    """What to find and what to put there. Sides are numbered: α → β of rule i is 2 i, β → α 2 i + 1."""
    rule = rules[side // 2]
    alpha = data[rule[A_START] : rule[A_START] + rule[A_LENGTH]]
    beta = data[rule[B_START] : rule[B_START] + rule[B_LENGTH]]
    return (alpha, beta) if side % 2 == 0 else (beta, alpha)


@njit(cache=True)
def _try_rules(
    searched: Searched, rules: I64s, before: I64s, kept: npt.NDArray[np.bool_], at: int, limits: Limits
) -> tuple[int, I64s, Ints, Ints]:
    """Tries sides of rules up to one that is open: where that is, and of the valid ones before it the facts, the rows
    and what these become. Most rules are refuted by the known URLs alone."""
    facts, count = np.zeros((len(rules), 6), np.int64), 0
    rows, landed, used = np.zeros(1024, np.int32), np.zeros(1024, np.int32), 0
    while at < 2 * len(rules):
        if at % 2 == 0 and _is_refinement(searched.data, rules, before, kept, at // 2):
            at += 2
            continue
        find, put = _sides(searched.data, rules, at)
        if not _can_be_deployed(find, put):
            at += 1
            continue
        verdict, fact, found, outcomes = _tried(searched, find, put, limits)
        if verdict == OPEN:
            break
        if verdict == VALID:
            rows, landed = _with_room(rows, used, len(found)), _with_room(landed, used, len(found))
            rows[used : used + len(found)], landed[used : used + len(found)] = found, outcomes
            used += len(found)
            facts[count] = fact
            facts[count, F_SIDE], facts[count, F_END] = at, used
            count += 1
            kept[at // 2] = True
        at += 2 - at % 2 if verdict == VALID else 1
    return at, facts[:count], rows[:used], landed[:used]


@njit(cache=True)
def _with_room(buffer: Ints, used: int, more: int) -> Ints:
    if used + more <= len(buffer):
        return buffer
    larger = np.zeros(2 * (used + more), np.int32)
    larger[:used] = buffer[:used]
    return larger


@njit(cache=True)
def _tried(searched: Searched, find: Bytes, put: Bytes, limits: Limits) -> tuple[int, I64s, Ints, Ints]:
    """The same as `validate_rule` by the known URLs alone: verdict, facts, the URLs in the scope that the rule finds
    something in, and what they become."""
    data, starts, ends = searched.data, searched.starts, searched.ends
    fact, nothing = np.zeros(6, np.int64), np.zeros(0, np.int32)
    rows, relations, found, landed, refuted = _found_outcomes(searched, find, put, limits, not limits.asks)
    right, undecided, first, last = _right_outcomes(rows, relations)
    if refuted or (right < limits.ms and not undecided):
        return REFUTED, fact, nothing, nothing
    if undecided or limits.asks:
        return OPEN, fact, nothing, nothing
    positive, negative = _counted_inside(searched, rows, relations, first, last, limits)
    if positive < limits.ms or negative > limits.bound * (positive + negative):
        return REFUTED, fact, nothing, nothing
    scope = _scope_length(searched, first, last)
    fact[F_RIGHT], fact[F_URL], fact[F_SCOPE] = right, first, scope
    for i in range(len(rows)):
        fact[F_WRONG] += relations[i] == UNLIKE and _is_inside(data, starts, ends, rows[i], first, last, scope)
    inside = np.zeros(len(found), np.bool_)
    for i in range(len(found)):
        inside[i] = _is_inside(data, starts, ends, found[i], first, last, scope)
    return VALID, fact, found[inside], landed[inside]


@njit(cache=True)
def _right_outcomes(rows: Ints, relations: npt.NDArray[np.int8]) -> tuple[int, int, int, int]:
    """How many outcomes are right, how many undecided; the first and the last URL with a right one."""
    right, undecided, first, last = 0, 0, 1 << 31, -1
    for i in range(len(rows)):
        undecided += relations[i] == UNDECIDED
        if relations[i] == ALIKE:
            right, first, last = right + 1, min(first, int(rows[i])), max(last, int(rows[i]))
    return right, undecided, first, last


@njit(cache=True)
def _counted_inside(
    searched: Searched, rows: Ints, relations: npt.NDArray[np.int8], first: int, last: int, limits: Limits
) -> tuple[int, int]:
    """Right and wrong outcomes in the scope of what is right, until either are enough to tell."""
    positive, negative = 0, 0
    data, starts, ends = searched.data, searched.starts, searched.ends
    scope = _scope_length(searched, first, last) if last >= 0 else 0
    for i in range(len(rows)):
        if relations[i] == ALIKE:
            positive += 1
        elif relations[i] == UNLIKE and last >= 0:
            negative += _is_inside(data, starts, ends, rows[i], first, last, scope)
        if positive >= limits.enough or negative >= limits.too_many:
            break
    return positive, negative


@njit(cache=True)
def _is_refuted_already(searched: Searched, rows: Ints, relations: npt.NDArray[np.int8], limits: Limits) -> bool:
    """Whether the first outcomes refute a rule whatever comes after them: more right ones only widen its scope."""
    _, undecided, first, last = _right_outcomes(rows, relations)
    if undecided or last < 0:
        return False
    positive, negative = _counted_inside(searched, rows, relations, first, last, limits)
    return bool(positive < limits.enough and negative >= limits.too_many)


@njit(cache=True)
def _scope_length(searched: Searched, first: int, last: int) -> int:
    """How many bytes two URLs have in common, with the frame's first, up to a slash."""
    length = _shared_start(searched.data, searched.starts, searched.ends, first, last)
    while length > 1 and searched.data[searched.starts[first] + length - 1] != _SLASH:
        length -= 1
    return length


@njit(cache=True, inline="always")
def _is_inside(data: Bytes, starts: I64s, ends: I64s, row: int, first: int, last: int, scope: int) -> bool:
    """Whether a URL begins with the scope of two: URLs are in order, so all between them do."""
    inside = first <= row <= last
    if not inside and ends[row] - starts[row] >= scope:
        inside = _same(data, starts[row], starts[first], scope)
    return bool(inside)


@njit(cache=True)
def _last_with_same_difference(sums: U64s, rules: I64s) -> I64s:
    following = _next_with_same_difference(sums, rules)
    before = np.full(len(rules), -1, np.int64)
    for i in range(len(rules)):
        if following[i] >= 0:
            before[following[i]] = i
    return before


@njit(cache=True)
def _is_refinement(data: Bytes, rules: I64s, before: I64s, kept: npt.NDArray[np.bool_], rule: int) -> bool:
    """Whether a rule refines one of those that are kept."""
    other = before[rule]
    while other >= 0:
        grown = rules[rule, A_LENGTH] - rules[other, A_LENGTH]
        alike = kept[other] and grown > 0 and rules[rule, B_LENGTH] - rules[other, B_LENGTH] == grown
        if alike and _refines(data, rules[rule], rules[other]):
            return True
        other = before[other]
    return False


class Outcomes(NamedTuple):
    """The URLs that a rule changes, by their rows, in an order that has nothing to do with their text; what is known of
    each and its outcome; and all URLs that the rule finds something in, with what they become (DustRule)."""

    rows: Ints
    relations: npt.NDArray[np.int8]
    found: Ints
    landed: Ints


def validate_rule(
    find: Bytes, put: Bytes, listed: UrlList, limits: Limits, fetch: Fetch | None = None
) -> DustRule | None:
    """ValidateRule, against the known URLs first; the fetcher is only asked about outcomes that are not known."""
    if not _can_be_deployed(find, put):
        return None
    rows, relations, found, landed = _outcomes(find, put, listed, limits)
    right = rows[relations == ALIKE]
    if len(right) < limits.ms:
        return None
    rewrite = _as_rewrite(find, put, _common_directory(listed, int(right.min()), int(right.max())))
    begin = bisect_left(listed.urls, rewrite.scope)
    end = bisect_left(listed.urls, rewrite.scope + chr(0x10FFFF))
    inside = (rows >= begin) & (rows < end)
    rows, relations = rows[inside], relations[inside]
    if fetch is not None:
        relations = _with_fetched(rewrite, rows, relations, listed, fetch, limits.asked_max)
    positive, negative = _counted(relations, limits.enough, limits.too_many)
    if positive < limits.ms or negative > limits.bound * (positive + negative):
        return None
    rights, wrong = (int(np.count_nonzero(relations == relation)) for relation in (ALIKE, UNLIKE))
    inside = (found >= begin) & (found < end)
    return DustRule(rewrite, rights, wrong, found[inside], landed[inside])


@njit(cache=True)
def _counted(relations: npt.NDArray[np.int8], enough: float, too_many: float) -> tuple[int, int]:
    """Right and wrong outcomes until either are enough to tell."""
    positive, negative = 0, 0
    for relation in relations:
        positive += relation == ALIKE
        negative += relation == UNLIKE
        if positive >= enough or negative >= too_many:
            break
    return positive, negative


def _with_fetched(
    rewrite: SubstringRewrite, rows: Ints, relations: npt.NDArray[np.int8], listed: UrlList, fetch: Fetch, count: int
) -> npt.NDArray[np.int8]:
    """A page that cannot be fetched tells nothing; an outcome that cannot be fetched is wrong. Equal sizes are only a
    hint: where nothing else is known, pages of equal size are fetched, too."""
    from dustream.core.rules.rewrite import replaced

    is_open = (relations == UNKNOWN) | ((relations == ALIKE) & (not listed.by_sketch))
    told = np.where(is_open, UNKNOWN, relations).astype(np.int8)
    for i in np.flatnonzero(is_open)[:count].tolist():
        url = listed.urls[rows[i]]
        outcome = replaced(rewrite, url)
        sketch = int(listed.sketches[rows[i]])
        source = listed.names[sketch] if listed.names and sketch >= 0 else fetch(url)
        if source is not None and outcome is not None:
            told[i] = ALIKE if fetch(standard_form(outcome)) == source else UNLIKE
    return told


def _outcomes(find: Bytes, put: Bytes, listed: UrlList, limits: Limits) -> Outcomes:
    """Every URL that the rule changes, and whether it and what it becomes are alike."""
    rows, relations, found, landed, _ = _found_outcomes(listed.searched, find, put, limits, False)
    outcomes = Outcomes(rows, relations, found, landed)
    return _decided(_as_rewrite(find, put, ""), outcomes, listed) if (relations == UNDECIDED).any() else outcomes


def _decided(rewrite: SubstringRewrite, outcomes: Outcomes, listed: UrlList) -> Outcomes:
    """With the standard form of the outcomes that may have another."""
    from dustream.core.rules.rewrite import replaced

    rows, relations = outcomes.rows, outcomes.relations.copy()
    changed = np.ones(len(rows), np.bool_)
    for i in np.flatnonzero(relations == UNDECIDED).tolist():
        url = listed.urls[rows[i]]
        after = replaced(rewrite, url)
        standard = url if after is None else standard_form(after)
        changed[i] = standard != url
        relations[i] = listed.relation(int(rows[i]), standard)
    return outcomes._replace(rows=rows[changed], relations=relations[changed])


@njit(cache=True, inline="always")
def _relation(u: int, v: int, by_sketch: bool, sketches: I64s, low: I64s, high: I64s) -> int:
    if by_sketch:
        known, alike = sketches[u] >= 0 and sketches[v] >= 0, sketches[u] == sketches[v]
    else:
        known, alike = low[u] >= 0 and low[v] >= 0, low[u] <= high[v] and low[v] <= high[u]
    return (ALIKE if alike else UNLIKE) if known else UNKNOWN


@njit(cache=True)
def _found_outcomes(
    searched: Searched, find: Bytes, put: Bytes, limits: Limits, may_stop: bool
) -> tuple[Ints, npt.NDArray[np.int8], Ints, Ints, bool]:
    """The fields of Outcomes; and whether it stopped because these refute the rule already."""
    data, starts, ends, url_at = searched.data, searched.starts, searched.ends, searched.url_at
    prefix, powers, slots, hashes = searched.prefix, searched.powers, searched.slots, searched.hashes
    by_sketch, sketches, low, high = searched.by_sketch, searched.sketches, searched.low, searched.high
    best, tried = _tried_places(searched, find)
    found, landed = np.zeros(len(tried), np.int32), np.full(len(tried), -1, np.int32)
    rows = np.zeros(min(len(tried), OUTCOMES_MAX), np.int32)
    relations = np.zeros(len(rows), np.int8)
    put_hash, put_is_safe = text_hash(put), is_safe_piece(put) and is_safe_piece(find)
    found_count, used, looked_at = 0, 0, LOOKED_AT_FIRST
    for place in tried:
        url = int(url_at[place])
        at = int(place) - best if len(find) >= GRAM else _first_place(data, starts, ends, find, url)
        is_known = found_count and found[found_count - 1] == url
        if is_known or not _is_at(data, starts, ends, find, url, at):
            continue
        found[found_count] = url
        found_count += 1
        if used == OUTCOMES_MAX:
            continue
        hashed = _outcome_hash(prefix, powers, starts, ends, url, at, len(find), len(put), put_hash)
        outcome = first_entry(hashed, slots, hashes)
        landed[found_count - 1] = outcome
        if outcome == url:
            continue
        if outcome >= 0:
            relations[used] = _relation(url, int(outcome), by_sketch, sketches, low, high)
        else:
            path = searched.path_starts[url]
            is_standard = _stays_standard(data, starts[url], ends[url], path, at, len(find), put, put_is_safe)
            relations[used] = UNKNOWN if is_standard else UNDECIDED
        rows[used] = url
        used += 1
        if may_stop and used == looked_at:
            if _is_refuted_already(searched, rows[:used], relations[:used], limits):
                return rows[:used], relations[:used], found[:found_count], landed[:found_count], True
            looked_at *= 2
    order = np.argsort(found[:found_count])
    return rows[:used], relations[:used], found[order], landed[order], False


@njit(cache=True)
def _tried_places(searched: Searched, find: Bytes) -> tuple[int, I64s]:
    """Where a text may be, URL after URL, spread: at the places of its rarest sequence of three bytes, less the offset
    of that; from the left within a URL. Shorter texts may be in any URL: the beginning of each."""
    if len(find) < GRAM:
        return 0, searched.starts[searched.spread]
    best, best_count = 0, len(searched.data) + 1
    for at in range(len(find) - GRAM + 1):
        bucket = gram_bucket(find, at)
        count = searched.bounds[bucket + 1] - searched.bounds[bucket]
        if count < best_count:
            best, best_count = at, count
    bucket = gram_bucket(find, best)
    return best, searched.places[searched.bounds[bucket] : searched.bounds[bucket + 1]].astype(np.int64)


@njit(cache=True, inline="always")
def _first_place(data: Bytes, starts: I64s, ends: I64s, find: Bytes, url: int) -> int:
    """Where a text of one or two bytes is in a URL first, or where it cannot be."""
    first, last = starts[url], ends[url] - len(find) + 1
    while first < last and not (data[first] == find[0] and data[first + len(find) - 1] == find[-1]):
        first += 1
    return int(first)


@njit(cache=True, inline="always")
def _is_at(data: Bytes, starts: I64s, ends: I64s, find: Bytes, url: int, at: int) -> bool:
    """Whether a text is at this place of a URL."""
    same = 0
    if at >= starts[url] and at + len(find) <= ends[url]:
        while same < len(find) and data[at + same] == find[same]:
            same += 1
    return same == len(find)


@njit(cache=True, inline="always")
def _outcome_hash(
    prefix: U64s, powers: U64s, starts: I64s, ends: I64s, url: int, at: int, length: int, put: int, put_hash: np.uint64
) -> np.uint64:
    """Of what a URL becomes when so many bytes at this place are replaced by so many others."""
    base, begin, rest = starts[url] + url, at - starts[url], ends[url] - at - length
    hashed = (prefix[base + begin] * powers[put] + put_hash) * powers[rest]
    return np.uint64(hashed + span(prefix, powers, base, begin + length, rest))


@njit(cache=True)
def _stays_standard(
    data: Bytes, start: int, end: int, path: int, at: int, length: int, put: Bytes, is_safe: bool
) -> bool:
    """Whether a URL is certainly in standard form after the replacement of so many bytes."""
    if is_safe and 0 <= path < at:
        before, after = data[at - 1], data[at + length]
        first = put[0] if len(put) else after
        last = put[len(put) - 1] if len(put) else before
        dotted = (before == 47 and first == 46) or (last == 47 and after == 46)
        return not dotted and not (before == 63 and len(put) == 0 and at + length == end - 1)
    outcome = np.concatenate((data[start:at], put, data[at + length : end]))
    return bool(path_start(outcome, np.int64(1), np.int64(len(outcome) - 1)) >= 0)


@njit(cache=True)
def _can_be_deployed(find: Bytes, put: Bytes) -> bool:
    """Not if there is nothing to find, or something that finds itself again in what it put."""
    framed = [_FRAME_START, _FRAME_END]
    if len(find) == 0 or (len(put) == 0 and (find[0] == framed[0] or find[-1] == framed[1])):
        return False
    if len(put) and (
        (find[0] == framed[0]) != (put[0] == framed[0]) or (find[-1] == framed[1]) != (put[-1] == framed[1])
    ):
        return False
    for at in range(len(put) - len(find) + 1):
        i = 0
        while i < len(find) and put[at + i] == find[i]:
            i += 1
        if i == len(find):
            return False
    return bool(len(find) > int(find[0] == framed[0]) + int(find[-1] == framed[1]))


def _as_rewrite(find: Bytes, put: Bytes, scope: str) -> SubstringRewrite:
    found, there = find.tobytes().decode(), put.tobytes().decode()
    frame = START + END
    return SubstringRewrite(scope, found.strip(frame), there.strip(frame), found.startswith(START), found.endswith(END))


def _common_directory(listed: UrlList, first: int, last: int) -> str:
    """The longest common beginning that ends with a slash, of all URLs between two in sorted order."""
    text = listed.text
    length = int(_shared_start(text.data, text.starts, text.ends, first, last))
    shared = text.piece(int(text.starts[first]) + 1, length - 1).decode(errors="ignore")
    return shared[: shared.rfind("/") + 1]


@njit(cache=True)
def _shared_start(data: Bytes, starts: I64s, ends: I64s, u: int, v: int) -> int:
    most = min(ends[u] - starts[u], ends[v] - starts[v])
    same = 0
    while same < most and data[starts[u] + same] == data[starts[v] + same]:
        same += 1
    return same
