"""Which of many texts contain a piece of text: one search through all of them joined, instead of one in each."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

_BETWEEN = "\n"  # no URL in standard form has it; texts that do are searched one by one


class SearchedTexts:
    """Texts in order, joined."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._joined = _BETWEEN.join(texts)
        self._ends = list(accumulate(len(text) + len(_BETWEEN) for text in texts))
        self._is_plain = self._joined.count(_BETWEEN) == max(0, len(texts) - 1)

    def containing(self, piece: str, start: str = "") -> Iterator[int]:
        """The numbers of the texts that contain it and begin with the start, in order."""
        first = bisect_left(self._texts, start)
        last = bisect_left(self._texts, start + chr(sys.maxunicode), first) if start else len(self._texts)
        if not piece or _BETWEEN in piece or not self._is_plain:
            yield from (number for number in range(first, last) if piece in self._texts[number])
            return
        end = self._ends[last - 1] if last else 0
        at = self._joined.find(piece, self._ends[first - 1] if first else 0, end)
        while at >= 0:
            number = bisect_right(self._ends, at)
            yield number
            at = self._joined.find(piece, self._ends[number], end)
