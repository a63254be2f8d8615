"""UTF-8 as Python's own codec has it, whatever the string or the bytes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.text.utf8 import is_utf8, utf8_of

# Long runs of ASCII, which are copied 32 at a time, with anything between them.
RUNS = st.sampled_from(["a" * size for size in (1, 30, 31, 32, 33, 64, 70)])
LATIN = st.characters(min_codepoint=0, max_codepoint=0xFF)
ANY = st.characters(min_codepoint=0, max_codepoint=0x10FFFF, categories=None)
WIDE = st.characters(min_codepoint=0, max_codepoint=0xFFFF, categories=None)
BROKEN = st.sampled_from(
    [b"\x80", b"\xc2", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff"]
)


@settings(max_examples=300)
@given(st.one_of(*(st.lists(st.one_of(RUNS, chars), max_size=12).map("".join) for chars in (LATIN, WIDE, ANY))))
def test_a_string_in_utf8(text: str) -> None:
    assert utf8_of(text) == re.sub("[\ud800-\udfff]", "\ufffd", text).encode()


@settings(max_examples=300)
@given(st.lists(st.one_of(RUNS.map(str.encode), ANY.map(lambda c: c.encode("utf-8", "replace")), BROKEN), max_size=8))
def test_what_is_utf8(pieces: list[bytes]) -> None:
    for end in range(len(data := b"".join(pieces)) + 1):
        try:
            data[:end].decode()
            expected = True
        except UnicodeDecodeError:
            expected = False
        assert is_utf8(data[:end]) == expected, data[:end]


@pytest.mark.parametrize("char", ["\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])
def test_the_first_and_last_of_each_size(char: str) -> None:
    assert utf8_of(char) == char.encode() and is_utf8(char.encode())
    assert not is_utf8(char.encode()[:-1]) and not is_utf8(char.encode()[1:])
