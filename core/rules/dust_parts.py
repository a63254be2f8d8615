"""Rules as replacements of parts of URLs: they begin and end with delimiters."""

from __future__ import annotations

from typing import Final

import numpy as np

from dustream.core.kernels.compile import inner, kernel, merged
from dustream.core.kernels.mix64 import mix64
from dustream.core.rules.dust_detect import sorted_rules
from dustream.core.rules.dust_list import (
    A_LENGTH,
    A_START,
    B_LENGTH,
    B_START,
    FRAME_END,
    FRAME_START,
    same_bytes,
)
from dustream.core.rules.framed_text import (
    END,
    START,
    Bytes,
    I64s,
    U64s,
    text_hash,
)

PART_BYTES_MAX: Final = 35
"""How much a rule takes in beside what it replaces."""
_DELIMITERS: Final = np.zeros(256, np.bool_)
_DELIMITERS[list(b"/?&=;:.,-_+~@!*|" + START.encode() + END.encode())] = True


def as_parts(data: Bytes, rules: I64s) -> I64s:
    """The rules as replacements of parts of URLs: α and β begin and end with a delimiter, or with the URL. A rule that
    ends within a number or a word says something of numbers and words that it was never shown. So it is tried without
    what α and β have in common behind the last delimiter of that, and with what stands beside them, up to the next
    delimiter, in the URLs that they were found in.
    """
    parts = np.concatenate((rules, rules))
    texts = np.concatenate((_bounded(data, parts[: len(rules)], True), _bounded(data, parts[len(rules) :], False)))
    _, firsts = np.unique(texts, return_index=True)
    distinct = parts[np.sort(firsts[texts[firsts] != 0])]
    ordered: I64s = distinct[sorted_rules(data, distinct)]
    return ordered


@kernel
def _bounded(data: Bytes, rules: I64s, leaves_out: bool) -> U64s:
    """Bounds the rules in place; a hash of the texts of each, 0 where that is not possible. If `leaves_out`, nothing is
    taken in where something can be left out."""
    texts = np.zeros(len(rules), np.uint64)
    for i in range(len(rules)):
        a, a_length, b, b_length = rules[i, A_START], rules[i, A_LENGTH], rules[i, B_START], rules[i, B_LENGTH]
        less = _to_delimiter(data, a + a_length - 1, b + b_length - 1, -1, min(a_length, b_length), leaves_out)
        a_length, b_length = a_length - less, b_length - less
        less = _to_delimiter(data, a, b, 1, min(a_length, b_length), leaves_out)
        a, a_length, b, b_length = a + less, a_length - less, b + less, b_length - less
        if min(a_length, b_length) == 0 or (a_length == b_length and same_bytes(data, a, b, a_length)):
            continue
        if not (_are_delimiters(data, a, b) and _are_delimiters(data, a + a_length - 1, b + b_length - 1)):
            continue
        rules[i, A_START], rules[i, A_LENGTH], rules[i, B_START], rules[i, B_LENGTH] = a, a_length, b, b_length
        one, other = text_hash(data[a : a + a_length]), text_hash(data[b : b + b_length])
        texts[i] = mix64(one + np.uint64(a_length)) ^ mix64(mix64(other + np.uint64(b_length)))
    return texts


@inner
def _to_delimiter(data: Bytes, a: int, b: int, inwards: int, most: int, leaves_out: bool) -> int:
    """How many bytes that both have α and β leave out at one end, so that they end with a delimiter; below 0: how many
    they take in; 0 if they end with one, or cannot."""
    if most and _are_delimiters(data, a, b):
        return 0
    for count in range(most if leaves_out else 0):
        at = count * inwards
        if data[a + at] != data[b + at]:
            break
        if _DELIMITERS[data[a + at]]:
            return count
    frame = FRAME_END if inwards > 0 else FRAME_START  # of the URL beside this one
    for count in range(1, PART_BYTES_MAX + 1):
        one, other = a - count * inwards, b - count * inwards
        if min(one, other) < 0 or max(one, other) >= len(data) or data[one] != data[other] or data[one] == frame:
            break
        if _DELIMITERS[data[one]]:
            return -count
    return 0


@merged
def _are_delimiters(data: Bytes, a: int, b: int) -> bool:
    return bool(_DELIMITERS[data[a]] and _DELIMITERS[data[b]])
