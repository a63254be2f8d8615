"""Containment search: exactly what comparing with every code gives, while pages come, change and go."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.containment.index import ContainmentIndex, Repeated
from dustream.core.containment.levels import CODE_CHARS_MAX, CODE_CHARS_MIN, make_levels
from dustream.core.errors import BadSetting
from dustream.core.text.repeatability import common_chars_min, repeatability

DELTAS = st.sampled_from([0.05, 0.5, 0.7, 0.75, 0.9, 1.0])


def by_brute_force(codes: dict[str, str], asked: str, delta: float) -> list[Repeated]:
    found = []
    for key, code in sorted(codes.items()):
        if min(len(code), len(asked)) >= CODE_CHARS_MIN:
            share, other_share = repeatability(code, asked), repeatability(asked, code)
            if max(share, other_share) >= delta:
                found.append(Repeated(key, len(code), round(share * len(code))))
    return found


@st.composite
def code_texts(draw: st.DrawFn) -> str:
    """Pieces of few stocks, so that codes share long and short parts at any place."""
    stock = "".join(chr(0x4E00 + (i * i * 7 + i) % 97) for i in range(300))
    pieces = draw(st.lists(st.tuples(st.integers(0, 290), st.integers(1, 60)), min_size=1, max_size=3))
    noise = draw(st.text(st.sampled_from("ab"), max_size=12))
    text = noise.join(stock[start : start + length] for start, length in pieces)
    return noise + text if draw(st.booleans()) else text


HISTORIES = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.one_of(st.none(), code_texts())), max_size=30)


@given(HISTORIES, code_texts(), DELTAS)
@settings(max_examples=200, deadline=None)
def test_any_history_gives_what_brute_force_gives(
    history: list[tuple[str, str | None]], asked: str, delta: float
) -> None:
    index, codes = ContainmentIndex(delta), dict[str, str]()
    for key, code in history:
        if code is None:
            index.remove(key)
            codes.pop(key, None)
        else:
            assert index.search(code) == by_brute_force(codes, code, delta)
            index.put(key, code)
            codes[key] = code
    assert index.search(asked) == by_brute_force(codes, asked, delta)


@given(st.text(st.sampled_from("ab"), min_size=1, max_size=40), st.lists(st.text(st.sampled_from("ab"), max_size=40)))
@settings(deadline=None)
def test_codes_of_two_characters(asked: str, others: list[str]) -> None:
    index = ContainmentIndex(0.75)
    codes = {str(number): code for number, code in enumerate(others)}
    for key, code in codes.items():
        index.put(key, code)
    assert index.search(asked) == by_brute_force(codes, asked, 0.75)


def test_growth_and_removal_of_many() -> None:
    chance = random.Random(4)
    stocks = ["".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(400)) for _ in range(40)]
    index, codes = ContainmentIndex(0.75), dict[str, str]()
    for number in range(3_000):
        stock, start = chance.choice(stocks), chance.randrange(300)
        key = f"{number % 1_100}"
        codes[key] = stock[start : start + chance.randrange(8, 100)]
        index.put(key, codes[key])
        if number % 7 == 0:
            gone = f"{chance.randrange(1_100)}"
            index.remove(gone)
            codes.pop(gone, None)
    assert len(index) == len(codes)
    for key in list(codes)[::50]:
        assert index.search(codes[key]) == by_brute_force(codes, codes[key], 0.75)
    for key in codes:
        index.remove(key)
    assert len(index) == 0 and index.search(stocks[0]) == []


def test_strangers_are_not_compared() -> None:
    chance = random.Random(5)
    index = ContainmentIndex(0.75)
    for number in range(2_000):
        index.put(str(number), "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(40)))
    for _ in range(100):
        assert index.search("".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(40))) == []
    assert index.compared < 10


def test_one_character_repeated_is_kept_once_a_level() -> None:
    index = ContainmentIndex(0.75)
    for number in range(200):
        index.put(str(number), "哈" * (8 + number % 3))
    assert len(index.search("哈" * 20)) == 200
    assert index._links_used == 200


def test_short_codes_are_found_nowhere() -> None:
    index = ContainmentIndex(0.75)
    index.put("short", "甲" * (CODE_CHARS_MIN - 1))
    assert len(index) == 0 and index.search("甲" * 30) == []
    index.put("a", "甲" * 30)
    index.put("a", "甲")
    assert len(index) == 0


@pytest.mark.parametrize("delta", [0.01, 0.3, 0.75, 1.0])
def test_every_stretch_of_a_level_has_a_kept_fragment(delta: float) -> None:
    levels = make_levels(delta)
    for chars in range(CODE_CHARS_MIN, CODE_CHARS_MAX + 1):
        level = int(levels.level_of_length[chars])
        assert 0 <= level < levels.steps.size
        step, fragment = int(levels.steps[level]), int(levels.fragment_chars[level])
        assert step + fragment - 1 <= common_chars_min(chars, delta)
        assert level >= int(levels.level_of_length[chars - 1])


@pytest.mark.parametrize("delta", [0, -1, 1.01])
def test_thresholds_that_make_no_sense(delta: float) -> None:
    with pytest.raises(BadSetting, match="repeatability"):
        ContainmentIndex(delta)
