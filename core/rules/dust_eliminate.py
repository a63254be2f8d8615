"""DustBuster, phase 2: of two rules with nearly equal support where one refines the other, the broader is redundant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import find_key, slot_count
from dustream.core.kernels.mix64 import mix64
from dustream.core.rules.dust_list import (
    A_LENGTH,
    A_START,
    B_LENGTH,
    B_START,
    SUPPORT,
    DustSettings,
    RulePair,
    same_bytes,
)
from dustream.core.rules.framed_text import (
    Bytes,
    FramedText,
    I64s,
    U64s,
)


def eliminate_redundancies(rules: Sequence[RulePair], settings: DustSettings) -> list[RulePair]:
    """EliminateRedundancies, over rules sorted by support: within a window of MW rules and MRD or MAD of support."""
    text = FramedText([rule.alpha + rule.beta for rule in rules])
    columns = [(len(rule.alpha.encode()), len(rule.beta.encode()), rule.support) for rule in rules]
    placed = [
        (start + 1, alpha, start + 1 + alpha, beta, support)
        for start, (alpha, beta, support) in zip(text.starts.tolist(), columns, strict=True)
    ]
    places = np.array(placed, np.int64).reshape(-1, 5)
    alive = alive_rules(text.data, text.sums, places, settings.mrd, settings.mad, settings.mw)
    return [rule for rule, stays in zip(rules, alive.tolist(), strict=True) if stays]


@kernel
def alive_rules(data: Bytes, sums: U64s, rules: I64s, mrd: float, mad: int, mw: int) -> npt.NDArray[np.bool_]:
    """Which rules are not redundant. Of two rules one of which refines the other, α and β differ by the same bytes."""
    count = len(rules)
    alive, following = np.ones(count, np.bool_), next_with_same_difference(sums, rules)
    for i in range(count):
        j = following[i]
        lowest = rules[i, SUPPORT] - max(mrd * rules[i, SUPPORT], mad)
        while alive[i] and 0 <= j < i + 1 + mw and rules[j, SUPPORT] >= lowest:
            grown = rules[i, A_LENGTH] - rules[j, A_LENGTH]
            if alive[j] and rules[i, B_LENGTH] - rules[j, B_LENGTH] == grown:
                if grown > 0 and refines(data, rules[i], rules[j]):
                    alive[j] = False
                elif grown < 0 and refines(data, rules[j], rules[i]):
                    alive[i] = False
            j = following[j]
    return alive


@inner
def next_with_same_difference(sums: U64s, rules: I64s) -> I64s:
    """Per rule the next one whose α has the same bytes more than its β; −1: none."""
    following = np.full(len(rules), -1, np.int64)
    keys, last = np.zeros(slot_count(len(rules)), np.uint64), np.full(slot_count(len(rules)), -1, np.int64)
    for i in range(len(rules)):
        a, b = rules[i, A_START], rules[i, B_START]
        more = sums[a + rules[i, A_LENGTH]] - sums[a] - (sums[b + rules[i, B_LENGTH]] - sums[b])
        key = mix64(more) | np.uint64(1)
        slot = find_key(keys, key)
        keys[slot] = key
        if last[slot] >= 0:
            following[last[slot]] = i
        last[slot] = i
    return following


@inner
def refines(data: Bytes, inner: I64s, outer: I64s) -> bool:
    """Whether `inner` = γ`outer`δ: the same substitution in a narrower context."""
    alpha, beta = outer[A_LENGTH], outer[B_LENGTH]
    for at in range(inner[A_LENGTH] - alpha + 1):
        rest = inner[A_LENGTH] - alpha - at
        if (
            same_bytes(data, inner[A_START] + at, outer[A_START], alpha)
            and same_bytes(data, inner[B_START], inner[A_START], at)
            and same_bytes(data, inner[B_START] + at, outer[B_START], beta)
            and same_bytes(data, inner[B_START] + at + beta, inner[A_START] + at + alpha, rest)
        ):
            return True
    return False
