"""DustBuster, phase 1: all substrings up to a length with their envelopes (prefix, suffix); substrings with one
envelope form a bucket; likely-similar pairs in small buckets are instances of a rule; a rule has large support."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.arrays import ascending, largest, stable_order
from dustream.core.kernels.compile import inner, kernel, merged
from dustream.core.kernels.hash_slots import NO_KEY, NOT_FOUND, Ints, find_key, find_key_within, slot_count
from dustream.core.kernels.mix64 import mix64
from dustream.core.rules.dust_list import (
    A_LENGTH,
    A_START,
    B_LENGTH,
    B_START,
    SUPPORT,
    DustSettings,
    RulePair,
    UrlList,
)
from dustream.core.rules.framed_text import (
    Bytes,
    FramedText,
    I64s,
    U64s,
    span,
)

RULE_SLOTS_MAX: Final = 1 << 22
RULE_SLOTS_PER_URL: Final = 16
PROBES_MAX: Final = 64
RULES_MAX: Final = 30_000
MATES_MAX: Final = 128
"""URLs with one sketch, where they are compared pair by pair before their substrings are."""


class Likely(NamedTuple):
    """A list in the form that detection needs: its text, which URLs can be instances, when two
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
    detected, truncated = detected_rules(listed, settings)
    return _rule_pairs(listed.text, detected), truncated


def _rule_pairs(text: FramedText, rules: I64s) -> list[RulePair]:
    return [
        RulePair(text.piece(a, a_length).decode(), text.piece(b, b_length).decode(), support)
        for a, a_length, b, b_length, support in rules.tolist()
    ]


def detected_rules(listed: UrlList, settings: DustSettings) -> tuple[I64s, bool]:
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
    if listed.wanted is not None:
        return listed.wanted
    if not listed.by_sketch:
        return np.ones(len(listed.urls), np.bool_)
    wanted = np.zeros(len(listed.urls), np.bool_)
    rows = mates(listed.sketches)
    wanted[rows] = wanted_mates([listed.urls[row] for row in rows.tolist()], listed.sketches[rows], settings)
    return wanted


def mates(sketches: I64s | Ints) -> I64s:
    """The rows whose sketch another row has, too."""
    counts = np.bincount(sketches[sketches >= 0], minlength=1)
    return np.flatnonzero((sketches >= 0) & (counts[np.maximum(sketches, 0)] > 1))


def wanted_mates(urls: list[str], sketches: I64s, settings: DustSettings) -> npt.NDArray[np.bool_]:
    """Which of these URLs, each of which has a mate, can be instances of rules. No other URL needs to be looked at."""
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
    rules = rules[sorted_rules(text.data, rules)]
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


@kernel
def sorted_rules(data: Bytes, rules: I64s) -> I64s:
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


@merged
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


@merged
def _compared(data: Bytes, a: int, a_length: int, b: int, b_length: int) -> np.int64:
    same, most = 0, min(a_length, b_length)
    while same < most and data[a + same] == data[b + same]:
        same += 1
    return np.int64(data[a + same]) - np.int64(data[b + same]) if same < most else np.int64(a_length - b_length)


@kernel
def _wanted(
    data: Bytes, starts: I64s, ends: I64s, prefix: U64s, powers: U64s, sums: U64s, sketches: I64s, longest: int, ms: int
) -> npt.NDArray[np.bool_]:
    """Which URLs can be an instance of a rule with enough support.

    A rule has in all its instances one core: what is left of a pair without its common beginning and end. Where one
    side of the core is empty the other may be turned (`aba` in `cabac`), but has the same bytes, and one pair can be
    several instances. So pairs whose core is met too seldom are left out; unless so many URLs have one sketch that
    going through the pairs would take longer than it saves.
    """
    by_sketch = stable_order(sketches)
    bounds = _runs(sketches[by_sketch])
    mates = bounds[1:] - bounds[:-1]
    if len(mates) and largest(mates) > MATES_MAX:
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


@inner
def _runs(ordered: I64s) -> I64s:
    """Where the runs of equal known sketches begin and end in a row of them, unknown ones (−1) left out."""
    bounds, used = np.zeros(len(ordered) + 1, np.int64), 0
    for i in range(len(ordered)):
        if ordered[i] >= 0 and (i == 0 or ordered[i] != ordered[i - 1]):
            bounds[used] = i
            used += 1
    bounds[used] = len(ordered)
    return bounds[: used + 1]


@inner
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


@inner
def _counted_key(keys: U64s, counts: Ints, key: np.uint64, times: int) -> int:
    """The slot of the key, where it is counted."""
    slot = find_key(keys, key)
    keys[slot] = key
    counts[slot] += times
    return slot


@kernel
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


@kernel
def _gather_instances(
    likely: Likely, by_text: I64s, shared: Ints, by_end: I64s, shared_ends: Ints, table: RuleTable
) -> bool:
    """All buckets, prefix by prefix: URLs with a common prefix are neighbours in sorted order, so the substring table
    never exists as a whole; and as long as they have more bytes in common they are the same for the longer prefixes,
    too. True if the rule table is full."""
    full = False
    end_rank = np.zeros(len(by_end), np.int64)
    for rank in range(len(by_end)):
        end_rank[by_end[rank]] = rank
    seen = np.zeros(largest(likely.sketches) + 2, np.int64)
    groups, used = np.zeros((len(by_text), 3), np.int64), 1
    groups[0, 1] = len(by_text)
    while used:
        used -= 1
        begin, end, depth = groups[used]
        if likely.by_sketch and not _has_mates(by_text[begin:end], likely.wanted, likely.sketches, seen):
            continue
        deepest = int(shared[begin : end - 1].min())
        ranks = ascending(end_rank[by_text[begin:end]])
        full |= _buckets_of_prefix(
            likely, by_end[ranks], _shared_between(ranks, shared_ends), depth, deepest, seen, table
        )
        if full and len(table.keys) < RULE_SLOTS_MAX:
            return True
        used = _add_parts(groups, used, shared, begin, end, deepest)
    return full


@inner
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


@inner
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


@inner
def _shared_between(ranks: I64s, lowest: Ints) -> Ints:
    """How many bytes each URL has in common with the next, from the end; ranks are in the order from the end."""
    shared = np.zeros(len(ranks), np.int32)
    for i in range(len(ranks) - 1):
        shared[i] = _least(lowest, ranks[i], ranks[i + 1])
    return shared


@merged
def _least(lowest: Ints, begin: int, end: int) -> int:
    """Of the values from `begin` to before `end` (`_lowest`)."""
    level, width = 0, 1
    while 2 * width <= end - begin:
        level, width = level + 1, 2 * width
    return int(min(lowest[level, begin], lowest[level, end - width]))


@inner
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


@inner
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


@merged
def _shortest_wanted(run: I64s, lengths: I64s, wanted: npt.NDArray[np.bool_], most: int) -> int:
    shortest = most
    for i in range(len(run)):
        if wanted[run[i]]:
            shortest = min(shortest, lengths[i])
    return shortest


@merged
def _fill_bucket(bucket: I64s, run: I64s, lengths: I64s, outside: int, substring_max: int) -> int:
    """Up to one URL too many; how many are in it."""
    count, i = 0, 0
    while i < len(run) and count < len(bucket):
        if 0 <= lengths[i] - outside <= substring_max:
            bucket[count] = run[i]
            count += 1
        i += 1
    return count


@merged
def _is_likely_similar(
    by_sketch: bool, wanted: npt.NDArray[np.bool_], sketches: I64s, low: I64s, high: I64s, u: int, v: int
) -> bool:
    if by_sketch:
        similar = wanted[u] and wanted[v] and sketches[u] >= 0 and sketches[u] == sketches[v]
    else:
        similar = low[u] >= 0 and low[v] >= 0 and low[u] <= high[v] and low[v] <= high[u]
    return bool(similar)


@merged
def _count_rule(
    keys: U64s, support: Ints, places: Ints, key: np.uint64, a: int, a_length: int, b: int, b_length: int
) -> bool:
    """One more instance of a rule; True if its place in the table could not be found in a bounded search."""
    slot = find_key_within(keys, key, PROBES_MAX)
    if slot == NOT_FOUND:
        return True
    if keys[slot] == NO_KEY:
        keys[slot] = key
        places[slot, 0], places[slot, 1], places[slot, 2], places[slot, 3] = a, a_length, b, b_length
    support[slot] += 1
    return False
