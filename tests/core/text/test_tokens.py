"""Tokens: the rules, the compiled pass against them, and memory safety."""

from __future__ import annotations

import importlib.util
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.errors import BadEvent
from dustream.core.text import char_classes, tokens
from dustream.core.text.function_words import FUNCTION_WORDS

SCRIPTS = st.text(
    st.one_of(
        st.sampled_from(" \n.,-'\u200b\u00ad\u0301\u3099\u0e34\ufe0f\u0640"),
        st.characters(max_codepoint=0x24F),
        st.characters(min_codepoint=0x370, max_codepoint=0x11FF),
        st.characters(min_codepoint=0x3000, max_codepoint=0x30FF),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x4E40),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xAC40),
        st.characters(min_codepoint=0xFF00, max_codepoint=0xFFEF),
        st.characters(min_codepoint=0x1F300, max_codepoint=0x1F3FF),
        st.characters(),
    ),
    max_size=60,
)
MASK = 0xFFFFFFFFFFFFFFFF


def fmix64(h: int) -> int:
    h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return h ^ (h >> 33)


def token_hash(token: str) -> int:
    h = 0
    for char in token:
        h = ((h ^ ord(char)) * 0x9FB21C651E98DF25) & MASK
    return fmix64(h)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The quick, brown FOX-trot 42! And so on.", ["the", "quick", "brown", "fox", "trot", "42", "and", "so", "on"]),
        ("The quick, brown FOX-trot 42!", ["the", "quick", "brown", "fox", "-", "trot", "42"]),  # a short text
        ("C++ (or C#)? ★★☆", ["c", "++", "or", "c", "#", "★★☆"]),
        ("Ünïcode STRASSE ЁЛКА ΣΊΣΥΦΟΣ ԱԲԳ", ["ünïcode", "strasse", "ёлка", "σίσυφοσ", "աբգ"]),
        ("中文网页, ok", ["中", "文", "网", "页", "ok"]),
        ("Python3入門とABC", ["python3", "入", "門", "と", "abc"]),
        ("ガイド", ["ガ", "イ", "ド"]),
        ("ｱｶＡＢＣ１２", ["ア", "カ", "abc12"]),
        ("ｶﾞ", ["カ\u3099"]),  # one token, though not the composed ガ
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("안녕하세요 세계", ["안녕하세요", "세계"]),
        ("मैं हिन्दी", ["मैं", "हिन्दी"]),
        ("السلام عليكم", ["السلام", "عليكم"]),
        ("كــتاب", ["كتاب"]),
        ("co\u00adop zero\u200bwidth \ufeffbom", ["coop", "zerowidth", "bom"]),
        ("cafe\u0301 = café", ["café", "=", "café"]),
        ("👍🏽 ok ❤️", ["👍", "ok", "❤"]),
        ("𠀀𠀁 x", ["𠀀", "𠀁", "x"]),
        ("…—!? \t\n", []),
        ("", []),
    ],
)
def test_rules(text: str, expected: list[str]) -> None:
    assert tokens.explain_tokens(text) == expected


@settings(max_examples=300)
@given(SCRIPTS)
def test_the_compiled_pass_follows_the_rules(text: str) -> None:
    expected = [token_hash(token) for token in tokens.explain_tokens(text)]
    assert tokens.token_hashes(text).tolist() == expected


LONG = st.lists(
    st.sampled_from(
        ["a", "Word", "x" * 70, "longer words", " ", "  ", ", ", "\n", "é", "中文", "e\u0301", "\u200b", "1"]
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=300)
@given(LONG, st.integers(0, 3))
def test_long_runs_of_ascii_give_the_same_tokens(pieces: list[str], blanks: int) -> None:
    """They are hashed in lanes, wherever those begin and whatever is around them."""
    text = " " * blanks + "".join(pieces)
    assert tokens.token_hashes(text).tolist() == [token_hash(token) for token in tokens.explain_tokens(text)]


def test_one_word_without_a_separator_is_one_token() -> None:
    assert tokens.token_hashes("a" * 1000).tolist() == [token_hash("a" * 1000)]


@pytest.mark.parametrize("words", FUNCTION_WORDS.values())
def test_the_little_words_are_tokens_as_they_stand(words: str) -> None:
    assert [tokens.hash_of_word(word) for word in words.split()] == tokens.token_hashes(words).tolist()


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_safe(data: bytes) -> None:
    hashes, content_hash = tokens.hash_stream(data)
    assert len(hashes) <= len(data)
    assert len(content_hash) == 16
    # Nothing behind the end is read: the same bytes at the end of a longer buffer give the same.
    view = np.frombuffer(data + b"\xbf\xbfabc", dtype=np.uint8)[: len(data)]
    alone = np.frombuffer(data, dtype=np.uint8)
    place = np.empty(tokens.tokens_max(len(data)), dtype=np.uint64)
    of_view, of_alone = (tokens.hash_tokens(each, tokens.char_table(), place) for each in (view, alone))
    assert of_view == of_alone


def test_whatever_nfc_changes_is_noticed() -> None:
    table = tokens.char_table()
    for code in range(char_classes.TABLE_SIZE):
        if not 0xD800 <= code < 0xE000 and not unicodedata.is_normalized("NFC", chr(code)):
            assert table[code] & 8, hex(code)
        # Joins with a preceding letter: é, が, a Hangul syllable.
        if any(unicodedata.normalize("NFC", base + chr(code)) != base + chr(code) for base in "eか\u1100가"):
            assert table[code] & 8, hex(code)


@settings(max_examples=200)
@given(SCRIPTS, SCRIPTS)
def test_content_hash_is_of_the_tokens(a: str, b: str) -> None:
    same_tokens = tokens.explain_tokens(a) == tokens.explain_tokens(b)
    hash_a, hash_b = (tokens.hash_stream(tokens.text_bytes(text))[1] for text in (a, b))
    assert (hash_a == hash_b) == same_tokens


def test_content_hash_sees_boundaries_and_order() -> None:
    texts = ["ab c", "a bc", "abc", "a b c", "c b a", "a b", ""]
    assert len({tokens.hash_stream(text.encode())[1] for text in texts}) == len(texts)


def test_token_length_vector_counts_repeats() -> None:
    table = np.zeros(tokens.BUCKETS, dtype=np.uint8)
    table[token_hash("b") >> 52] = 2
    assert tokens.token_length_vector("a b b a b c", table).tolist() == [3, 0, 3]


def test_a_wrong_table_is_refused() -> None:
    with pytest.raises(ValueError, match="4096 uint8"):
        tokens.token_length_vector("a", np.zeros(10, dtype=np.uint8))


def test_text_limit() -> None:
    with pytest.raises(BadEvent, match="at most 8388608"):
        tokens.text_bytes("x" * (tokens.TEXT_BYTES_MAX + 1))


def test_table_is_what_the_generator_gives() -> None:
    if unicodedata.unidata_version != char_classes.UNICODE_VERSION:
        pytest.skip(f"table of Unicode {char_classes.UNICODE_VERSION}, Python of {unicodedata.unidata_version}")
    path = Path(__file__).with_name("generate_char_classes.py")
    spec = importlib.util.spec_from_file_location("generate_char_classes", path)
    assert spec and spec.loader
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.render() == Path(char_classes.__file__).read_text("utf-8")
