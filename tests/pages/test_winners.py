"""The winner order: strict, total, and able to say what decided."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from dustream.core.errors import BadSetting
from dustream.core.pages.rows import PageRow
from dustream.core.urls.parts import url_parts
from dustream.core.vertex import epoch_of, first_seen_of, url_of, vertex_name
from dustream.core.winners import CRITERIA, Market, Markets, WinnerOrder
from dustream.schemas.pages import Canonical

DAY_MS = 86_400_000
urls = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=30)
vertices = st.tuples(st.integers(0, 1 << 45), urls, st.integers(0, 1 << 45))
all_criteria = st.permutations(sorted(CRITERIA)).map(tuple)


def key(
    market: Market,
    url: str,
    first_seen_ms: int = 0,
    popularity: float | None = None,
    canonical: Canonical = "none",
) -> bytes:
    page = PageRow(0, first_seen_ms, popularity=popularity, canonical=canonical)
    return Markets((market,)).keys(url, page, vertex_name(first_seen_ms, url, 1))[0]


@given(vertices)
def test_a_vertex_name_says_all(vertex: tuple[int, str, int]) -> None:
    name = vertex_name(*vertex)
    assert (first_seen_of(name), url_of(name), epoch_of(name)) == vertex


@given(all_criteria, vertices, vertices)
def test_no_two_vertices_have_one_key_and_a_key_names_its_vertex(
    criteria: tuple[str, ...], one: tuple[int, str, int], other: tuple[int, str, int]
) -> None:
    order = WinnerOrder(Market(criteria=criteria))
    keys = [
        Markets((order.market,)).keys(url, PageRow(0, first_seen), vertex_name(first_seen, url, epoch))[0]
        for first_seen, url, epoch in (one, other)
    ]
    assert (keys[0] == keys[1]) == (one == other)
    assert order.vertex(keys[0]) == vertex_name(*one)


@pytest.mark.parametrize(
    ("criterion", "better", "worse"),
    [
        ("static", "http://a.example/x", "http://a.example/x?y"),
        ("https", "https://a.example/", "http://a.example/"),
        ("depth", "http://a.example/x/", "http://a.example/x/y"),
        ("url_length", "http://a.example/", "http://a.example/a/long/way/down"),
        ("preferred_host", "http://b.example/", "http://a.example/"),
        ("preferred_tld", "http://a.org/", "http://a.com/"),
    ],
)
def test_each_criterion_decides(criterion: str, better: str, worse: str) -> None:
    preferences = {"preferred_host": {"preferred_hosts": ("b.example",)}, "preferred_tld": {"preferred_tlds": ("org",)}}
    market = Market(criteria=(criterion,), **preferences.get(criterion, {}))
    assert key(market, better) < key(market, worse)
    assert WinnerOrder(market).decided_by(key(market, better), key(market, worse)) == criterion


def test_popularity_decides_by_powers_of_two_and_the_unknown_come_last() -> None:
    market = Market(criteria=("popularity",))
    order = WinnerOrder(market)
    url = "http://a.example/"
    assert key(market, url, popularity=8.0) < key(market, url, popularity=7.0)
    assert key(market, url, popularity=5.0) == key(market, url, popularity=7.0)
    places = [key(market, url, popularity=value)[: order.width] for value in (1e300, 1e9, 1.0, 1e-30, 0.0, -1.0, None)]
    assert places == sorted(places)
    assert key(market, url, popularity=float("nan")) == key(market, url)


def test_a_page_that_names_itself_comes_first_and_one_that_names_another_comes_last() -> None:
    market, url = Market(), "http://a.example/1"
    places = [key(market, url, canonical=each) for each in ("self", "none", "other")]
    assert places == sorted(places) and len(set(places)) == 3
    popular = key(market, "http://a.example/2", popularity=1e6, canonical="other")
    assert WinnerOrder(market).decided_by(popular, places[1]) == "canonical" and places[1] < popular
    secure = key(market, "https://a.example/a/long/way/down?x")
    assert secure < key(market, "http://a.example/") < key(market, "https://a.example/", canonical="other")


def test_a_preferred_host_comes_before_what_pages_say_of_themselves() -> None:
    market = Market(preferred_hosts=("b.example",))
    assert key(market, "http://b.example/", canonical="other") < key(market, "http://a.example/", canonical="self")


@pytest.mark.parametrize(
    ("market", "missing"),
    [
        (Market(preferred_tlds=("uk",)), "preferred_tld"),
        (Market(preferred_hosts=("a.example",), criteria=("url_hash",)), "preferred_host"),
        (Market(first_seen_step_days=30), "first_seen"),
    ],
)
def test_a_preference_that_no_criterion_uses_is_refused(market: Market, missing: str) -> None:
    with pytest.raises(BadSetting, match=f"has no effect, because {missing} is not among the criteria"):
        Markets((market,))
    Markets((replace(market, criteria=(missing, *market.criteria)),))


def test_first_seen_decides_in_coarse_steps() -> None:
    market = Market(criteria=("first_seen", "url_hash"), first_seen_step_days=30)
    order, url = WinnerOrder(market), "http://a.example/"
    first, same, later = (key(market, url, day * DAY_MS) for day in (1, 29, 31))
    assert order.decided_by(first, later) == "first_seen" and first < later
    assert order.decided_by(first, same) == "name"


@pytest.mark.parametrize(
    "markets",
    [
        (),
        (Market(), Market()),
        (Market(criteria=("beauty",)),),
        (Market(criteria=("https", "https")),),
        (Market(first_seen_step_days=0),),
    ],
)
def test_markets_that_make_no_sense(markets: tuple[Market, ...]) -> None:
    with pytest.raises(BadSetting):
        Markets(markets)


URL_PIECES = (
    *("http", "https", "HTTP", "ftp", "://", ":", "/", "//", "?", "#", "@", "[", "]"),
    *("%41", "a.b", "ü", "host", "\t", "\n", " ", "\x00", "é"),
)


@given(st.one_of(st.lists(st.sampled_from(URL_PIECES)).map("".join), st.text(max_size=20).map("https://".__add__)))
@example("http://bücher.example/x")
@example("https://a.example/b\nc?d#e")
def test_plain_urls_are_split_as_the_library_splits_them(url: str) -> None:
    try:
        expected = urlsplit(url)
    except ValueError:
        expected = SplitResult("", "", url, "", "")
    assert url_parts(url) == expected
