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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dustream.core.rules.standard import standard_form
from dustream.schemas.rules import SubstringRewrite

URLS_MAX: Final = 20_000
URL_BYTES_MAX: Final = 512
RULE_SLOTS_MAX: Final = 1 << 22
RULE_SLOTS_PER_URL: Final = 128
RULES_MAX: Final = 30_000
SIZED_BUCKET_MAX: Final = 11
OUTCOMES_MAX: Final = 2_000
"""How many of the URLs a rule changes are looked at, in an order that has nothing to do with their text."""

START, END = "\x02", "\x03"
"""The `^` and `$` around every URL; neither can be in one."""

U64s = npt.NDArray[np.uint64]
I64s = npt.NDArray[np.int64]


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
    """A valid rule, with how often its outcome was known to be right or wrong within its scope."""

    rewrite: SubstringRewrite
    right: int
    wrong: int


@dataclass(frozen=True)
class DustFindings:
    """What each phase left. `truncated`: more kinds of rules were met than are counted."""

    detected: int
    remaining: int
    rules: list[DustRule]
    truncated: bool


Fetch = Callable[[str], str | None]
"""Fetches a URL and gives its sketch, or None if that failed."""


class UrlList:
    """The URLs in standard form, one record each, cut to the size that is looked at."""

    def __init__(self, entries: Iterable[LoggedUrl]) -> None:
        merged: dict[str, LoggedUrl] = {}
        for entry in entries:
            url = standard_form(entry.url)
            if len(url.encode("utf-8", "surrogatepass")) <= URL_BYTES_MAX and START not in url and END not in url:
                merged[url] = _merged(merged.get(url), entry)
        # By sketch, not by URL: a sample that tears duplicates apart would show no rules.
        chosen = sorted(merged, key=lambda url: (*_spread(merged[url].sketch or url), url))[:URLS_MAX]
        self.urls = sorted(chosen)
        self.known = {url: merged[url] for url in self.urls}
        self.by_sketch = any(entry.sketch is not None for entry in self.known.values())
        numbers: dict[str | None, int] = {None: -1}
        self.sketches = np.array(
            [numbers.setdefault(self.known[url].sketch, len(numbers)) for url in self.urls], np.int64
        )
        self.low = np.array([self.known[url].size_min for url in self.urls], np.int64)
        self.high = np.array([self.known[url].size_max for url in self.urls], np.int64)

    def alike(self, a: str, b: str) -> bool | None:
        """Whether two URLs are likely similar; None if one is not known."""
        x, y = self.known.get(a), self.known.get(b)
        if x is None or y is None:
            return None
        if self.by_sketch:
            return None if x.sketch is None or y.sketch is None else x.sketch == y.sketch
        return None if min(x.size_min, y.size_min) < 0 else x.size_min <= y.size_max and y.size_min <= x.size_max


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
    """All phases."""
    listed = UrlList(entries)
    settings = settings or DustSettings()
    if not listed.by_sketch:
        settings = settings._replace(bucket_max=max(settings.bucket_max, SIZED_BUCKET_MAX))
    detected, truncated = detect_likely_rules(listed, settings)
    remaining = eliminate_redundancies(detected, settings)
    return DustFindings(len(detected), len(remaining), validate(remaining, listed, settings, fetch), truncated)


# ---------------------------------------------------------------- detect


def detect_likely_rules(listed: UrlList, settings: DustSettings) -> tuple[list[RulePair], bool]:
    """DetectLikelyRules: pairs with support of at least MS, the largest support first; and whether some were lost."""
    framed = [(START + url + END).encode("utf-8", "surrogatepass") for url in listed.urls]
    if len(framed) < 2:
        return [], False
    text = np.frombuffer(b"".join(framed), np.uint8)
    ends = np.cumsum([len(url) for url in framed]).astype(np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    by_text = np.array(sorted(range(len(framed)), key=framed.__getitem__), np.int64)
    by_end = np.array(sorted(range(len(framed)), key=lambda i: framed[i][::-1]), np.int64)
    shared = _shared_with_next(text, starts, ends, by_text, False)
    suffix_max = _shared_with_any(by_end, _shared_with_next(text, starts, ends, by_end, True))
    prefix, powers = _prefix_hashes(text, starts, ends)
    # Most sites are small, and have few rules: a table that turns out too small is thrown away for a larger one.
    slots = min(RULE_SLOTS_MAX, 1 << (RULE_SLOTS_PER_URL * len(framed)).bit_length())
    while True:
        table = _new_rule_table(slots)
        full = _gather_instances(
        prefix, powers, starts, ends, by_text, shared, suffix_max, listed.sketches, listed.low, listed.high,
        listed.by_sketch, settings.substring_max, settings.bucket_max, *table,
    )  # fmt: skip
        if not full or slots == RULE_SLOTS_MAX:
            return _rule_table(table, framed, settings.ms), bool(full)
        slots = min(RULE_SLOTS_MAX, slots * 8)


def _new_rule_table(slots: int) -> tuple[U64s, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Keys, support, and one instance: (URL, start, length) of α and of β."""
    return np.zeros(slots, np.uint64), np.zeros(slots, np.int32), np.zeros((slots, 6), np.int32)


def _rule_table(
    table: tuple[U64s, npt.NDArray[np.int32], npt.NDArray[np.int32]], framed: list[bytes], ms: int
) -> list[RulePair]:
    _, support, places = table
    rules = []
    for slot in np.flatnonzero(support >= ms):
        a, a_start, a_length, b, b_start, b_length = places[slot].tolist()
        alpha, beta = framed[a][a_start : a_start + a_length], framed[b][b_start : b_start + b_length]
        if (len(alpha), alpha) < (len(beta), beta):
            alpha, beta = beta, alpha
        rules.append((int(support[slot]), alpha, beta))
    rules.sort(key=lambda rule: (-rule[0], -len(rule[1]), rule[1], rule[2]))
    decoded = []
    for count, alpha, beta in rules[: 2 * RULES_MAX]:
        try:
            decoded.append(RulePair(alpha.decode(), beta.decode(), count))
        except UnicodeDecodeError:
            continue  # cut within a character: the same rule is there with whole characters, too
    return decoded[:RULES_MAX]


@njit(cache=True)
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _prefix_hashes(text: npt.NDArray[np.uint8], starts: I64s, ends: I64s) -> tuple[U64s, U64s]:
    """Polynomial hashes of all prefixes, one slot more per URL than it has bytes; and the powers of the base."""
    base = np.uint64(0x9E3779B97F4A7C15)
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    powers = np.ones(longest + 1, np.uint64)
    for i in range(longest):
        powers[i + 1] = powers[i] * base
    prefix = np.zeros(len(text) + len(starts), np.uint64)
    for i in range(len(starts)):
        at = starts[i] + i
        for j in range(ends[i] - starts[i]):
            prefix[at + j + 1] = prefix[at + j] * base + np.uint64(text[starts[i] + j]) + np.uint64(1)
    return prefix, powers


@njit(cache=True)
def _span(prefix: U64s, powers: U64s, at: int, start: int, length: int) -> np.uint64:
    """The hash of a substring of the URL whose prefixes begin at `at`."""
    return np.uint64(prefix[at + start + length] - prefix[at + start] * powers[length])


@njit(cache=True)
def _shared_with_next(
    text: npt.NDArray[np.uint8], starts: I64s, ends: I64s, order: I64s, from_end: bool
) -> npt.NDArray[np.int32]:
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


def _shared_with_any(order: I64s, shared: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Per URL: the longest that it has in common with any other, which is one of its neighbours in sorted order."""
    longest = np.zeros(len(order), np.int32)
    longest[order] = np.maximum(shared, np.concatenate((np.zeros(1, np.int32), shared[:-1])))
    return longest


@njit(cache=True)
def _gather_instances(
    prefix: U64s,
    powers: U64s,
    starts: I64s,
    ends: I64s,
    by_text: I64s,
    shared: npt.NDArray[np.int32],
    suffix_max: npt.NDArray[np.int32],
    sketches: I64s,
    low: I64s,
    high: I64s,
    by_sketch: bool,
    substring_max: int,
    bucket_max: int,
    keys: U64s,
    support: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
) -> bool:
    """All buckets, prefix by prefix: URLs with a common prefix are neighbours in sorted order, so the substring table
    never exists as a whole. True if the rule table is full."""
    full = False
    longest = len(powers) - 1
    for depth in range(longest):
        begin = 0
        while begin < len(by_text):
            end = begin + 1
            while end < len(by_text) and shared[end - 1] >= depth:
                end += 1
            if end - begin > 1:
                group = by_text[begin:end]
                if not by_sketch or _has_equal(sketches[group]):
                    full |= _buckets_of_prefix(
                        prefix, powers, starts, ends, group, depth, suffix_max, sketches, low, high, by_sketch,
                        substring_max, bucket_max, keys, support, places,
                    )  # fmt: skip
                    if full and len(keys) < RULE_SLOTS_MAX:
                        return True
            begin = end
    return full


@njit(cache=True)
def _has_equal(sketches: I64s) -> bool:
    """Whether any two known sketches are equal."""
    ordered = np.sort(sketches)
    return bool(np.any((ordered[1:] >= 0) & (ordered[1:] == ordered[:-1])))


@njit(cache=True)
def _buckets_of_prefix(
    prefix: U64s,
    powers: U64s,
    starts: I64s,
    ends: I64s,
    group: I64s,
    depth: int,
    suffix_max: npt.NDArray[np.int32],
    sketches: I64s,
    low: I64s,
    high: I64s,
    by_sketch: bool,
    substring_max: int,
    bucket_max: int,
    keys: U64s,
    support: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
) -> bool:
    """The buckets of one prefix: entries sorted by suffix. The low bits of an entry say whose it is."""
    room = len(group) * (substring_max + 1)
    entries = np.zeros(room, np.uint64)
    bits = 1
    while (1 << bits) < room:
        bits += 1
    low_bits = np.uint64((1 << bits) - 1)
    used = 0
    for i in range(len(group)):
        url = group[i]
        at, size = starts[url] + url, ends[url] - starts[url]
        for length in range(min(substring_max, size - depth) + 1):
            rest = size - depth - length
            if rest <= suffix_max[url]:
                suffix = _mix(_span(prefix, powers, at, depth + length, rest) + np.uint64(rest))
                entries[used] = (suffix & ~low_bits) | np.uint64(i * (substring_max + 1) + length)
                used += 1
    ordered = np.sort(entries[:used])
    full = False
    begin = 0
    while begin < used:
        end = begin + 1
        while end < used and (ordered[end] & ~low_bits) == (ordered[begin] & ~low_bits):
            end += 1
        if 1 < end - begin <= bucket_max:
            for i in range(begin, end):
                for j in range(i + 1, end):
                    x, y = int(ordered[i] & low_bits), int(ordered[j] & low_bits)
                    u, v = group[x // (substring_max + 1)], group[y // (substring_max + 1)]
                    if by_sketch:
                        similar = sketches[u] >= 0 and sketches[u] == sketches[v]
                    else:
                        similar = low[u] >= 0 and low[v] >= 0 and low[u] <= high[v] and low[v] <= high[u]
                    if similar and u != v:
                        a_length, b_length = x % (substring_max + 1), y % (substring_max + 1)
                        a = _mix(_span(prefix, powers, starts[u] + u, depth, a_length) + np.uint64(a_length))
                        b = _mix(_span(prefix, powers, starts[v] + v, depth, b_length) + np.uint64(b_length))
                        key = (_mix(a) ^ _mix(b)) | np.uint64(1)
                        full |= _count_rule(keys, support, places, key, u, v, depth, a_length, b_length)
        begin = end
    return full


@njit(cache=True)
def _count_rule(
    keys: U64s,
    support: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    key: np.uint64,
    u: int,
    v: int,
    depth: int,
    a_length: int,
    b_length: int,
) -> bool:
    """One more instance of a rule; True if its place in the table could not be found in a bounded search."""
    slot = np.int64(_mix(key) & np.uint64(len(keys) - 1))
    for _ in range(64):
        if keys[slot] == key:
            support[slot] += 1
            return False
        if keys[slot] == 0:
            keys[slot] = key
            support[slot] = 1
            places[slot, 0], places[slot, 1], places[slot, 2] = u, depth, a_length
            places[slot, 3], places[slot, 4], places[slot, 5] = v, depth, b_length
            return False
        slot = (slot + 1) & (len(keys) - 1)
    return True


# ---------------------------------------------------------------- eliminate


def refines(inner: RulePair, outer: RulePair) -> bool:
    """Whether `inner` = γ`outer`δ: the same substitution in a narrower context."""
    grown = len(inner.alpha) - len(outer.alpha)
    if grown <= 0 or len(inner.beta) - len(outer.beta) != grown:
        return False
    at = inner.alpha.find(outer.alpha)
    while at >= 0:
        if inner.beta == inner.alpha[:at] + outer.beta + inner.alpha[at + len(outer.alpha) :]:
            return True
        at = inner.alpha.find(outer.alpha, at + 1)
    return False


def eliminate_redundancies(rules: Sequence[RulePair], settings: DustSettings) -> list[RulePair]:
    """EliminateRedundancies, over rules sorted by support: within a window of MW rules and MRD or MAD of support."""
    texts = [text.encode() for rule in rules for text in (rule.alpha, rule.beta)]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64).reshape(-1, 2)
    supports = np.array([rule.support for rule in rules], np.int64)
    alive = _alive(np.frombuffer(b"".join(texts), np.uint8), ends, supports, settings.mrd, settings.mad, settings.mw)
    return [rule for rule, stays in zip(rules, alive.tolist(), strict=True) if stays]


@njit(cache=True)
def _alive(
    text: npt.NDArray[np.uint8], ends: I64s, supports: I64s, mrd: float, mad: int, mw: int
) -> npt.NDArray[np.bool_]:
    """Which rules are not redundant. `ends`: where the texts of α and β end, one after the other."""
    count = len(supports)
    alive = np.ones(count, np.bool_)
    starts = np.zeros(count + 1, np.int64)
    starts[1:] = ends[:, 1]
    alphas = ends[:, 0] - starts[:count]
    betas = ends[:, 1] - ends[:, 0]
    for i in range(count):
        j = i + 1
        lowest = supports[i] - max(mrd * supports[i], mad)
        while alive[i] and j < min(count, i + 1 + mw) and supports[j] >= lowest:
            grown = alphas[i] - alphas[j]
            if alive[j] and betas[i] - betas[j] == grown:
                if grown > 0 and _refines(text, starts[i], alphas[i], betas[i], starts[j], alphas[j], betas[j]):
                    alive[j] = False
                elif grown < 0 and _refines(text, starts[j], alphas[j], betas[j], starts[i], alphas[i], betas[i]):
                    alive[i] = False
            j += 1
    return alive


@njit(cache=True)
def _refines(
    text: npt.NDArray[np.uint8], inner: int, inner_alpha: int, inner_beta: int, outer: int, alpha: int, beta: int
) -> bool:
    """`refines` over bytes: each rule is α and β in a row, with their lengths."""
    after = inner + inner_alpha
    for at in range(inner_alpha - alpha + 1):
        rest = inner_alpha - alpha - at
        if (
            _same(text, inner + at, outer, alpha)
            and _same(text, after, inner, at)
            and _same(text, after + at, outer + alpha, beta)
            and _same(text, after + at + beta, inner + at + alpha, rest)
        ):
            return True
    return False


@njit(cache=True)
def _same(text: npt.NDArray[np.uint8], a: int, b: int, length: int) -> bool:
    i = 0
    while i < length and text[a + i] == text[b + i]:
        i += 1
    return i == length


# ---------------------------------------------------------------- validate


def validate(
    rules: Sequence[RulePair], listed: UrlList, settings: DustSettings, fetch: Fetch | None = None
) -> list[DustRule]:
    """Validate: rules by support; what refines a rule that is already in is not tried; shrinking goes first."""
    valid: list[DustRule] = []
    kept: list[RulePair] = []
    by_shape: dict[int, list[RulePair]] = {}
    joined = "\n".join(START + url + END for url in sorted(listed.urls, key=_spread))
    for rule in rules:
        shape = len(rule.alpha) - len(rule.beta)
        if any(refines(rule, other) for other in by_shape.get(shape, ())):
            continue
        for find, put in ((rule.alpha, rule.beta), (rule.beta, rule.alpha)):
            found = validate_rule(find, put, listed, joined, settings, fetch)
            if found is not None:
                valid.append(found)
                kept.append(rule)
                by_shape.setdefault(shape, []).append(rule)
                break
    return valid


def validate_rule(
    find: str, put: str, listed: UrlList, joined: str, settings: DustSettings, fetch: Fetch | None
) -> DustRule | None:
    """ValidateRule, against the known URLs first; the fetcher is only asked about outcomes that are not known."""
    rewrite = _as_rewrite(find, put)
    if rewrite is None:
        return None
    outcomes = _outcomes(rewrite, find, listed, joined)
    right = [url for url, _, alike in outcomes if alike]
    if len(right) < settings.ms:
        return None
    scoped = SubstringRewrite(_common_directory(right), rewrite.find, rewrite.put, rewrite.at_start, rewrite.at_end)
    outcomes = [outcome for outcome in outcomes if outcome[0].startswith(scoped.scope)]
    positive, negative = _counted(outcomes, listed, settings, fetch)
    if positive < settings.ms or negative > settings.refutation_bound * (positive + negative):
        return None
    wrong = sum(alike is False for _, _, alike in outcomes)
    return DustRule(scoped, len(right), wrong)


def _counted(
    outcomes: list[tuple[str, str, bool | None]], listed: UrlList, settings: DustSettings, fetch: Fetch | None
) -> tuple[int, int]:
    positive = negative = 0
    for url, outcome, alike in outcomes:
        if alike is None and fetch is not None:
            alike = _fetched_alike(url, outcome, listed, fetch)
        positive += alike is True
        negative += alike is False
        if positive >= (1 - settings.refutation_bound) * settings.validation_count:
            break
        if negative >= settings.refutation_bound * settings.validation_count:
            break
    return positive, negative


def _fetched_alike(url: str, outcome: str, listed: UrlList, fetch: Fetch) -> bool | None:
    """A page that cannot be fetched tells nothing; an outcome that cannot be fetched is wrong."""
    entry = listed.known[url]
    source = entry.sketch if entry.sketch is not None else fetch(url)
    return None if source is None else fetch(outcome) == source


def _outcomes(rewrite: SubstringRewrite, find: str, listed: UrlList, joined: str) -> list[tuple[str, str, bool | None]]:
    """Every URL that the rule changes, what it becomes, and whether the two are alike."""
    from dustream.core.rules.rewrite import replaced

    outcomes: list[tuple[str, str, bool | None]] = []
    at = joined.find(find)
    while at >= 0 and len(outcomes) < OUTCOMES_MAX:
        start = joined.rfind(START, 0, at + 1)
        end = joined.find(END, start)
        url = joined[start + 1 : end]
        after = replaced(rewrite, url)
        if after is not None and (standard := standard_form(after)) != url:
            outcomes.append((url, standard, listed.alike(url, standard)))
        at = joined.find(find, end + 1)
    return outcomes


def _as_rewrite(find: str, put: str) -> SubstringRewrite | None:
    """None for what cannot be deployed: nothing to find, or something that finds itself again in what it put."""
    if not find or find in put or (find.startswith(START) != put.startswith(START)):
        return None
    if find.endswith(END) != put.endswith(END):
        return None
    rewrite = SubstringRewrite(
        "", find.strip(START + END), put.strip(START + END), find.startswith(START), find.endswith(END)
    )
    return rewrite if rewrite.find else None


def _common_directory(urls: list[str]) -> str:
    """The longest common beginning that ends with a slash."""
    first, last = min(urls), max(urls)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, length) + 1]
