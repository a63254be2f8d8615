"""The differences between two texts in words, limited to those that affect their similarity.

Case, punctuation and spaces are shown but ignored in the comparison. Lines and sentences are matched first, then the
words of those that differ, so the time depends on the differences, not on the size of the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from msgspec import Struct

CONTEXT_WORDS = 6
PASSAGES_MAX = 12
RUN_WORDS_MAX = 40  # longer runs are shortened in the middle
PIECE_WORDS_MAX = 1_000  # pieces that differ are compared word by word up to this size

Kind = Literal["same", "removed", "added"]

# A word, nearly as tokens are defined (core/text/tokens.py): in scripts without spaces each letter is one.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_PIECE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+|(?<=[\u3002\uff01\uff1f])")


class Run(Struct, frozen=True):
    """Consecutive words in both texts, only in the first (removed), or only in the second (added)."""

    kind: Kind
    text: str


class WordDiff(Struct, frozen=True):
    """Passages around the differences, each a list of runs, and the total number of differences."""

    passages: list[list[Run]]
    words_removed: int
    words_added: int
    words_same: int
    passages_left_out: int = 0


class _Word(NamedTuple):
    key: str
    shown: str


class _Change(NamedTuple):
    """Words [start, end) of the first text are replaced by [new_start, new_end) of the second."""

    start: int
    end: int
    new_start: int
    new_end: int


def word_diff(one: str, other: str) -> WordDiff:
    """The changes from the first text to the second."""
    before, after = _pieces(one), _pieces(other)
    old, new = [word for piece in before for word in piece], [word for piece in after for word in piece]
    changes = list(_changes(before, after))
    removed = sum(change.end - change.start for change in changes)
    added = sum(change.new_end - change.new_start for change in changes)
    groups = _near_changes(changes)
    passages = [_passage(group, old, new) for group in groups[:PASSAGES_MAX]]
    return WordDiff(passages, removed, added, len(old) - removed, max(0, len(groups) - PASSAGES_MAX))


def _pieces(text: str) -> list[list[_Word]]:
    """Lines and sentences with words."""
    pieces = (_words(piece) for piece in _PIECE_END.split(text))
    return [piece for piece in pieces if piece]


def _words(piece: str) -> list[_Word]:
    """The words of a piece, each with the text up to the next word."""
    found = list(_WORD.finditer(piece))
    if not found:
        return []
    ends = [*(match.start() for match in found[1:]), len(piece)]
    texts = [re.sub(r"\s+", " ", piece[match.start() : end]) for match, end in zip(found, ends, strict=True)]
    texts[-1] = texts[-1].rstrip() + " "
    return [_Word(match[0].casefold(), text) for match, text in zip(found, texts, strict=True)]


def _changes(before: list[list[_Word]], after: list[list[_Word]]) -> Iterator[_Change]:
    """Compare pieces first; those between equal ones word by word, if they are not too long."""
    keys = [[tuple(word.key for word in piece) for piece in pieces] for pieces in (before, after)]
    starts = [_starts(pieces) for pieces in (before, after)]
    for tag, i, j, k, m in SequenceMatcher(None, keys[0], keys[1]).get_opcodes():
        if tag == "equal":
            continue
        change = _Change(starts[0][i], starts[0][j], starts[1][k], starts[1][m])
        old = [word.key for piece in before[i:j] for word in piece]
        new = [word.key for piece in after[k:m] for word in piece]
        if max(len(old), len(new)) > PIECE_WORDS_MAX:
            yield change
            continue
        for within, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if within != "equal":
                yield _Change(change.start + a, change.start + b, change.new_start + c, change.new_start + d)


def _starts(pieces: list[list[_Word]]) -> list[int]:
    """The index of the first word of each piece, and the total."""
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _near_changes(changes: list[_Change]) -> list[list[_Change]]:
    """Group changes whose contexts touch into passages."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change.start - groups[-1][-1].end <= 2 * CONTEXT_WORDS:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _passage(changes: list[_Change], old: list[_Word], new: list[_Word]) -> list[Run]:
    at = max(0, changes[0].start - CONTEXT_WORDS)
    runs = [Run("same", "…")] if at else []
    for change in changes:
        runs += _run("same", old[at : change.start])
        runs += _run("removed", old[change.start : change.end])
        runs += _run("added", new[change.new_start : change.new_end])
        at = change.end
    runs += _run("same", old[at : at + CONTEXT_WORDS])
    return runs + ([Run("same", "…")] if at + CONTEXT_WORDS < len(old) else [])


def _run(kind: Kind, words: list[_Word]) -> list[Run]:
    if not words:
        return []
    if len(words) > RUN_WORDS_MAX:
        half = RUN_WORDS_MAX // 2
        left_out = f"[… {len(words) - 2 * half} words …] "
        return [Run(kind, _joined(words[:half]) + " " + left_out + _joined(words[-half:]))]
    return [Run(kind, _joined(words))]


def _joined(words: list[_Word]) -> str:
    return "".join(word.shown for word in words).strip()
