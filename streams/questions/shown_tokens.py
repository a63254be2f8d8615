"""A text as its tokens, and the passages of it that they stand for: what two texts differ in is shown by these.

The tokens are those by which texts are compared (core/text/tokens.py, core/text/row_signing.py), here with regular
expressions that are made from the same table of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.char_classes import IGNORED, MARK, SEPARATOR, SINGLE, TABLE_SIZE, WORD
from dustream.core.text.row_signing import TokenRules, rules_table
from dustream.core.text.tokens import CLASS_MASK, FOLD_SHIFT, SHORT_TEXT_TOKENS, is_punctuation

PAGES: Final = TokenRules(as_pages=True)

_WHITE: Final = r"\x00-\x20\x7f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class ShownTokens:
    """The tokens of a text by which it is compared, and the text from one of them to another."""

    def __init__(self, text: str, rules: TokenRules) -> None:
        self._is_raw, self._has_spaces = rules.tokens == "raw", rules.tokens == "characters"
        self._text = text if self._is_raw else unicodedata.normalize("NFC", text)
        self.keys, self._starts = self._split(rules)

    def __len__(self) -> int:
        return len(self.keys)

    def _split(self, rules: TokenRules) -> tuple[Sequence[str], Sequence[int]]:
        if self._is_raw:
            return self._text, range(len(self._text))
        patterns = _patterns(rules)
        folded = self._text.translate(patterns.folds)
        keys, starts = _matches(patterns.token, folded)
        if patterns.short is not None and len(keys) <= SHORT_TEXT_TOKENS:
            keys, starts = _matches(patterns.short, folded)
        if patterns.ignored.search(folded):
            keys = [patterns.ignored.sub("", key) for key in keys]
        if not self._has_spaces:
            return keys, starts
        keys = [" " if patterns.white.match(key) else key for key in keys]
        inside = slice(keys[:1] == [" "], len(keys) - (keys[-1:] == [" "]))
        return keys[inside], starts[inside]

    def text(self, start: int, end: int) -> str:
        """From one token to another, white space as one space unless it counts. Half of a surrogate pair, and a byte
        that is no UTF-8, cannot be printed: its code is given."""
        last = self._starts[end] if end < len(self) else len(self._text)
        found = self._text[self._starts[start] : last] if start < end else ""
        if _SURROGATE.search(found):
            found = found.encode("utf-8", "backslashreplace").decode()
        if self._is_raw:
            return found
        found = re.sub(r"\s+", " ", found)
        return found if self._has_spaces else found.strip()


def _matches(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[int]]:
    keys, starts = [], []
    for match in pattern.finditer(text):
        keys.append(match[0])
        starts.append(match.start())
    return keys, starts


def decoded(text: bytes) -> str:
    """Lossless: halves of surrogate pairs stay, and bytes that are no UTF-8 become some."""
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "surrogateescape")


class _Patterns(NamedTuple):
    """`folds`: what a character counts as. `token` matches one in a folded text, `short` in one of few tokens."""

    folds: dict[int, int]
    token: re.Pattern[str]
    short: re.Pattern[str] | None
    ignored: re.Pattern[str]
    white: re.Pattern[str]


@cache
def _patterns(rules: TokenRules) -> _Patterns:
    table = rules_table(rules)
    folded = table >> FOLD_SHIFT
    changed = np.flatnonzero(folded != np.arange(TABLE_SIZE))
    folds = dict(zip(changed.tolist(), folded[changed].tolist(), strict=True))
    classes = table & CLASS_MASK
    word, single, mark, ignored = (_ranges(classes == kind) for kind in (WORD, SINGLE, MARK, IGNORED))
    single += "\U00020000-\U0003ffff"
    ignored += "\U000e0000-\U000e0fff"
    token, short = f"[{word}][{word}{mark}{ignored}]*|[{single}][{mark}{ignored}]*", None
    if rules.tokens == "words":
        symbols = np.flatnonzero(classes == SEPARATOR)
        symbols = symbols[[not is_punctuation(code) for code in symbols.tolist()]]
        symbol = _ranges(np.isin(np.arange(TABLE_SIZE), symbols)) + "\U00040000-\U000dffff\U000e1000-\U0010ffff"
        short = f"{token}|[{symbol}][{symbol}{ignored}]*"
    elif rules.tokens == "code":
        token = f"[{word}_][{word}_{mark}{ignored}]*|[^{_WHITE}{ignored}]"
    else:
        token = f"[{_WHITE}][{_WHITE}{ignored}]*|[^{ignored}]"
    few = None if short is None else re.compile(short)
    return _Patterns(folds, re.compile(token), few, re.compile(f"[{ignored}]"), re.compile(f"[{_WHITE}]"))


def _ranges(chosen: NDArray[np.bool_]) -> str:
    """Characters as the inside of a class of a regular expression."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(end - 1))}" for first, end in edges.tolist())
