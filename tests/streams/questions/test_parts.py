"""The laws of the parts: word differences, ways between pages, what a terminal gets to see."""

from __future__ import annotations

import sys
import time
from collections import deque
from itertools import pairwise
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.groups.rows import EdgeRow
from dustream.core.text.row_signing import TOKEN_KINDS, TokenKind, TokenRules, sign_rows
from dustream.core.text.tokens import explain_tokens
from dustream.core.vertex import END
from dustream.streams.cli.terminal import searching, shown
from dustream.streams.questions.evidence import GroupEdges, shortest_way
from dustream.streams.questions.shown_tokens import PAGES, ShownTokens
from dustream.streams.questions.state import StoredRows
from dustream.streams.questions.word_diff import PASSAGES_MAX, RUN_WORDS_MAX, word_diff
from dustream.streams.store.memory import MemoryStore

words = st.lists(st.sampled_from(["one", "two", "three", "Four.", "five\n", "六", "日本。"]), max_size=40)


@given(words, words)
def test_what_is_the_same_and_what_differs_is_all_there_is(one: list[str], other: list[str]) -> None:
    found = word_diff(" ".join(one), " ".join(other))
    lengths = [sum(2 if word == "日本。" else 1 for word in each) for each in (one, other)]
    assert found.words_same + found.words_removed == lengths[0]
    assert found.words_same + found.words_added == lengths[1]
    assert (not found.passages) == ([word.lower() for word in one] == [word.lower() for word in other])


def test_case_and_punctuation_do_not_count_and_are_shown() -> None:
    assert word_diff("Hello, World! Bye.", "hello world bye").passages == []
    [[context, removed, added]] = word_diff("Say it: Hello, World!", "Say it: Hello, Moon!").passages
    assert (context.text, removed.text, added.text) == ("Say it: Hello,", "World!", "Moon!")


def test_long_differences_are_cut_and_many_are_counted() -> None:
    [[run, *_]] = word_diff(" ".join(f"w{n}" for n in range(900)), "").passages
    assert len(run.text.split()) < RUN_WORDS_MAX + 5 and "860 words" in run.text
    many = word_diff(
        " ".join(f"w{n}" for n in range(900)), " ".join("x" if n % 30 == 0 else f"w{n}" for n in range(900))
    )
    assert len(many.passages) == PASSAGES_MAX and many.passages_left_out == 30 - PASSAGES_MAX


def test_megabytes_without_anything_in_common() -> None:
    found = word_diff("left side of it " * 100_000, "another right text here " * 100_000)
    assert found.words_same == 0 and found.words_added == 400_000


def test_long_texts_without_breaks_are_compared_word_by_word() -> None:
    one = [f"k{number}" for number in range(20_000)]
    other = ["new", *one[:5_000], "new", *one[5_001:], "end"]
    found = word_diff(" ".join(one), " ".join(other))
    assert (found.words_same, found.words_removed, found.words_added) == (19_999, 1, 3)
    assert [run.text for passage in found.passages for run in passage if run.kind == "added"] == ["new", "new", "end"]


@given(st.integers(0, 2**32), st.sampled_from([3, 40, 3_000]), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_long_texts_of_few_words_keep_most_of_them(seed: int, vocabulary: int, edits: int) -> None:
    """Chinese without punctuation, and texts that repeat themselves: a change of one character counts as about one."""
    random = Random(seed)
    one = random.choices([chr(0x4E00 + number) for number in range(vocabulary)], k=4_000)
    other = list(one)
    for place in sorted(random.sample(range(len(one)), edits), reverse=True):
        other[place : place + 1] = random.choice([[], ["新"], [one[place], "新"]])
    found = word_diff("".join(one), "".join(other))
    assert found.words_same + found.words_removed == len(one) and found.words_same + found.words_added == len(other)
    assert found.words_removed <= (edits if vocabulary == 3_000 else 20 * edits)


@pytest.mark.parametrize("period", [300_000, 9_973, 4])
def test_moved_parts_of_long_texts(period: int) -> None:
    """Also of texts that repeat themselves."""
    random, words = Random(5), [f"w{number}" for number in range(9_000)]
    own = random.choices(words, k=period) * (300_000 // period)
    found = word_diff(" ".join(own), " ".join([*own[200_000:], "new", *own[:200_000]]))
    assert found.words_same >= 0.49 * len(own)
    assert found.words_same + found.words_added == len(own) + 1


@given(st.text(), st.sampled_from([*TOKEN_KINDS]), st.booleans())
def test_differences_are_shown_in_the_tokens_that_are_compared(text: str, kind: TokenKind, keep_case: bool) -> None:
    rules = TokenRules(kind, keep_case=keep_case)
    data = text.encode()
    signed = sign_rows(np.frombuffer(data, np.uint8), np.array([0, len(data)]), rules)
    assert len(ShownTokens(text, rules)) == signed.tokens[0]
    if kind == "words" and not keep_case:
        assert list(ShownTokens(text, PAGES).keys) == explain_tokens(text)


@given(st.text())
def test_nothing_unprintable_is_shown(text: str) -> None:
    assert shown(text).isprintable()
    assert shown(shown(text)) == shown(text)


class SlowInput:
    """As far as a progress bar looks."""

    bytes_read, bytes_total = 0, 1000


def test_long_search_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    opened = SlowInput()
    with searching(opened):  # type: ignore[arg-type]
        deadline = time.monotonic() + 30
        while "reading the texts again" not in capsys.readouterr().err:
            assert time.monotonic() < deadline
            opened.bytes_read += 100
            time.sleep(0.05)


edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


@given(edges, st.integers(0, 12), st.integers(0, 12))
def test_way_is_a_shortest_one(pairs: list[tuple[int, int]], one: int, other: int) -> None:
    graph: dict[str, set[str]] = {str(number): set() for number in range(13)}
    for a, b in pairs:
        graph[str(a)].add(str(b))
        graph[str(b)].add(str(a))
    way = shortest_way(str(one), str(other), lambda vertex: iter(sorted(graph[vertex])))
    distance = _distance(graph, str(one), str(other))
    assert len(way) == (0 if distance is None else distance + 1)
    assert all(there in graph[here] for here, there in pairwise(way))
    assert not way or (way[0], way[-1]) == (str(one), str(other))


@pytest.mark.parametrize(("singly", "at_once"), [(200, 500_000), (3, 500_000), (3, 4), (0, 500_000)])
def test_edges_of_a_group_are_the_same_however_they_are_read(
    singly: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vertex by vertex, or all at once after some; all at once only if they are not too many."""
    monkeypatch.setattr("dustream.streams.questions.evidence.READ_SINGLY_MAX", singly)
    monkeypatch.setattr("dustream.streams.questions.evidence.EDGES_READ_MAX", at_once)
    store, encode = MemoryStore(), msgspec.msgpack.encode
    for group in ("0 g", "0 g\1moving", "0 gg"):
        for number in range(10):
            for other in (number - 1, number + 1):
                key = f"edges/{group}{END}{group}{number}{END}{group}{other}"
                store.put(key.encode(), encode(EdgeRow(0.9 + number / 1000)))
    found = GroupEdges(StoredRows(store, b"edges/", EdgeRow), "0 g")
    for number in range(10):
        expected = {f"0 g{other}": 0.9 + number / 1000 for other in (number - 1, number + 1)}
        assert found.of(f"0 g{number}") == expected
    assert found.of("0 g77") == {}


def _distance(graph: dict[str, set[str]], one: str, other: str) -> int | None:
    reached, waiting = {one: 0}, deque([one])
    while waiting:
        here = waiting.popleft()
        for there in graph[here] - reached.keys():
            reached[there] = reached[here] + 1
            waiting.append(there)
    return reached.get(other)
