"""DustBuster, phase 3: few outcomes of a rule on known URLs (or fetched ones) may differ in content. Shrinking
rules are tried first; rules that refine a valid one are not tried."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.arrays import copy_into, stable_order
from dustream.core.kernels.compile import inner, kernel, merged
from dustream.core.kernels.hash_slots import Ints, first_entry
from dustream.core.rules.dust_eliminate import next_with_same_difference, refines
from dustream.core.rules.dust_list import (
    A_LENGTH,
    A_START,
    ALIKE,
    B_LENGTH,
    B_START,
    FRAME_END,
    FRAME_START,
    SLASH,
    UNDECIDED,
    UNKNOWN,
    UNLIKE,
    DustRule,
    DustSettings,
    Fetch,
    Limits,
    Searched,
    UrlList,
    relation_of,
    same_bytes,
)
from dustream.core.rules.framed_text import (
    END,
    GRAM,
    START,
    Bytes,
    I64s,
    U64s,
    gram_bucket,
    is_safe_piece,
    path_start,
    span,
    text_hash,
)
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import PatternRewrite, Rewrite, SubstringRewrite

OUTCOMES_MAX: Final = 2_000
"""How many of the URLs a rule changes are looked at, in an order that has nothing to do with their text."""

LOOKED_AT_FIRST: Final = 16
"""After so many outcomes, and whenever they have doubled, it is looked whether a rule is refuted."""


REFUTED, VALID, OPEN = 0, 1, 2
"""What compiled code says of a rule; open: it needs the standard form of texts, or a fetcher."""

F_SIDE, F_RIGHT, F_WRONG, F_URL, F_SCOPE, F_END = range(6)
"""The columns of valid rules: which side of which rule, right and wrong outcomes, a URL in the scope and how many bytes
of it (with its frame's first) the scope is, and where the rows of the rule end."""


def validate(rules: I64s, listed: UrlList, settings: DustSettings, fetch: Fetch | None = None) -> list[DustRule]:
    """Validate: rules by support; a rule that refines an accepted one is not tried; shrinking rules come first."""
    valid: list[DustRule] = []
    kept = np.zeros(len(rules), np.bool_)
    before = _last_with_same_difference(listed.text.sums, rules)
    limits = settings.limits(asks=fetch is not None)
    at = 0
    while at < 2 * len(rules):
        at, facts, rows, landed = _try_rules(listed.searched, rules, before, kept, at, limits)
        valid += _valid_rules(listed, rules, facts, rows, landed)
        if at < 2 * len(rules):
            found = validate_rule(*_sides(listed.text.data, rules, at), listed, limits, fetch)
            kept[at // 2] = found is not None
            valid += [found] if found is not None else []
            at += 2 - at % 2 if found is not None else 1
    return valid


def _valid_rules(listed: UrlList, rules: I64s, facts: I64s, rows: Ints, landed: Ints) -> list[DustRule]:
    """The rules that compiled code has found valid."""
    valid, begin, text = [], 0, listed.text
    for side, right, wrong, url, scope, end in facts.tolist():
        within = text.piece(int(text.starts[url]) + 1, scope - 1).decode()
        rewrite = _as_rewrite(*_sides(text.data, rules, side), within)
        valid.append(DustRule(rewrite, right, wrong, rows[begin:end], landed[begin:end]))
        begin = end
    return valid


@kernel
def _sides(data: Bytes, rules: I64s, side: int) -> tuple[Bytes, Bytes]:
    """What to find and what to put there. Sides are numbered: α → β of rule i is 2 i, β → α 2 i + 1."""
    rule = rules[side // 2]
    alpha = data[rule[A_START] : rule[A_START] + rule[A_LENGTH]]
    beta = data[rule[B_START] : rule[B_START] + rule[B_LENGTH]]
    return (alpha, beta) if side % 2 == 0 else (beta, alpha)


@kernel
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
            copy_into(rows[used:], found)
            copy_into(landed[used:], outcomes)
            used += len(found)
            copy_into(facts[count], fact)
            facts[count, F_SIDE], facts[count, F_END] = at, used
            count += 1
            kept[at // 2] = True
        at += 2 - at % 2 if verdict == VALID else 1
    return at, facts[:count], rows[:used], landed[:used]


@inner
def _with_room(buffer: Ints, used: int, more: int) -> Ints:
    if used + more <= len(buffer):
        return buffer
    larger = np.zeros(2 * (used + more), np.int32)
    copy_into(larger, buffer[:used])
    return larger


@inner
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
    found, landed = found[inside], landed[inside]
    order = stable_order(found)
    return VALID, fact, found[order], landed[order]


@inner
def _right_outcomes(rows: Ints, relations: npt.NDArray[np.int8]) -> tuple[int, int, int, int]:
    """How many outcomes are right, how many undecided; the first and the last URL with a right one."""
    right, undecided, first, last = 0, 0, 1 << 31, -1
    for i in range(len(rows)):
        undecided += relations[i] == UNDECIDED
        if relations[i] == ALIKE:
            right, first, last = right + 1, min(first, int(rows[i])), max(last, int(rows[i]))
    return right, undecided, first, last


@inner
def _counted_inside(
    searched: Searched, rows: Ints, relations: npt.NDArray[np.int8], first: int, last: int, limits: Limits
) -> tuple[int, int]:
    """Right and wrong outcomes in the scope of the right ones, until either suffice."""
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


@inner
def _is_refuted_already(searched: Searched, rows: Ints, relations: npt.NDArray[np.int8], limits: Limits) -> bool:
    """Whether the first outcomes refute a rule whatever comes after them: more right ones only widen its scope."""
    _, undecided, first, last = _right_outcomes(rows, relations)
    if undecided or last < 0:
        return False
    positive, negative = _counted_inside(searched, rows, relations, first, last, limits)
    return bool(positive < limits.enough and negative >= limits.too_many)


@inner
def _scope_length(searched: Searched, first: int, last: int) -> int:
    """How many bytes two URLs have in common, with the frame's first, up to a slash."""
    length = _shared_start(searched.data, searched.starts, searched.ends, first, last)
    while length > 1 and searched.data[searched.starts[first] + length - 1] != SLASH:
        length -= 1
    return length


@merged
def _is_inside(data: Bytes, starts: I64s, ends: I64s, row: int, first: int, last: int, scope: int) -> bool:
    """Whether a URL begins with the scope of two: URLs are in order, so all between them do."""
    inside = first <= row <= last
    if not inside and ends[row] - starts[row] >= scope:
        inside = same_bytes(data, starts[row], starts[first], scope)
    return bool(inside)


@kernel
def _last_with_same_difference(sums: U64s, rules: I64s) -> I64s:
    following = next_with_same_difference(sums, rules)
    before = np.full(len(rules), -1, np.int64)
    for i in range(len(rules)):
        if following[i] >= 0:
            before[following[i]] = i
    return before


@inner
def _is_refinement(data: Bytes, rules: I64s, before: I64s, kept: npt.NDArray[np.bool_], rule: int) -> bool:
    """Whether a rule refines one of those that are kept."""
    other = before[rule]
    while other >= 0:
        grown = rules[rule, A_LENGTH] - rules[other, A_LENGTH]
        alike = kept[other] and grown > 0 and rules[rule, B_LENGTH] - rules[other, B_LENGTH] == grown
        if alike and refines(data, rules[rule], rules[other]):
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
    within = np.flatnonzero((found >= begin) & (found < end))
    in_order = within[np.argsort(found[within], kind="stable")]
    return DustRule(rewrite, rights, wrong, found[in_order], landed[in_order])


@kernel
def _counted(relations: npt.NDArray[np.int8], enough: float, too_many: float) -> tuple[int, int]:
    """Right and wrong outcomes until either suffice."""
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
    """A page that cannot be fetched is not counted; an outcome that cannot be fetched is wrong. Equal sizes are only a
    hint: where nothing else is known, pages of equal size are fetched, too."""
    from dustream.core.rules.rewrite import replaced

    is_open = (relations == UNKNOWN) | ((relations == ALIKE) & (not listed.by_sketch))
    known = np.where(is_open, UNKNOWN, relations).astype(np.int8)
    for i in np.flatnonzero(is_open)[:count].tolist():
        url = listed.urls[rows[i]]
        outcome = replaced(rewrite, url)
        sketch = int(listed.sketches[rows[i]])
        source = listed.names[sketch] if listed.names and sketch >= 0 else fetch(url)
        if source is not None and outcome is not None:
            known[i] = ALIKE if fetch(standard_form(outcome)) == source else UNLIKE
    return known


def _outcomes(find: Bytes, put: Bytes, listed: UrlList, limits: Limits) -> Outcomes:
    """Every URL that the rule changes, and whether its outcome is alike."""
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


@kernel
def _found_outcomes(
    searched: Searched, find: Bytes, put: Bytes, limits: Limits, may_stop: bool
) -> tuple[Ints, npt.NDArray[np.int8], Ints, Ints, bool]:
    """The fields of Outcomes, `found` in no order; and whether it stopped because these refute the rule already."""
    data, starts, ends, url_at = searched.data, searched.starts, searched.ends, searched.url_at
    prefix, powers, slots, hashes = searched.prefix, searched.powers, searched.slots, searched.hashes
    by_sketch, sketches, low, high = searched.by_sketch, searched.sketches, searched.low, searched.high
    best, tried = _tried_places(searched, find)
    found, landed = np.zeros(len(tried), np.int32), np.full(len(tried), -1, np.int32)
    rows = np.zeros(min(len(tried), OUTCOMES_MAX), np.int32)
    relations = np.zeros(len(rows), np.int8)
    put_hash, kept = text_hash(put), _same_start(find, put)
    is_safe = is_safe_piece(put[kept:]) and is_safe_piece(find[kept:])
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
            relations[used] = relation_of(url, int(outcome), by_sketch, sketches, low, high)
        else:
            path = searched.path_starts[url]
            is_standard = _stays_standard(
                data, starts[url], ends[url], path, at + kept, len(find) - kept, put[kept:], is_safe
            )
            relations[used] = UNKNOWN if is_standard else UNDECIDED
        rows[used] = url
        used += 1
        if may_stop and used == looked_at:
            if _is_refuted_already(searched, rows[:used], relations[:used], limits):
                return rows[:used], relations[:used], found[:found_count], landed[:found_count], True
            looked_at *= 2
    return rows[:used], relations[:used], found[:found_count], landed[:found_count], False


@inner
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


@merged
def _first_place(data: Bytes, starts: I64s, ends: I64s, find: Bytes, url: int) -> int:
    """Where a text of one or two bytes is in a URL first, or where it cannot be."""
    first, last = starts[url], ends[url] - len(find) + 1
    while first < last and not (data[first] == find[0] and data[first + len(find) - 1] == find[-1]):
        first += 1
    return int(first)


@merged
def _is_at(data: Bytes, starts: I64s, ends: I64s, find: Bytes, url: int, at: int) -> bool:
    """Whether a text is at this place of a URL."""
    same = 0
    if at >= starts[url] and at + len(find) <= ends[url]:
        while same < len(find) and data[at + same] == find[same]:
            same += 1
    return same == len(find)


@merged
def _outcome_hash(
    prefix: U64s, powers: U64s, starts: I64s, ends: I64s, url: int, at: int, length: int, put: int, put_hash: np.uint64
) -> np.uint64:
    """Of what a URL becomes when so many bytes at this place are replaced by so many others."""
    base, begin, rest = starts[url] + url, at - starts[url], ends[url] - at - length
    hashed = (prefix[base + begin] * powers[put] + put_hash) * powers[rest]
    return np.uint64(hashed + span(prefix, powers, base, begin + length, rest))


@inner
def _same_start(find: Bytes, put: Bytes) -> int:
    """How many bytes at the beginning a rule leaves as they are."""
    same = 0
    while same < min(len(find), len(put)) and find[same] == put[same]:
        same += 1
    return same


@inner
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


@kernel
def _can_be_deployed(find: Bytes, put: Bytes) -> bool:
    """Whether there is a text to find, and the rule does not apply to its own output again."""
    framed = [FRAME_START, FRAME_END]
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


def is_deployable(rewrite: Rewrite) -> bool:
    """Whether a rule does not apply to its own output again; rules by key never do."""
    return isinstance(rewrite, PatternRewrite) or rewrite.find not in rewrite.put


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


@kernel
def _shared_start(data: Bytes, starts: I64s, ends: I64s, u: int, v: int) -> int:
    most = min(ends[u] - starts[u], ends[v] - starts[v])
    same = 0
    while same < most and data[starts[u] + same] == data[starts[v] + same]:
        same += 1
    return same
