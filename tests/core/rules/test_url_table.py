"""Compiled decomposition against `keys_and_values`."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dustream.core.rules.url_table import UrlTable
from dustream.core.urls.keys import keys_and_values

PIECES = st.sampled_from(
    ["http://", "https://", "www.", "example", ".com", ".", "/", "//", "a", "B7", ".html", ".x", ".7z", "?", "&", "=",
     "k=", "k", "id=1", ";", ";v=2", "#", ":80", "user@", "127.0.0.1", "[::1]", "%20", "é", "\x7f", " ", "..", "-_~"]
)  # fmt: skip
URLS = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=20)
PREFIXED = st.tuples(st.sampled_from(["http://a.example.com/", "https://example.com", ""]), URLS).map("".join)


@given(st.lists(st.lists(PREFIXED, max_size=12), max_size=3))
@settings(max_examples=400)
@example([["http://example.com/a.b/.htaccess", "http://example.com/x.tar.gz?", "http://example.com?a&a=&a=1"]])
@example([["http://127.0.0.1/a", "http://1.2.3/", "http://.com/", "http:///x", "http://a", "https:/", "http://é.com/"]])
def test_a_table_holds_what_decomposition_says(batches: list[list[str]]) -> None:
    table = UrlTable()
    for urls in batches:
        codes: dict[str, int] = {}
        rows = table.rows(urls)
        structures, own = table.structures(rows)
        keys = {key: number for number, key in enumerate(sorted({key for each in structures for key in each}))}
        values, text_codes, decimal = table.values(rows, keys)
        for column, (url, structure) in enumerate(zip(urls, own.tolist(), strict=True)):
            expected_keys, expected_values = keys_and_values(url)
            numbers = [codes.setdefault(value, len(codes) + 1) for value in expected_values]
            assert structures[structure] == expected_keys
            expected = np.zeros(len(keys), np.int32)
            expected[[keys[key] for key in expected_keys]] = numbers
            assert values[:, column].tolist() == expected.tolist()
        texts = table.texts(text_codes)
        assert texts == ("", *codes)
        assert decimal.tolist() == [text.isdecimal() for text in texts]
        assert [table.urls[row] for row in rows] == urls


def test_a_url_with_very_many_query_keys() -> None:
    url = "http://example.com/?" + "&".join(f"k{i}=v" for i in range(10_000))
    table = UrlTable()
    structures, own = table.structures(table.rows(["http://example.com/", url]))
    assert len(structures[own[1]]) == len(keys_and_values(url)[0])
