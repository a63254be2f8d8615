"""The generated web: the same bytes everywhere, and every class of page in it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import islice

import msgspec
import pytest

from dustream.core.errors import BadSetting
from dustream.core.events import check_event
from dustream.streams.generate import generate, truth
from dustream.streams.generate.block import BLOCK_PAGES_MAX, FAMILIES
from dustream.streams.generate.languages import LANGUAGES
from dustream.streams.generate.prose import PAGE_WORDS_MAX, PAGE_WORDS_MIN, PAGE_WORDS_MODE, page_lengths
from dustream.streams.generate.urls import RULES

PAGES = 600
GOLDEN_EVENTS = "f6a396799edf01288abce8ea8c90346eb2d9a4251d35dfaa7b650784f70f35e9"
GOLDEN_TRUTH = "309a697c5f60a5fa1cf9dc4f093e64f9b48bbf44da2d96e7c145788fefc800f6"

HASH_PROGRAM = f"""
import hashlib, msgspec
from dustream.streams.generate import generate, truth
for lines in (generate({PAGES}, 1), truth({PAGES}, 1)):
    print(hashlib.sha256(b"".join(msgspec.json.encode(line) for line in lines)).hexdigest())
"""


def digest(lines) -> str:
    return hashlib.sha256(b"".join(msgspec.json.encode(line) for line in lines)).hexdigest()


@pytest.fixture(scope="module")
def events():
    return list(generate(PAGES, 1))


@pytest.fixture(scope="module")
def truths():
    return list(truth(PAGES, 1))


def test_bytes_are_pinned(events, truths) -> None:
    """A change here changes every generated web: results before and after it cannot be compared."""
    assert digest(events) == GOLDEN_EVENTS
    assert digest(truths) == GOLDEN_TRUTH


def test_bytes_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(
        [sys.executable, "-c", HASH_PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [GOLDEN_EVENTS, GOLDEN_TRUTH]


def test_another_seed_is_another_web(truths) -> None:
    others = {page.url for page in truth(PAGES, 2)} - {""}
    assert not others & {page.url for page in truths}


def test_markup_changes_size_and_nothing_else(events) -> None:
    slim = list(generate(PAGES, 1, markup_bytes=2_000))
    assert [(e.url, e.fetched_at, e.status) for e in slim] == [(e.url, e.fetched_at, e.status) for e in events]
    assert sum(len(e.html or "") for e in slim) * 2 < sum(len(e.html or "") for e in events)


def test_a_page_has_the_size_of_a_real_one(events) -> None:
    sizes = sorted(len(e.html.encode()) for e in events if e.html and 'http-equiv="refresh"' not in e.html)
    assert 8_000 < sum(sizes) / len(sizes) < 25_000


def test_first_events_of_a_huge_web_come_at_once() -> None:
    assert len({event.url for event in islice(generate(1_000_000_000, 1), 10)}) == 10


def test_blocks_do_not_depend_on_what_follows() -> None:
    shorter, longer = truth(BLOCK_PAGES_MAX, 3), truth(BLOCK_PAGES_MAX + 50, 3)
    assert list(shorter) == list(islice(longer, BLOCK_PAGES_MAX))


@pytest.mark.parametrize("pages", [1, 2, 7, 25, 133, BLOCK_PAGES_MAX + 1])
def test_as_many_urls_as_asked_for_each_once(pages: int) -> None:
    urls = [page.url for page in truth(pages, 9)]
    assert len(urls) == len(set(urls)) == pages


def test_every_url_of_the_log_is_in_the_truth_and_no_other(events, truths) -> None:
    assert {event.url for event in events} == {page.url for page in truths}


def test_every_planted_class_is_there(truths) -> None:
    assert {page.family for page in truths} == {name for name, _ in FAMILIES}
    assert {page.rule for page in truths} - {None} == set(RULES)
    assert {page.role for page in truths} == {"content", "redirect", "gone", "rejected"}
    assert any(page.grey for page in truths)


def test_languages_encodings_and_histories_are_there() -> None:
    events = list(generate(3000, 1, markup_bytes=1_000))
    assert {event.lang for event in events} >= {"en", "zh"}
    assert {event.status for event in events} >= {200, 301, 302, 304, 404, 410}
    charsets = {(event.content_type or "").partition("charset=")[2] for event in events}
    assert charsets & {name for language in LANGUAGES for name in language.charsets} and "utf-8" in charsets
    assert any(event.popularity for event in events)
    versions = Counter(event.url for event in events)
    assert max(versions.values()) >= 3
    assert any(count > 1 for count in Counter(msgspec.json.encode(event) for event in events).values())


def test_log_is_in_order_of_time_but_for_late_and_repeated_events() -> None:
    newest: dict[str, int] = {}
    late = 0
    rejected = {page.url for page in truth(3000, 1) if page.role == "rejected"}
    for event in generate(3000, 1, markup_bytes=1_000):
        if event.url in rejected:
            continue
        version = check_event(event).version
        late += version <= newest.get(event.url, -1)
        newest[event.url] = max(version, newest.get(event.url, -1))
    assert 10 < late < 200


def test_addresses_by_rule_name_their_page(truths) -> None:
    pages = {page.url: page for page in truths}
    for page in truths:
        assert (page.rule is None) == (page.of is None)
        if page.of is not None:
            assert pages[page.of].rule is None
            assert pages[page.of].family == page.family


def test_exact_groups_lie_within_clusters(truths) -> None:
    clusters: dict[str, set[str | None]] = {}
    for page in truths:
        assert (page.exact is None) or page.role == "content"
        if page.exact is not None:
            clusters.setdefault(page.exact, set()).add(page.cluster)
    assert all(len(names) == 1 for names in clusters.values())


def test_redirects_end_at_content_or_nowhere(truths) -> None:
    pages = {page.url: page for page in truths}
    for page in truths:
        if page.role == "redirect" and page.target is not None:
            assert pages[page.target].role == "content"
            assert pages[page.target].cluster == page.cluster
        elif page.role == "redirect":
            assert page.cluster is None
    assert {page.family for page in truths if page.role == "redirect" and page.target is None} == {
        "redirect_loop",
        "redirect_dead",
        "redirect_unknown",
    }


def test_a_severed_chain_is_two_clusters() -> None:
    by_chain: dict[str, list] = {}
    for page in truth(3000, 1):
        if page.family == "severed_chain":
            by_chain.setdefault(page.url.partition("?")[0], []).append(page)
    assert by_chain
    for pages in by_chain.values():
        assert len({page.cluster for page in pages} - {None}) == 2
        assert sum(page.role == "gone" for page in pages) == 3


def test_no_link_of_a_chain_is_in_doubt() -> None:
    assert not any(page.grey for page in truth(20_000, 2) if page.family in ("chain", "severed_chain"))


def test_lengths_are_skewed_as_in_zhu_figure_1() -> None:
    lengths = page_lengths()
    counts = Counter(lengths.tolist())
    assert (lengths.min(), lengths.max()) == (PAGE_WORDS_MIN, PAGE_WORDS_MAX)
    assert counts.most_common(1)[0][0] == PAGE_WORDS_MODE
    assert counts[PAGE_WORDS_MODE] > 5 * counts[PAGE_WORDS_MODE + 5]


@pytest.mark.parametrize("pages", [0, -1, 10**12])
def test_impossible_sizes_are_refused(pages: int) -> None:
    with pytest.raises(BadSetting, match="pages must be between"):
        next(generate(pages, 1))
