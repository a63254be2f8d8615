"""Which of many texts contain a piece of text: one search through all of them joined, instead of one in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

_BETWEEN = "\n"  # no URL in standard form has it; texts that do are searched one by one


class SearchedTexts:
    """Texts, joined."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._joined = _BETWEEN.join(texts)
        self._ends = list(accumulate(len(text) + len(_BETWEEN) for text in texts))
        self._is_plain = self._joined.count(_BETWEEN) == max(0, len(texts) - 1)

    def containing(self, piece: str) -> Iterator[int]:
        """The numbers of the texts that contain it, in order."""
        if not piece or _BETWEEN in piece or not self._is_plain:
            yield from (number for number, text in enumerate(self._texts) if piece in text)
            return
        at = self._joined.find(piece)
        while at >= 0:
            number = bisect_right(self._ends, at)
            yield number
            at = self._joined.find(piece, self._ends[number])
