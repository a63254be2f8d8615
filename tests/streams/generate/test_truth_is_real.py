"""The truth, checked against the pages: main texts are extracted from the log and all pairs of pages compared.

An oracle of its own (plain Python tokens and shingles), so that it does not share the program's mistakes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations

import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str

from dustream.core.errors import BadEvent
from dustream.core.events import check_event
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.generate import generate, truth

PAGES, SEED, THRESHOLD = 1_000, 5, 0.9
UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff"
TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


def decoded(event: CrawlEvent) -> str:
    if event.html is not None:
        return event.html
    declared = re.search(r"charset=(\S+)", event.content_type or "")
    in_page = re.search(rb"charset=\"?([\w-]+)", event.body or b"")
    return bytes_to_str(event.body, declared[1] if declared else in_page[1].decode())


def tokens(event: CrawlEvent) -> tuple[str, ...]:
    text = extract_plain_text(decoded(event), main_content=True, links=False, list_bullets=False)
    return tuple(TOKEN.findall(text.lower()))


def shingles(words: tuple[str, ...]) -> set[tuple[str, ...]]:
    padded = (*words, "", "", "", "")
    return {padded[i : i + 5] for i in range(len(words))}


@pytest.fixture(scope="module")
def truths():
    return {page.url: page for page in truth(PAGES, SEED)}


@pytest.fixture(scope="module")
def last_events(truths):
    """The newest event of each URL, by the program's own reading of times; unusable events are dropped."""
    newest: dict[str, tuple[int, CrawlEvent]] = {}
    for event in generate(PAGES, SEED, markup_bytes=3_000):
        try:
            version = check_event(event).version
        except BadEvent:
            assert truths[event.url].role == "rejected"
            continue
        if event.status != 304 and version > newest.get(event.url, (-1, None))[0]:
            newest[event.url] = version, event
    return {url: event for url, (_, event) in newest.items()}


@pytest.fixture(scope="module")
def texts(truths, last_events):
    """Main texts of the pages that count."""
    counted = [url for url, page in truths.items() if page.role == "content" and not page.grey]
    return {url: tokens(last_events[url]) for url in counted}


@pytest.fixture(scope="module")
def similar(texts):
    """Jaccard similarity of all pairs that share a shingle."""
    sets = {url: shingles(words) for url, words in texts.items()}
    holders = defaultdict(list)
    for url, members in sets.items():
        for shingle in members:
            holders[shingle].append(url)
    common = Counter(pair for urls in holders.values() for pair in combinations(urls, 2))
    return {pair: n / (len(sets[pair[0]]) + len(sets[pair[1]]) - n) for pair, n in common.items()}


def test_roles_are_those_of_the_newest_event(truths, last_events) -> None:
    for url, page in truths.items():
        if page.role == "rejected":
            assert url not in last_events
            continue
        event = last_events[url]
        refreshed = 'http-equiv="refresh"' in (event.html or "")
        role = "gone" if event.status in (404, 410) else "redirect" if event.redirect_to or refreshed else "content"
        assert role == page.role, url


def test_pages_of_different_clusters_are_below_the_threshold(truths, similar) -> None:
    across = [s for (a, b), s in similar.items() if truths[a].cluster != truths[b].cluster]
    assert max(across) < 0.85


def test_direct_copies_are_above_the_threshold(truths, similar, texts) -> None:
    """All pairs of a cluster but those of chains, which hold together through their neighbours."""
    clusters = defaultdict(list)
    for url in texts:
        if "chain" not in truths[url].family:
            clusters[truths[url].cluster].append(url)
    pairs = [pair for urls in clusters.values() for pair in combinations(urls, 2)]
    assert len(pairs) > 500
    below = [pair for pair in pairs if similar.get(pair, similar.get(pair[::-1], 0.0)) < THRESHOLD]
    assert len(below) <= 0.005 * len(pairs)


def test_clusters_are_connected_at_the_threshold(truths, similar, texts) -> None:
    linked = {url: url for url in texts}

    def root(url: str) -> str:
        while linked[url] != url:
            url = linked[url]
        return url

    for (a, b), similarity in similar.items():
        if similarity >= THRESHOLD:
            linked[root(a)] = root(b)
    pieces = defaultdict(set)
    for url in texts:
        pieces[truths[url].cluster].add(root(url))
    assert [cluster for cluster, roots in pieces.items() if len(roots) > 1] == []


def test_chains_are_weak_links(truths, similar) -> None:
    within = [
        s for (a, b), s in similar.items() if truths[a].family == "chain" and truths[a].cluster == truths[b].cluster
    ]
    assert min(within) < 0.85 < THRESHOLD < max(within)


def test_exact_means_the_same_text(truths, texts) -> None:
    by_exact, by_text = defaultdict(set), defaultdict(set)
    for url, words in texts.items():
        by_exact[truths[url].exact].add(words)
        by_text[words].add(truths[url].exact)
    assert all(len(group) == 1 for group in (*by_exact.values(), *by_text.values()))


def test_grey_copies_are_at_the_threshold(truths, last_events, texts) -> None:
    copies = [url for url, page in truths.items() if page.family == "grey" and page.role == "content" and page.grey]
    similarities = []
    for url in copies:
        own = shingles(tokens(last_events[url]))
        others = (shingles(words) for other, words in texts.items() if truths[other].cluster == truths[url].cluster)
        similarities += [len(own & other) / len(own | other) for other in others]
    assert similarities and all(0.82 < similarity < 0.96 for similarity in similarities)
