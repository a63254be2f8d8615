"""Crowds of pages that are alike and do not match: found are the pairs that a search by bands alone finds, and what one
more page costs does not grow with the crowd."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dustream.core.once.contents import Contents, MemorySpool
from dustream.core.once.matching import match_graph, sets_of
from dustream.core.similarity import threshold_ratio
from dustream.core.text.minhash import minhash
from dustream.core.tier2.crowd import Crowd
from dustream.core.tier2.crowded_index import CrowdedIndex
from dustream.core.tier2.index import SimilarityIndex
from dustream.core.tier2.search_protocol import IndexedPage
from dustream.schemas.signature import PageSignature

PAGES = 700


def page_of(elements: list[int]) -> PageSignature:
    shingles = np.unique(np.array(elements, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    content_hash = np.array((np.bitwise_xor.reduce(shingles), np.uint64(len(shingles)))).tobytes()
    return PageSignature(1, content_hash, shingles.tobytes(), minhash(shingles).tobytes(), (), len(shingles), "en")


def near_miss(number: int, own: int = 28, common: int = 392) -> PageSignature:
    """As pages with 400 common words around 24 own ones: at 0.9, two of them are at 0.875."""
    return page_of([*range(1, common + 1), *range(10**6 + 1_000 * number, 10**6 + 1_000 * number + own)])


def mixed(rng: random.Random, number: int) -> PageSignature:
    """Two templates, one of which has half of the other; more or less of their own, some of it shared with a few, or
    with many; some pages twice."""
    start = rng.choice((1, 1, 1, 200))
    common = list(range(start, start + 392))
    rng.shuffle(common)
    number = rng.choice((number, rng.randrange(PAGES)))
    own = range(10**6 + 100 * number, 10**6 + 100 * number + rng.choice((0, 3, 10, 20, 24, 28, 28, 28, 28, 60)))
    family = rng.randrange(40)
    shared = range(10**9 + 100 * family, 10**9 + 100 * family + rng.choice((0, 0, 0, 5, 20, 40)))
    return page_of([*common[: rng.choice((392, 392, 392, 380))], *own, *shared])


class Both:
    """The two indexes, fed alike, with the components of all matches found so far."""

    def __init__(self, tau: float) -> None:
        self.pages: dict[int, PageSignature] = {}
        self.labels: dict[int, int] = {}
        self.plain = SimilarityIndex(tau, self._set)
        self.crowded = CrowdedIndex(tau, self._set)

    def _set(self, number: int) -> np.ndarray:
        return np.frombuffer(self.pages[number].shingles, dtype="<u8")

    def put(self, number: int, page: PageSignature) -> None:
        query = self.plain.queries([page])[0]
        one = self.plain.first_match_per_component(query, number)
        other = self.crowded.first_match_per_component(query, number)
        assert [match.component for match in one] == [match.component for match in other]
        label = min([match.component for match in one], default=number)
        for index in (self.plain, self.crowded):
            index.insert(number, query, label)
        self.pages[number], self.labels[number] = page, label
        for match in one:
            merged = [each for each, known in self.labels.items() if known == match.component != label]
            self._relabel(merged, label)

    def _relabel(self, numbers: list[int], label: int) -> None:
        if numbers:
            self.plain.relabel(numbers, label)
            self.crowded.relabel(numbers, label)
            self.labels |= dict.fromkeys(numbers, label)

    def remove(self, number: int) -> None:
        for index in (self.plain, self.crowded):
            index.remove(number)
        del self.pages[number], self.labels[number]

    def check(self, number: int, after: int = -1) -> None:
        query = self.plain.queries([self.pages[number]])[0]
        assert self.crowded.matching(query).pages == self.plain.matching(query).pages
        some = self.crowded.matching(query, after, 50)
        expected = [page for page in self.plain.matching(query).pages if page[0] > after]
        assert some.pages == [page for page in expected if some.last < 0 or page[0] <= some.last]


@pytest.mark.parametrize("seed", range(4))
def test_a_crowd_finds_what_bands_alone_find(seed: int) -> None:
    tau, least, most = ((0.9, 18, 30), (0.8, 45, 60))[seed % 2]
    rng, both = random.Random(seed), Both(tau)
    for number in range(PAGES):
        both.put(number, mixed(rng, number) if rng.random() < 0.5 else near_miss(number, rng.randint(least, most)))
        if number > 300 and rng.random() < 0.2:
            both.remove(rng.choice(list(both.pages)))
        if number % 10 == 0:
            both.check(rng.choice(list(both.pages)), rng.randrange(PAGES))
    assert both.crowded.heavy_count > PAGES // 10, "or nothing was shown"
    for number in both.pages:
        both.check(number)
    rebuilt = CrowdedIndex(tau, both._set)
    rebuilt.rebuild(
        IndexedPage(number, page.content_hash, page.minhash, both.labels[number]) for number, page in both.pages.items()
    )
    for number in list(both.pages)[:50]:
        query = both.plain.queries([both.pages[number]])[0]
        assert rebuilt.matching(query).pages == both.plain.matching(query).pages


@pytest.mark.parametrize("seed", range(4))
def test_all_at_once_finds_the_same_components(seed: int) -> None:
    rng, both = random.Random(seed), Both(0.9)
    contents = Contents(0.9, MemorySpool)
    pages = [mixed(rng, number) if rng.random() < 0.4 else near_miss(number) for number in range(PAGES)]
    pages = list({page.content_hash: page for page in pages}.values())
    for number, page in enumerate(pages):
        both.put(number, page)
        contents.add(page)
    columns = contents.columns()
    graph = match_graph(columns.keys, np.arange(len(pages)), sets_of(columns), contents.ratio)
    assert len(set(zip(graph.roots.tolist(), both.labels.values(), strict=True))) == len(set(both.labels.values()))
    assert len(set(graph.roots.tolist())) == len(set(both.labels.values()))


def test_one_more_near_miss_costs_the_same_however_many_there_are() -> None:
    pages = {number: near_miss(number) for number in range(4_000)}
    index = CrowdedIndex(0.9, lambda number: np.frombuffer(pages[number].shingles, dtype="<u8"))
    for number, page in pages.items():
        query = index.queries([page])[0]
        assert index.first_match_per_component(query, number) == []
        index.insert(number, query, number)
        if number == 1_000:
            before = index.comparisons
    assert index.comparisons - before < 3_000, "one in a thousand of all pairs"
    assert index.heavy_count == 4_000


def test_two_heavy_sets_that_match_share_an_entry() -> None:
    """For any core: here a random half of all shingles."""
    rng = np.random.default_rng(1)
    for tau in (0.5, 0.8, 0.9):
        crowd, met = Crowd(threshold_ratio(tau), lambda number: np.zeros(0, dtype=np.uint64)), 0
        stock = rng.integers(0, 2**63, 400, dtype=np.uint64)
        crowd.learn(np.unique(stock[:200]))
        sets = [np.unique(rng.choice(stock, rng.integers(1, 40))) for _ in range(60)]
        sets += [np.unique(np.concatenate((each[1:], stock[:1]))) for each in sets]
        parts = [crowd.heavy_part(each) for each in sets]
        for one, part in zip(sets, parts, strict=True):
            for other, others in zip(sets, parts, strict=True):
                common = len(np.intersect1d(one, other))
                if part is not None and others is not None and common >= tau * (len(one) + len(other) - common):
                    assert len(np.intersect1d(part, others))
                    met += 1
        assert met > 60
