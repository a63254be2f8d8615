"""Decomposition loses nothing, and names the parts as Lei's Figure 2 does."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.urls.keys import compose, decompose
from dustream.core.urls.standard import standard_form
from dustream.streams.generate import truth

TRICKY = [
    "http://h",
    "http://h/",
    "http://h?",
    "http://h/?",
    "http://h/?#",
    "http://h/a/b/",
    "http://h//a///b",
    "http://h/a?k&k=&k=1&k&&=v&a=b=c",
    "http://h/a;v=1/b.tar.gz;jsessionid=A;x?y;z#f#g",
    "http://user:pass@h:8080/x",
    "http://h:/x",
    "http://h:99x/x",
    "http://[2001:db8::1]:80/x",
    "http://[broken/x",
    "http://192.0.2.1/x.html",
    "http://bücher.example/ä?ö=ü",
    "http://h/%7Euser/%e4?q=%00",
    "http://h/.htaccess",
    "http://h/v1.2.3/file.",
    "mailto:someone@example.com",
    "//h/path",
    "/path?x=1",
    "http:///no-host",
    "http://h/with space",
    "",
    "\x00\xff",
    "http://h/?q= #2&q=1",
]


@pytest.mark.parametrize("url", TRICKY)
def test_tricky_urls_come_back(url: str) -> None:
    assert compose(decompose(url)) == url


URL_TEXT = st.lists(st.sampled_from("http://a.b:1/?#&=;%.@[] #2é\x00"), max_size=40).map("".join)


@given(st.one_of(st.text(max_size=60), URL_TEXT, URL_TEXT.map("http://".__add__)))
def test_any_text_comes_back(text: str) -> None:
    assert compose(decompose(text)) == text


@given(URL_TEXT.map("http://".__add__))
def test_keys_are_distinct(url: str) -> None:
    keys = [key for key, _ in decompose(url)]
    assert len(keys) == len(set(keys))


@given(st.one_of(st.text(max_size=60), URL_TEXT.map("http://h".__add__), URL_TEXT.map("http://".__add__)))
def test_standard_form_is_idempotent(text: str) -> None:
    once = standard_form(text)
    assert standard_form(once) == once


def test_parts_are_named_as_in_the_paper() -> None:
    assert dict(decompose("https://www.example.com:81/shop/show.php;v=2?id=7&id=8&new#top")) == {
        "scheme": "https", "host_0": "com", "host_1": "example", "host_2": "www", "port": "81",
        "path_0": "shop", "path_1": "show", "ext": "php", ";v=": "2", "?id=": "7", "?id= #2": "8", "?new": "",
        "#": "top",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "standard"),
    [
        ("HTTP://WWW.Example.COM:80/a/./b/../c?#f", "http://www.example.com/a/c"),
        ("https://h:443", "https://h/"),
        ("http://h/%7euser/%e4%2f", "http://h/~user/%E4%2F"),
        ("http://bücher.example/ä b", "http://xn--bcher-kva.example/%C3%A4%20b"),
        ("http://straße.de/", "http://xn--strae-oqa.de/"),
        ("http://a／b.example/", "http://a／b.example/"),
        (" http://h/a\n/b ", "http://h/a/b"),
        ("http://h/#!/page", "http://h/#!/page"),
        ("http://h/%2e%2e/a", "http://h/a"),
        ("mailto:A@B", "mailto:A@B"),
        ("http://h/x/..", "http://h/"),
        ("http://h:8080/", "http://h:8080/"),
    ],
)
def test_standard_steps(url: str, standard: str) -> None:
    assert standard_form(url) == standard


def test_a_url_of_100_kb_is_bounded_and_unharmed() -> None:
    url = "http://h/?" + "&".join(f"k{i}={i}" for i in range(10_000))
    assert compose(decompose(url)) == url
    assert standard_form(url) == url


def test_urls_of_a_generated_web_come_back() -> None:
    urls = [page.url for page in truth(pages=5_000, seed=3) if page.role != "rejected"]
    assert len(urls) > 4_900
    assert [url for url in urls if compose(decompose(url)) != url] == []
    assert [url for url in urls if standard_form(standard_form(url)) != standard_form(url)] == []


DATA = Path(os.environ.get("DUSTREAM_DATA") or os.devnull)


def real_urls_come_back() -> None:
    urls = set()
    for path in sorted(DATA.glob("D_*url_*.tsv.zst")):
        with path.open("rb") as file:
            text = io.TextIOWrapper(zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file), "utf-8")
            urls |= {value for line in text for value in line.rstrip("\n").split("\t") if "://" in value}
    assert len(urls) > 100_000
    assert [url for url in urls if compose(decompose(url)) != url] == []
    standard = [standard_form(url) for url in urls]
    assert [url for url in standard if compose(decompose(url)) != url or standard_form(url) != url] == []


if DATA.is_dir():  # a list that need not be there leaves no test that is skipped
    test_real_urls_come_back = real_urls_come_back
