"""The differences between two texts in words, or in whatever tokens they are compared by.

What does not count in the comparison (for words: case, punctuation and spaces) is shown but ignored. The time is linear
in the size of the texts: what both begin and end with is set aside; runs of words that each has once are matched, long
runs first (as in patience diff), then those that each has several times, the first with the first and so on; what is
between them is compared word by word, in windows if it is long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.text.row_signing import TokenRules
from dustream.streams.questions.shown_tokens import PAGES, ShownTokens

PASSAGES_MAX = 12
MATCHED_WORDS_MAX = 256  # passages that differ are compared by difflib up to this size, longer ones in such windows
ANCHORS: Final = ((8, True), (3, True), (1, True), (8, False))  # words in a run, and whether each text has it once

Kind = Literal["same", "removed", "added"]
Ints = NDArray[np.int64]


class _Amounts(NamedTuple):
    """`context`: how many tokens are shown around a change. `run_max`: longer runs are shortened in the middle."""

    context: int
    run_max: int
    unit: str


_WORDS: Final = _Amounts(6, 40, "words")
_TOKENS: Final = _Amounts(12, 80, "tokens")
_CHARACTERS: Final = _Amounts(30, 200, "characters")
_BY_KIND: Final = {"words": _WORDS, "code": _TOKENS, "characters": _CHARACTERS, "raw": _CHARACTERS}
RUN_WORDS_MAX = _WORDS.run_max


class Run(Struct, frozen=True):
    """Consecutive words in both texts, only in the first (removed), or only in the second (added)."""

    kind: Kind
    text: str


class WordDiff(Struct, frozen=True):
    """Passages around the differences, each a list of runs, and the total number of differences. Words are the tokens
    by which the texts were compared."""

    passages: list[list[Run]]
    words_removed: int
    words_added: int
    words_same: int
    passages_left_out: int = 0


class _Change(NamedTuple):
    """Words [start, end) of the first text are replaced by [new_start, new_end) of the second."""

    start: int
    end: int
    new_start: int
    new_end: int

    def moved(self, start: int, new_start: int) -> _Change:
        return _Change(self.start + start, self.end + start, self.new_start + new_start, self.new_end + new_start)


def unit_of(rules: TokenRules) -> str:
    """What the words of a difference are called."""
    return _BY_KIND[rules.tokens].unit


def word_diff(one: str, other: str, rules: TokenRules = PAGES) -> WordDiff:
    """The changes from the first text to the second, in tokens of these rules."""
    old, new = ShownTokens(one, rules), ShownTokens(other, rules)
    numbers: dict[str, int] = {}
    changes = _joined(_changes(_numbered(old, numbers), _numbered(new, numbers)))
    removed = sum(change.end - change.start for change in changes)
    added = sum(change.new_end - change.new_start for change in changes)
    amounts = _BY_KIND[rules.tokens]
    groups = _near_changes(changes, amounts.context)
    passages = [_passage(group, old, new, amounts) for group in groups[:PASSAGES_MAX]]
    return WordDiff(passages, removed, added, len(old) - removed, max(0, len(groups) - PASSAGES_MAX))


def _numbered(words: ShownTokens, numbers: dict[str, int]) -> Ints:
    """A number for each word; new ones are added."""
    return np.array([numbers.setdefault(key, len(numbers)) for key in words.keys], dtype=np.int64)


def _changes(old: Ints, new: Ints, level: int = 0) -> Iterator[_Change]:
    """In order. `level`: which of ANCHORS comes next."""
    begin = _common(old, new)
    old, new = old[begin:], new[begin:]
    end = _common(old[::-1], new[::-1])
    old, new = old[: len(old) - end], new[: len(new) - end]
    for change in _between(old, new, level) if len(old) or len(new) else ():
        yield change.moved(begin, begin)


def _common(old: Ints, new: Ints) -> int:
    """How many words both begin with."""
    size = min(len(old), len(new))
    differs = old[:size] != new[:size]
    first = int(differs.argmax()) if size else 0
    return first if size and differs[first] else size


def _between(old: Ints, new: Ints, level: int) -> Iterator[_Change]:
    if not len(old) or not len(new):
        yield _Change(0, len(old), 0, len(new))
    elif max(len(old), len(new)) <= MATCHED_WORDS_MAX:
        for tag, *places in SequenceMatcher(None, old.tolist(), new.tolist(), autojunk=False).get_opcodes():
            if tag != "equal":
                yield _Change(*places)
    elif level < len(ANCHORS):
        yield from _around_anchors(old, new, level)
    else:
        yield from _in_windows(old, new)


def _around_anchors(old: Ints, new: Ints, level: int) -> Iterator[_Change]:
    """Changes between words at which both texts have the same run."""
    places, new_places = _anchors(old, new, *ANCHORS[level])
    starts, new_starts = np.append(0, places + 1), np.append(0, new_places + 1)
    ends, new_ends = np.append(places, len(old)), np.append(new_places, len(new))
    for gap in np.flatnonzero((starts < ends) | (new_starts < new_ends)).tolist():
        start, new_start = int(starts[gap]), int(new_starts[gap])
        for change in _changes(old[start : ends[gap]], new[new_start : new_ends[gap]], level + 1):
            yield change.moved(start, new_start)


def _anchors(old: Ints, new: Ints, size: int, is_once: bool) -> tuple[Ints, Ints]:
    """Where the same runs of `size` words begin, in the same order in both texts."""
    if min(len(old), len(new)) < size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    (runs, places), (new_runs, new_places) = (_runs(each, size, is_once=is_once) for each in (old, new))
    _, first, second = np.intersect1d(runs, new_runs, assume_unique=True, return_indices=True)
    places, new_places = places[first], new_places[second]
    is_same = old[places] == new[new_places]  # a hash is no proof
    order = np.argsort(places[is_same])
    places, new_places = places[is_same][order], new_places[is_same][order]
    chosen = _longest_increasing(new_places)
    return places[chosen], new_places[chosen]


def _runs(words: Ints, size: int, *, is_once: bool) -> tuple[NDArray[np.uint64], Ints]:
    """A hash and the place of each run that the text has once; or of each run, hashed with how often it came before."""
    count = len(words) - size + 1
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        hashes = _mixed(hashes ^ words[place : place + count].astype(np.uint64))
    order = np.argsort(hashes, kind="stable")
    found = hashes[order]
    starts = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    counts = np.diff(np.append(starts, count))
    if is_once:
        once = starts[counts == 1]
        return found[once], order[once]
    before = np.arange(count) - np.repeat(starts, counts)
    return _mixed(found + _mixed(before.astype(np.uint64))), order


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = hashes * np.uint64(0x9E3779B185EBCA87)
    return hashes ^ (hashes >> np.uint64(32))


def _longest_increasing(values: Ints) -> Any:
    """The places of a longest increasing subsequence (patience sorting)."""
    if not len(values) or bool(np.all(np.diff(values) > 0)):
        return slice(None)
    tails: list[int] = []
    tail_places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values.tolist()):
        pile = bisect_left(tails, value)
        before.append(tail_places[pile - 1] if pile else -1)
        tails[pile : pile + 1] = [value]
        tail_places[pile : pile + 1] = [place]
    chosen, place = [], tail_places[-1]
    while place >= 0:
        chosen.append(place)
        place = before[place]
    return np.array(chosen[::-1])


def _in_windows(old: Ints, new: Ints) -> Iterator[_Change]:
    """Both texts in as many parts of bounded size, compared one by one."""
    count = -(-max(len(old), len(new)) // MATCHED_WORDS_MAX)
    for window in range(count):
        start, end = (len(old) * each // count for each in (window, window + 1))
        new_start, new_end = (len(new) * each // count for each in (window, window + 1))
        for change in _window(old[start:end], new[new_start:new_end]):
            yield change.moved(start, new_start)


def _window(old: Ints, new: Ints) -> Iterator[_Change]:
    """The changes beside a longest common subsequence."""
    if not len(old) or not len(new) or not np.isin(old, new).any():
        yield _Change(0, len(old), 0, len(new))
        return
    lengths = np.zeros((len(old) + 1, len(new) + 1), dtype=np.int16)
    for row, word in enumerate(old.tolist()):
        with_match = np.maximum(lengths[row, 1:], lengths[row, :-1] + (new == word))
        np.maximum.accumulate(with_match, out=lengths[row + 1, 1:])
    at, new_at, matched = len(old), len(new), [(len(old), len(new))]
    table, old_words, new_words = lengths.tolist(), old.tolist(), new.tolist()
    while at and new_at:
        if old_words[at - 1] == new_words[new_at - 1]:
            at, new_at = at - 1, new_at - 1
            matched.append((at, new_at))
        elif table[at - 1][new_at] >= table[at][new_at - 1]:
            at -= 1
        else:
            new_at -= 1
    at = new_at = 0
    for place, new_place in reversed(matched):
        if at < place or new_at < new_place:
            yield _Change(at, place, new_at, new_place)
        at, new_at = place + 1, new_place + 1


def _joined(changes: Iterator[_Change]) -> list[_Change]:
    """Changes with nothing between them as one."""
    joined: list[_Change] = []
    for change in changes:
        if joined and (change.start, change.new_start) == (joined[-1].end, joined[-1].new_end):
            joined[-1] = joined[-1]._replace(end=change.end, new_end=change.new_end)
        else:
            joined.append(change)
    return joined


def _near_changes(changes: list[_Change], context: int) -> list[list[_Change]]:
    """Group changes whose contexts touch into passages."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change.start - groups[-1][-1].end <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _passage(changes: list[_Change], old: ShownTokens, new: ShownTokens, amounts: _Amounts) -> list[Run]:
    at = max(0, changes[0].start - amounts.context)
    runs = [Run("same", "…")] if at else []
    for change in changes:
        runs += _run("same", old, at, change.start, amounts)
        runs += _run("removed", old, change.start, change.end, amounts)
        runs += _run("added", new, change.new_start, change.new_end, amounts)
        at = change.end
    last = min(len(old), at + amounts.context)
    runs += _run("same", old, at, last, amounts)
    return runs + ([Run("same", "…")] if last < len(old) else [])


def _run(kind: Kind, words: ShownTokens, start: int, end: int, amounts: _Amounts) -> list[Run]:
    if start == end:
        return []
    if end - start <= amounts.run_max:
        return [Run(kind, words.text(start, end))]
    half = amounts.run_max // 2
    left_out = f" [… {end - start - 2 * half} {amounts.unit} …] "
    return [Run(kind, words.text(start, start + half) + left_out + words.text(end - half, end))]
