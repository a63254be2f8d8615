"""Which of many texts contain a piece of text: one search through all of them joined, instead of one in each."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

_BETWEEN = "\n"  # no URL in standard form has it; texts that do are searched one by one


class SearchedTexts:
    """Texts, joined."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._joined = _BETWEEN.join(texts)
        self._ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + len(_BETWEEN))

    def containing(self, piece: str) -> list[int]:
        """The numbers of the texts that contain it, in order."""
        is_plain = self._joined.count(_BETWEEN) == max(0, len(self._texts) - 1)
        if not piece or _BETWEEN in piece or not is_plain:
            return [number for number, text in enumerate(self._texts) if piece in text]
        found = [match.start() for match in re.finditer(re.escape(piece), self._joined)]
        numbers: list[int] = np.unique(np.searchsorted(self._ends, found, side="right")).tolist()
        return numbers
