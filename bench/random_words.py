"""Rows of random words, made fast: for measuring memory on millions of them."""

from __future__ import annotations

from typing import Final

import numpy as np

ROW_WORDS: Final = 120
WORD_BYTES: Final = 7  # with a space
ROW_BYTES: Final = WORD_BYTES * ROW_WORDS
COPY_EVERY: Final = 5

_WORDS = np.array([f"w{number:05} " for number in range(50_000)], dtype=f"S{WORD_BYTES}")


def random_rows(draws: np.random.Generator, count: int) -> bytes:
    """The texts of so many rows. Every fifth is the one before with another word."""
    drawn = draws.integers(0, len(_WORDS), (count, ROW_WORDS))
    copies = np.arange(COPY_EVERY - 1, count, COPY_EVERY)
    drawn[copies] = drawn[copies - 1]
    drawn[copies, draws.integers(0, ROW_WORDS, len(copies))] = 0
    return _WORDS[drawn].tobytes()
