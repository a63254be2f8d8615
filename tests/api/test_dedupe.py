"""`dustream.dedupe` on every kind of data it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import hypothesis.strategies as st
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given

import dustream
from dustream.core.text import row_signing

WORDS = [f"word{number}" for number in range(120)]
NEAR, FAR = " ".join([*WORDS, "end"]), " ".join(reversed(WORDS))
TEXTS = [" ".join(WORDS), FAR, NEAR, None, " ".join(WORDS), "", FAR.upper()]
ROLES = ["winner", "winner", "duplicate", "not_compared", "duplicate", "not_compared", "duplicate"]

TABLES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
    "datasets": datasets.Dataset.from_dict,
}


def column(table: Any, name: str) -> list[Any]:
    values = table[name]
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def test_texts_and_dicts() -> None:
    found = dustream.dedupe(TEXTS)
    assert [verdict.role for verdict in found.verdicts] == ROLES
    assert list(found.kept()) == [TEXTS[0], FAR, None, ""]
    assert list(found.dropped()) == [NEAR, TEXTS[4], FAR.upper()]
    records = [{"name": name, "text": text} for name, text in zip("abcdefg", TEXTS, strict=True)]
    by_name = dustream.dedupe(iter(records), id="name")
    assert [verdict.winner for verdict in by_name.verdicts] == ["a", "b", "a", "d", "a", "f", "b"]
    assert [verdict.relation for verdict in by_name.verdicts] == [
        None, None, "near", None, "exact", None, "same_tokens",
    ]  # fmt: skip
    assert [verdict.reason for verdict in by_name.verdicts] == [None, None, None, "no_text", None, "no_text", None]
    assert [cluster.members for cluster in by_name.clusters()] == [["a", "c", "e"], ["b", "g"]]
    assert list(by_name.kept()) == [records[0], records[1], records[3], records[5]]


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_comes_back_as_it_was_with_four_columns_more(kind: str) -> None:
    table = TABLES[kind]({"name": list("abcdefg"), "body": TEXTS, "size": list(range(7))})
    found = dustream.dedupe(table, text="body", id="name")
    assert type(found.kept()) is type(table) and type(found.table) is type(table)
    assert column(found.kept(), "name") == ["a", "b", "d", "f"]
    assert column(found.dropped(), "size") == [2, 4, 6]
    assert column(found.table, "name") == list("abcdefg")
    assert column(found.table, "dedupe_role") == ROLES
    assert column(found.table, "dedupe_group") == ["a", "b", "a", "d", "a", "f", "b"]
    assert column(found.table, "dedupe_winner") == ["a", "b", "a", "d", "a", "f", "b"]
    assert column(found.table, "dedupe_similarity")[2] == found.verdicts[2].similarity
    again = dustream.dedupe(found.table, text="body", id="name")
    assert column(again.table, "dedupe_role") == ROLES


def shingles(text: str, size: int = 5) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[start : start + size]) for start in range(max(1, len(words) - size + 1))}


def plain_jaccard(one: str, other: str) -> float:
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


def test_similarities_are_plain_jaccard_of_five_words() -> None:
    found = dustream.dedupe(TEXTS)
    assert found.verdicts[2].similarity == plain_jaccard(NEAR, TEXTS[0] or "") == 116 / 117


def test_a_threshold_decides() -> None:
    similarity = dustream.dedupe(TEXTS).verdicts[2].similarity
    assert dustream.dedupe(TEXTS, threshold=similarity + 0.001).verdicts[2].role == "unique"
    with pytest.raises(dustream.BadSetting, match="above 0 and at most 1"):
        dustream.dedupe(TEXTS, threshold=1.5)


@pytest.mark.parametrize(("prefer", "kept"), [("first", 0), ("last", 2), ("longest", 1)])
def test_which_record_is_kept(prefer: Any, kept: int) -> None:
    texts = [" ".join(WORDS), NEAR, " ".join(WORDS)]
    assert [each.winner for each in dustream.dedupe(texts, prefer=prefer).verdicts] == [kept] * 3


def test_pages_are_compared_by_their_main_text() -> None:
    pages = [f"<html><nav><a href=/>{menu}</a></nav><p>{' '.join(WORDS)}.</p>" for menu in ("Home", "News")]
    found = dustream.dedupe([{"page": page} for page in pages], html="page")
    assert found.verdicts[1].relation == "exact"
    assert found.why(0, 1).words == "the same text"


def test_a_field_decides_which_record_is_kept() -> None:
    records = [
        {"text": NEAR, "score": score, "name": name} for score, name in [(1, "a"), (3, "b"), (None, "c"), (3, "d")]
    ]
    assert dustream.dedupe(records, prefer="score:desc").verdicts[0].winner == 1
    assert dustream.dedupe(records, prefer=["score:desc", "last"]).verdicts[0].winner == 3
    assert dustream.dedupe(records, prefer="score:asc").verdicts[1].winner == 0
    with pytest.raises(dustream.BadSetting, match="'best' is not known"):
        dustream.dedupe(records, prefer="best")


@pytest.mark.parametrize("kind", ["dicts", "pandas", "pyarrow", "datasets", "polars"])
def test_nested_names(kind: str) -> None:
    rows = [{"meta": {"body": text, "id": number}} for number, text in enumerate(TEXTS)]
    data = rows if kind == "dicts" else TABLES[kind]({"meta": [row["meta"] for row in rows]})
    found = dustream.dedupe(data, text="meta.body", id="meta.id", prefer="meta.id:desc")
    assert [each.winner for each in found.verdicts] == [4, 6, 4, 3, 4, 5, 6]


def test_other_records_drop_what_they_have() -> None:
    others = [{"id": "old", "text": TEXTS[0]}]
    records = [
        {"id": name, "text": text} for name, text in zip("abcd", [NEAR, FAR, FAR, "something else"], strict=True)
    ]
    found = dustream.dedupe(records, id="id", against=others)
    assert [(each.role, each.winner, each.against) for each in found.verdicts] == [
        ("duplicate", "old", True), ("winner", "b", False), ("duplicate", "b", False), ("unique", "d", False),
    ]  # fmt: skip
    only = dustream.dedupe(records, id="id", against=others, only_against=True)
    assert [each.role for each in only.verdicts] == ["duplicate", "unique", "unique", "unique"]


def test_operators_count_in_code() -> None:
    texts = [
        "x = a + b if a > 2 else c[0] or d",
        "x = a - b if a <= 2 else c[0] or d",
        "x=a+b if a>2 else c[0] or d",
        "X = a + b if a > 2 else c[0] or d",
    ]
    assert len(list(dustream.dedupe(texts).kept())) == 1
    found = dustream.dedupe(texts, tokens="code")
    assert [each.relation for each in found.verdicts] == [None, None, "same_tokens", None]
    assert len(list(dustream.dedupe(texts[:3], tokens="raw").kept())) == 3
    assert len(list(dustream.dedupe([texts[0], texts[3]], keep_case=True).kept())) == 2


def test_texts_of_few_tokens_are_left_alone() -> None:
    found = dustream.dedupe(["one two", "one two", NEAR, NEAR], min_tokens=3)
    assert [each.role for each in found.verdicts] == ["not_compared", "not_compared", "winner", "duplicate"]
    assert found.verdicts[0].reason == "too_short"


def test_arabic_with_and_without_vowel_signs_is_the_same() -> None:
    found = dustream.dedupe(["كتب الولد رسالة", "كَتَبَ الوَلَدُ رِسَالَةً"])
    assert found.verdicts[1].relation == "same_tokens"


@pytest.mark.parametrize("tokens", ["words", "characters", "code"])
def test_traditional_and_simplified_chinese_can_be_the_same(tokens: Any) -> None:
    texts = ["漢語的書寫系統，後來簡化了。台灣", "汉语的书写系统，后来简化了。台湾"]
    assert [each.role for each in dustream.dedupe(texts, tokens=tokens).verdicts] == ["unique", "unique"]
    found = dustream.dedupe(texts, tokens=tokens, fold_chinese=True)
    assert (found.verdicts[1].role, found.verdicts[1].relation) == ("duplicate", "same_tokens")


def test_folding_chinese_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    row_signing._table.cache_clear()
    monkeypatch.setitem(sys.modules, "opencc", None)
    with pytest.raises(dustream.DustreamError, match=r"dustream\[chinese\]"):
        dustream.dedupe(["one text"], fold_chinese=True, keep_case=True)
    with pytest.raises(dustream.DustreamError, match="another kind"):
        dustream.dedupe(["one text"], fold_chinese=True, tokens="raw")


def test_reasons() -> None:
    found = dustream.dedupe([{"id": name, "text": text} for name, text in zip("abcdefg", TEXTS, strict=True)], id="id")
    near = found.why("a", "c")
    assert near.same_group and near.similarity > 0.9 and near.words.startswith("near-duplicates")
    assert near.diff.words_added == 1 and near.a_in_b > near.b_in_a * 0.9
    assert found.why("a", "b").words.startswith("no near-duplicates: 0.0")
    assert found.why("a", "d").words == "not comparable: one of them has no text, or too little"
    with pytest.raises(KeyError, match="no record"):
        found.why("a", "nobody")


@pytest.mark.parametrize("data", ["one text", 7, {"text": "a"}])
def test_what_is_no_collection_of_records_is_refused(data: Any) -> None:
    with pytest.raises(dustream.BadInput, match="no collection of records"):
        dustream.dedupe(data)


def test_wrong_names_and_types_are_told() -> None:
    with pytest.raises(dustream.BadInput, match="no record has 'text'; there are body"):
        dustream.dedupe([{"body": "a"}])
    with pytest.raises(dustream.BadInput, match="no column 'text'; there are body"):
        dustream.dedupe(pandas.DataFrame({"body": ["a"]}))
    with pytest.raises(dustream.BadInput, match="no record has a text in 'text'"):
        dustream.dedupe([{"text": None}, {"text": 5}])
    with pytest.raises(dustream.BadInput, match="is a path"):
        dustream.dedupe(Path("a.jsonl"))


def test_texts_that_are_no_strings_are_kept() -> None:
    found = dustream.dedupe([{"text": NEAR}, {"text": 5}, {"text": NEAR}, {"text": None}])
    assert [(each.role, each.reason) for each in found.verdicts] == [
        ("winner", None), ("not_compared", "not_text"), ("duplicate", None), ("not_compared", "no_text"),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_missing_values_of_pandas(dtype: Any) -> None:
    texts = pandas.Series([NEAR, None, NEAR, pandas.NA if dtype == "string" else float("nan")]).astype(dtype)
    found = dustream.dedupe(pandas.DataFrame({"text": texts, "score": [1, 2, 3, 4]}), prefer="score:desc")
    assert [each.role for each in found.verdicts] == ["duplicate", "not_compared", "winner", "not_compared"]
    assert found.kept().index.tolist() == [1, 2, 3]
    assert [each.role for each in dustream.dedupe(texts).verdicts] == [
        "winner",
        "not_compared",
        "duplicate",
        "not_compared",
    ]


@pytest.mark.parametrize("make", [polars.Series, lambda texts: pyarrow.chunked_array([texts]), pyarrow.array, iter])
def test_one_column_of_texts(make: Callable[[list[str]], Any]) -> None:
    assert list(dustream.dedupe(make([NEAR, "another text", NEAR])).kept()) == [NEAR, "another text"]


def test_record_batches_come_back_as_tables() -> None:
    found = dustream.dedupe(pyarrow.RecordBatch.from_pylist([{"text": NEAR}, {"text": NEAR}]))
    assert found.kept().to_pylist() == [{"text": NEAR}]
    assert found.table["dedupe_role"].to_pylist() == ["winner", "duplicate"]


def test_nothing_in_nothing_out() -> None:
    found = dustream.dedupe([])
    assert (len(found), found.verdicts, list(found.kept()), list(found.clusters())) == (0, [], [], [])


@given(st.lists(st.sampled_from([" ".join(WORDS[:end]) for end in range(60, 120)]), max_size=20))
def test_no_record_is_dropped_but_for_a_kept_one_that_it_matches(texts: list[str]) -> None:
    found = dustream.dedupe(texts)
    for number, verdict in enumerate(found.verdicts):
        winner = found.verdicts[verdict.winner]
        assert winner.role != "duplicate"
        assert verdict.similarity == plain_jaccard(texts[number], texts[verdict.winner])
        assert verdict.similarity >= 0.9
    kept = [number for number, verdict in enumerate(found.verdicts) if verdict.role != "duplicate"]
    for place, one in enumerate(kept):
        assert all(plain_jaccard(texts[one], texts[other]) < 0.9 for other in kept[place + 1 :])


def test_what_differs_between_long_texts_without_breaks() -> None:
    words = " ".join(f"k{number}" for number in range(1_000))
    diff = dustream.dedupe([words, words + " end"]).why(0, 1).diff
    assert (diff.words_same, diff.words_removed, diff.words_added) == (1_000, 0, 1)


def test_what_differs_is_what_was_compared() -> None:
    words = " ".join(f"k{number}" for number in range(100))
    diff = dustream.dedupe([words + " X == 1", words + " x == 1"], tokens="code").why(0, 1).diff
    assert [run.text for run in diff.passages[0] if run.kind != "same"] == ["X", "x"]


@pytest.mark.parametrize("kind", TABLES)
def test_columns_of_the_table_stay(kind: str) -> None:
    own = {name: [f"{name} {number}" for number in range(3)] for name in ("role", "group", "winner", "similarity")}
    found = dustream.dedupe(TABLES[kind]({"text": [FAR, NEAR, FAR], **own}))
    for name, values in own.items():
        assert column(found.table, name) == values
    assert column(found.table, "dedupe_role") == ["winner", "unique", "duplicate"]


def test_columns_of_one_name_and_ids_that_are_lists() -> None:
    table = pandas.DataFrame([[FAR, NEAR]], columns=["text", "text"])
    with pytest.raises(dustream.BadInput, match="several columns 'text'"):
        dustream.dedupe(table)
    found = dustream.dedupe([{"id": [1], "text": FAR}, {"id": [2], "text": NEAR}], id="id")
    with pytest.raises(dustream.BadInput, match="the id of record 0 is a list"):
        found.why([1], [2])
    with pytest.raises(dustream.BadInput, match="the id of record 0 is a list"):
        found.why(1, 2)
    named = dustream.dedupe([{"id": 1, "text": FAR}], id="id")
    with pytest.raises(KeyError, match="no record has the id"):
        named.why([1], 1)
