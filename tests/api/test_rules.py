"""Rules in a Python program: learned, saved, loaded, applied."""

from __future__ import annotations

from pathlib import Path

import pytest

import dustream

URLS = [
    {"url": f"https://example.com/{kind}/{page}{sid}", "digest": f"{kind} {page}"}
    for kind in ("news", "shop", "help")
    for page in range(20)
    for sid in ("", f"?sid={page}7", f"?sid={page}9")
]


def test_what_is_learned_can_be_saved_loaded_and_applied(tmp_path: Path) -> None:
    book = dustream.learn(URLS)
    url = "https://example.com/news/99?sid=5"
    assert book.normalize(url) == "https://example.com/news/99"
    assert [step.rule for step in book.explain(url).steps if step.rule]
    book.save(tmp_path / "rules.json")
    loaded = dustream.RuleBook.load(tmp_path / "rules.json")
    assert list(loaded) == list(book)
    assert len(loaded) == 1 and loaded.rules("example.com") is not None and loaded.rules("example.org") is None
    assert dustream.normalize(url, loaded) == dustream.normalize(url, tmp_path / "rules.json") == book.normalize(url)


def test_the_rules_of_a_run_can_be_loaded(tmp_path: Path) -> None:
    with dustream.open(tmp_path) as state:
        state.add({"url": each["url"], "fetched_at": 1, "text": f"{each['digest']} " * 30} for each in URLS)
        book = dustream.RuleBook(state.rules("example.com"))
    assert book.normalize("https://example.com/shop/99?sid=5") == "https://example.com/shop/99"


def test_more_pages_may_be_asked_for() -> None:
    assert [rule.stage for rules in dustream.learn(URLS, pages_min=1_000) for rule in rules.rules] == ["shadow"]


def test_what_tells_nothing_is_refused() -> None:
    with pytest.raises(dustream.BadInput, match="item 1 tells of no page"):
        dustream.learn([("https://example.com/", "a"), ("nowhere", "b")])
    with pytest.raises(dustream.UnreadableInput):
        dustream.normalize("https://example.com/", "no such file")
