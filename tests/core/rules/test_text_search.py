"""Searching many texts at once finds what searching each of them finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dustream.core.rules.text_search import SearchedTexts

PIECES = st.text("a/.*\né", max_size=4)


@given(st.lists(PIECES), st.lists(PIECES, min_size=1))
def test_same_as_one_by_one(texts: list[str], pieces: list[str]) -> None:
    searched = SearchedTexts(texts)
    for piece in pieces:
        assert list(searched.containing(piece)) == [number for number, text in enumerate(texts) if piece in text]


def test_overlapping_pieces_and_neighbours() -> None:
    texts = ["aaa", "aa", "a", "", "xaax"]
    assert list(SearchedTexts(texts).containing("aa")) == [0, 1, 4]
