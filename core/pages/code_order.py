"""Of two pages one of which contains the other, or both each other: which one may be kept. Smaller is better."""

from __future__ import annotations

from collections.abc import Callable

CodeOrder = Callable[[int, bytes], bytes]
"""(characters of the code, key in the winner order) → the place in the order."""

_CHARS_MAX = 0xFFFF


def longer_first(chars: int, key: bytes) -> bytes:
    """The longer code, and of equally long ones the better by the winner criteria."""
    return (_CHARS_MAX - chars).to_bytes(2, "big") + key


def criteria_first(chars: int, key: bytes) -> bytes:
    """The winner criteria alone: who is better by them is kept even by a page that contains it."""
    return key
