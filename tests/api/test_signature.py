"""Signatures and extraction as a Python program uses them."""

from __future__ import annotations

import pickle

import pytest
from datasketch import MinHash

import dustream
from dustream.core.text.signature import sign, sign_page

WORDS = " ".join(f"word{number}" for number in range(200))


def test_a_signature_is_that_of_the_engine() -> None:
    assert dustream.sign(WORDS).content_hash == sign(WORDS).content_hash.hex()
    page = f"<html><body><p>{WORDS}</p></body></html>"
    assert dustream.sign(page).content_hash == sign_page(page).content_hash.hex()
    assert dustream.sign(page.encode()).content_hash == dustream.sign(page).content_hash


@pytest.mark.parametrize(
    ("content", "is_html"),
    [
        ("<!DOCTYPE html><p>a b", True),
        ("  <!-- a comment --> <html>a b", True),
        ("\ufeff<p>a b", True),
        ("<?xml version='1.0'?><html>a b", True),
        (b"<body class=x>a b", True),
        ("a < b and <p> c", False),
        ("<paragraph>a b", False),
        ("<!-- " * 500, False),
        ("", False),
    ],
)
def test_html_is_told_by_how_it_begins(content: str | bytes, is_html: bool) -> None:
    assert dustream.sign(content) == dustream.sign(content, html=is_html)


def test_what_is_said_overrules_what_it_looks_like() -> None:
    assert dustream.sign("<p>a b", html=False).token_count == 5
    assert dustream.sign("<p>a b").token_count == 2


def test_similarity_is_exact_and_containment_has_a_direction() -> None:
    whole, part = dustream.sign(WORDS), dustream.sign(" ".join(WORDS.split()[:100]))
    assert whole.jaccard(part) == part.jaccard(whole) == 96 / 204  # windows of five, the last four filled up
    assert whole.contains(part) > 0.9 > 0.5 > part.contains(whole)
    assert whole.contains(dustream.sign("")) == 0.0


def test_a_datasketch_minhash_estimates_the_same() -> None:
    one, other = dustream.sign(WORDS), dustream.sign(WORDS + " and a few words more")
    sketches = [one.to_datasketch(), other.to_datasketch()]
    assert isinstance(sketches[0], MinHash)
    assert abs(sketches[0].jaccard(sketches[1]) - one.jaccard(other)) < 0.1


def test_signatures_travel() -> None:
    one = dustream.sign(WORDS)
    assert pickle.loads(pickle.dumps(one)) == one
    assert dustream.Signature.from_bytes(one.to_bytes()) == one
    assert {one: 1}[dustream.sign(WORDS)] == 1
    with pytest.raises(dustream.BadInput, match="no signature"):
        dustream.Signature.from_bytes(b"something else")


def test_what_a_page_says() -> None:
    page = dustream.extract(
        f"<html lang=en><head><title>A  title</title><link rel=canonical href='/c'></head><nav>Menu</nav><p>{WORDS}"
    )
    assert (page.title, page.lang, page.canonical) == ("A title", "en", "/c")
    assert page.text == WORDS
    assert "Menu" in dustream.extract("<nav>Menu</nav><p>" + WORDS, mode="full").text
