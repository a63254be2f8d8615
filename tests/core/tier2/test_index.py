"""The similarity index against brute force: what it finds, and how much it compares to find it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from dustream.core.errors import BadSetting
from dustream.core.tier2.index import SimilarityIndex
from dustream.core.tier2.search_protocol import IndexedPage, Query
from dustream.schemas.signature import PageSignature

TAU = 0.8
MULTIPLIERS = np.random.default_rng(7).integers(1, 2**63, 128, dtype=np.uint64) | np.uint64(1)


def minhash(shingles: np.ndarray) -> np.ndarray:
    if not len(shingles):
        return np.full(128, 0xFFFFFFFF, dtype=np.uint32)
    hashes = shingles[:, None] * MULTIPLIERS[None, :]
    hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (hashes >> np.uint64(32)).min(axis=0).astype(np.uint32)


def signature(shingles: np.ndarray, text: bytes = b"") -> PageSignature:
    content_hash = hashlib.blake2b(shingles.tobytes() + text, digest_size=16).digest()
    return PageSignature(1, content_hash, shingles.tobytes(), minhash(shingles).tobytes(), (), len(shingles), "en")


def fresh_shingles(random: np.random.Generator, count: int) -> np.ndarray:
    return np.unique(random.integers(0, 2**64, count, dtype=np.uint64))


def mutated(random: np.random.Generator, shingles: np.ndarray, changes: int) -> np.ndarray:
    kept = random.choice(shingles, len(shingles) - changes, replace=False)
    return np.unique(np.concatenate((kept, fresh_shingles(random, changes))))


def families(seed: int, count: int, members_max: int, shingles: int = 100) -> list[PageSignature]:
    """Unrelated texts, each with mutants on both sides of τ."""
    random = np.random.default_rng(seed)
    pages = []
    for _ in range(count):
        base = fresh_shingles(random, shingles)
        pages.append(signature(base))
        for _ in range(random.integers(0, members_max)):
            pages.append(signature(mutated(random, base, int(random.integers(0, shingles // 4)))))
    return pages


def similarity(one: PageSignature, other: PageSignature) -> float:
    if one.content_hash == other.content_hash:
        return 1.0
    a = np.frombuffer(one.shingles, dtype=np.uint64)
    b = np.frombuffer(other.shingles, dtype=np.uint64)
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common) if common else 0.0


def index_of(pages: dict[int, PageSignature], tau: float = TAU, **options: int) -> SimilarityIndex:
    return SimilarityIndex(tau, lambda number: np.frombuffer(pages[number].shingles, dtype=np.uint64), **options)


def query(index: SimilarityIndex, page: PageSignature) -> Query:
    return index.queries([page])[0]


def insert(index: SimilarityIndex, number: int, page: PageSignature, component: int | None = None) -> None:
    index.insert(number, query(index, page), component)


def filled(pages: list[PageSignature], tau: float = TAU, **options: int) -> SimilarityIndex:
    index = index_of(dict(enumerate(pages)), tau, **options)
    index.insert_batch(
        np.arange(len(pages)),
        [page.content_hash for page in pages],
        np.stack([np.frombuffer(page.minhash, dtype=np.uint32) for page in pages]),
    )
    return index


def found(index: SimilarityIndex, page: PageSignature) -> list[tuple[int, float]]:
    return [(match.number, match.similarity) for match in index.matches(page)]


def expected(pages: dict[int, PageSignature], page: PageSignature, tau: float = TAU) -> list[tuple[int, float]]:
    values = [(number, similarity(page, other)) for number, other in sorted(pages.items())]
    return [(number, value) for number, value in values if value >= tau]


# ---- what is found


@pytest.mark.parametrize("tau", [pytest.param(0.05, marks=pytest.mark.slow), 0.5, 0.8, 0.9, 1.0])
def test_matches_are_those_of_brute_force(tau: float) -> None:
    pages = families(seed=3, count=60, members_max=6)
    index = filled(pages, tau)
    for page in pages:
        assert found(index, page) == expected(dict(enumerate(pages)), page, tau)


def test_nearly_all_pairs_at_the_threshold_are_proposed() -> None:
    """10,000 pairs at J = 0.8: below 10⁻⁴ each, 6 missed would be an accident of 1 in 1,700."""
    random = np.random.default_rng(11)
    index = SimilarityIndex(TAU, lambda number: np.zeros(0, dtype=np.uint64))
    missed = 0
    for number in range(2500):
        core = fresh_shingles(random, 40)
        one, others = np.concatenate((core, fresh_shingles(random, 5))), range(4)
        insert(index, number, signature(np.sort(one)))
        for _ in others:
            other = signature(np.sort(np.concatenate((core, fresh_shingles(random, 5)))))
            candidates = index.candidates(query(index, other))
            missed += number not in candidates
    assert missed < 6


def test_a_pair_at_exactly_tau_matches() -> None:
    shingles = np.arange(1, 1001, dtype=np.uint64) << np.uint64(40)
    pages = {0: signature(shingles), 1: signature(shingles[:799])}
    index = index_of(pages)
    for number, page in pages.items():
        insert(index, number, page)
    assert found(index, signature(shingles[:800])) == [(0, 0.8), (1, 799 / 800)]
    assert found(index, pages[1])[0] == (1, 1.0)
    assert len(found(index, pages[1])) == 1, "0.799 is below"


def test_equal_content_matches_without_a_shingle_being_fetched() -> None:
    def refuse(number: int) -> np.ndarray:
        raise AssertionError(f"page {number} was fetched")

    page = families(seed=1, count=1, members_max=1)[0]
    index = SimilarityIndex(TAU, refuse)
    for number in (7, 3, 5):
        insert(index, number, page)
    assert found(index, page) == [(3, 1.0), (5, 1.0), (7, 1.0)]
    assert index.similarities(query(index, page), [5, 3]).tolist() == [1.0, 1.0]
    assert index.copies(page.content_hash).tolist() == [3, 5, 7]
    assert (len(index), index.text_count) == (3, 1)


def test_pages_without_shingles_match_their_copies_only() -> None:
    nothing = np.zeros(0, dtype=np.uint64)
    pages = {0: signature(nothing, b"..."), 1: signature(nothing, b"!!!"), 2: signature(nothing, b"...")}
    index = index_of(pages, tau=0.05)
    for number, page in pages.items():
        insert(index, number, page)
    assert found(index, pages[0]) == [(0, 1.0), (2, 1.0)]
    assert found(index, pages[1]) == [(1, 1.0)]
    assert [match.number for match in index.first_match_per_component(query(index, pages[1]), 5)] == [1]
    assert index.similarities(query(index, pages[0]), [1]).tolist() == [0.0]


def test_a_page_of_one_shingle_matches_its_like() -> None:
    one = np.array([5], dtype=np.uint64)
    pages = {0: signature(one, b"a"), 1: signature(one, b"b"), 2: signature(np.array([6], dtype=np.uint64))}
    index = filled(list(pages.values()), tau=1.0)
    assert found(index, pages[0]) == [(0, 1.0), (1, 1.0)]


def test_similarities_are_exact_below_tau_too() -> None:
    pages = families(seed=5, count=20, members_max=4)
    index = filled(pages)
    values = index.similarities(query(index, pages[0]), np.arange(len(pages)))
    assert values.tolist() == [similarity(pages[0], page) for page in pages]


def test_batches_are_the_same_as_single_pages() -> None:
    pages = families(seed=9, count=80, members_max=5)
    single, batch = index_of(dict(enumerate(pages))), filled(pages)
    for number, page in enumerate(pages):
        insert(single, number, page)
    hashes = np.stack([np.frombuffer(page.minhash, dtype=np.uint32) for page in pages])
    starts, numbers = batch.candidates_batch([page.content_hash for page in pages], hashes)
    for row, page in enumerate(pages):
        ours = single.candidates(query(single, page))
        assert ours.tolist() == numbers[starts[row] : starts[row + 1]].tolist()
        assert row in numbers[starts[row] : starts[row + 1]]


@pytest.mark.parametrize("cache_bytes", [1 << 10, 1 << 24])
def test_all_that_match_are_found_at_once_or_in_portions(cache_bytes: int) -> None:
    pages, strangers = families(seed=12, count=40, members_max=6), families(seed=13, count=10, members_max=1)
    index = filled(pages, shingle_cache_bytes_max=cache_bytes)
    for page in [*pages, *strangers, signature(np.zeros(0, dtype=np.uint64))]:
        asked, expected = query(index, page), found(index, page)
        at_once = index.matching(asked)
        assert at_once.pages == expected
        assert (at_once.looked, at_once.last) == (len(index.candidates(asked)), -1)
        portions, last = [], -1
        while True:
            portion = index.matching(asked, last, 2)
            assert portion.looked <= 2
            portions += portion.pages
            last = portion.last
            if last < 0:
                break
        assert portions == expected


def test_many_queries_at_once_find_what_each_finds_alone() -> None:
    pages = families(seed=10, count=60, members_max=5)
    strangers = families(seed=11, count=3, members_max=2)
    for cache_bytes in (2000, 1 << 20):
        index = filled(pages, shingle_cache_bytes_max=cache_bytes)
        asked = [*pages[::2], *strangers, signature(np.zeros(0, dtype=np.uint64))]
        queries, numbers, similarities = index.matches_batch(asked)
        alone = [(row, *match) for row, page in enumerate(asked) for match in found(index, page)]
        assert list(zip(queries.tolist(), numbers.tolist(), similarities.tolist(), strict=True)) == alone
    assert index.matches_batch([])[0].tolist() == []


def test_rebuilt_from_a_stream_with_progress() -> None:
    pages = families(seed=13, count=800, members_max=5, shingles=20)
    rebuilt, told = index_of(dict(enumerate(pages))), list[int]()
    rebuilt.rebuild((IndexedPage(n, page.content_hash, page.minhash) for n, page in enumerate(pages)), told.append)
    assert told == [2048, len(pages)]
    whole = filled(pages)
    for page in pages[::50]:
        assert rebuilt.matches(page) == whole.matches(page) != []


def test_a_tiny_shingle_cache_changes_nothing_but_the_fetches() -> None:
    pages = families(seed=17, count=30, members_max=6)
    small, large = filled(pages, shingle_cache_bytes_max=8000), filled(pages)
    for _ in range(2):
        for page in pages:
            assert found(small, page) == found(large, page)
    assert small.fetches > large.fetches
    assert large.fetches <= large.text_count


def test_the_cache_forgets_a_page_whose_number_is_used_again() -> None:
    one, other = families(seed=19, count=2, members_max=1)
    pages = {0: one, 1: signature(np.frombuffer(one.shingles, dtype=np.uint64), b"other text")}
    index = index_of(pages)
    insert(index, 0, one)
    assert found(index, pages[1]) == [(0, 1.0)]
    index.remove(0)
    pages[0] = other
    insert(index, 0, other)
    assert index.similarities(query(index, one), [0]).tolist() == [0.0]


# ---- what is refused


def test_misuse_is_named() -> None:
    page = families(seed=1, count=1, members_max=1)[0]
    index = filled([page])
    with pytest.raises(ValueError, match="already present"):
        insert(index, 0, page)
    with pytest.raises(ValueError, match="page numbers must be 0"):
        insert(index, -1, page)
    with pytest.raises(ValueError, match="twice"):
        index.insert_batch(np.array([4, 4]), [page.content_hash] * 2, np.zeros((2, 128), dtype=np.uint32))
    with pytest.raises(ValueError, match="128 permutations"):
        insert(index, 1, replace(page, minhash=bytes(4 * 64)))
    with pytest.raises(ValueError, match="16 bytes"):
        insert(index, 1, replace(page, content_hash=b"short"))
    with pytest.raises(KeyError, match="page 9 is not in the index"):
        index.remove(9)
    with pytest.raises(BadSetting):
        SimilarityIndex(0.0, lambda number: np.zeros(0, dtype=np.uint64))
    assert (len(index), found(index, page)) == (1, [(0, 1.0)])


# ---- components


def link(index: SimilarityIndex, members: dict[int, list[int]], number: int, page: PageSignature) -> int:
    """What the spanning forest does: insert, and merge the components that match; returns the forest edges."""
    matches = index.first_match_per_component(query(index, page), order_key=number)
    labels = sorted((match.component for match in matches), key=lambda label: len(members[label]))
    component = labels.pop() if labels else index.new_component()
    insert(index, number, page, component)
    members.setdefault(component, []).append(number)
    for label in labels:
        index.relabel(members[label], component)
        members[component] += members.pop(label)
    return len(matches)


def test_a_template_of_thousands_costs_one_comparison_a_page() -> None:
    random = np.random.default_rng(23)
    base = fresh_shingles(random, 60)
    pages = {number: signature(mutated(random, base, 2)) for number in range(3000)}
    index, members = index_of(pages), dict[int, list[int]]()
    edges = [link(index, members, number, page) for number, page in pages.items()]
    assert edges == [0] + [1] * (len(pages) - 1)
    assert index.comparisons < 1.05 * len(pages)
    assert len(members) == 1


def test_exact_copies_cost_no_comparison_and_one_place_in_the_bands() -> None:
    page = families(seed=29, count=1, members_max=1)[0]
    pages = dict.fromkeys(range(2000), page)
    index, members = index_of(pages), dict[int, list[int]]()
    partners = set()
    for number in pages:
        partners |= {match.number for match in index.first_match_per_component(query(index, page), order_key=number)}
        link(index, members, number, page)
    assert (index.comparisons, index.fetches, index.text_count) == (0, 0, 1)
    assert len(partners) > 500, "copies must not all hang on one page"


def test_the_first_match_is_not_always_the_same_page() -> None:
    random = np.random.default_rng(31)
    base = fresh_shingles(random, 60)
    pages = {number: signature(mutated(random, base, 1)) for number in range(500)}
    index, members = index_of(pages), dict[int, list[int]]()
    for number, page in pages.items():
        link(index, members, number, page)
    asked = query(index, signature(base))
    partners = [index.first_match_per_component(asked, key)[0].number for key in range(400)]
    assert len(set(partners)) > 200


def test_one_match_in_every_component_that_has_any_though_most_members_do_not_match() -> None:
    """A chain of versions: one component, whose far ends share bands with a page but do not match it."""
    random = np.random.default_rng(37)
    versions = [fresh_shingles(random, 100)]
    for _ in range(60):
        versions.append(mutated(random, versions[-1], 4))
    pages = {number: signature(version) for number, version in enumerate(versions)}
    index, members = index_of(pages), dict[int, list[int]]()
    for number, page in pages.items():
        link(index, members, number, page)
    assert len(members) == 1
    for number, page in pages.items():
        (match,) = index.first_match_per_component(query(index, page), order_key=number * 31)
        assert similarity(page, pages[match.number]) == match.similarity >= TAU
    label = index.component_of(0)
    assert index.first_match_per_component(query(index, pages[3]), 1, except_component=label) == []


def test_every_component_is_found_though_a_page_meets_hundreds() -> None:
    random = np.random.default_rng(39)
    base = fresh_shingles(random, 60)
    pages = {number: signature(mutated(random, base, 2)) for number in range(300)}
    index = index_of(pages)
    for number, page in pages.items():
        insert(index, number, page, component=1000 - number)
    matches = index.first_match_per_component(query(index, signature(base)), 7, except_component=900)
    assert [match.number for match in matches] == [number for number in range(299, -1, -1) if number != 100]
    assert all(match.similarity == similarity(signature(base), pages[match.number]) for match in matches)


def test_copies_whose_components_merged_are_one_text_again() -> None:
    page = families(seed=45, count=1, members_max=1)[0]
    index = index_of(dict.fromkeys(range(4), page))
    for number, component in enumerate((5, 6, 6, 7)):
        insert(index, number, page, component)
    assert index.text_count == 3
    index.relabel([1, 2], 5)
    matches = index.first_match_per_component(query(index, page), 11)
    assert [(match.component, match.similarity) for match in matches] == [(5, 1.0), (7, 1.0)]
    assert (index.text_count, len(index), index.comparisons) == (2, 4, 0)
    assert [match.number for match in index.first_match_per_component(query(index, page), 11, except_component=5)] == [
        3
    ]


# ---- memory


@pytest.mark.parametrize("near_copies", [1, 2, 100])
def test_a_page_takes_less_than_a_kilobyte(near_copies: int) -> None:
    """Pages alone, in pairs and in hundreds that agree in every band, from 10,000 pages on at every size."""
    random = np.random.default_rng(41)
    index = SimilarityIndex(TAU, lambda number: np.zeros(0, dtype=np.uint64))
    for start in range(0, 50_000, 1000):
        hashes = random.integers(0, 2**32, (1000 // near_copies, 128), dtype=np.uint32).repeat(near_copies, axis=0)
        contents = [random.bytes(16) for _ in range(1000)]
        numbers = np.arange(start, start + 1000)
        index.insert_batch(numbers, contents, hashes, numbers // near_copies)
        assert index.resident_bytes / len(index) < 1024 or start < 10_000, "a small index has room to spare"
    assert len(index) == index.text_count == 50_000


def test_room_is_used_again_after_removal() -> None:
    pages = families(seed=43, count=300, members_max=4)
    index = filled(pages)
    for number in range(len(pages)):
        index.remove(number)
    assert (len(index), index.text_count) == (0, 0)
    before = index.resident_bytes
    for _ in range(3):
        for number, page in enumerate(pages):
            insert(index, number, page)
        for number in range(len(pages)):
            index.remove(number)
    assert index.resident_bytes <= before * 1.05
    assert index.matches(pages[0]) == []


# ---- any history


def pool_of_pages() -> list[PageSignature]:
    """Families, chains of versions, and pages without shingles: all kinds of neighbours among few pages."""
    random = np.random.default_rng(53)
    pages = families(seed=47, count=6, members_max=5, shingles=50)
    version = fresh_shingles(random, 50)
    for _ in range(10):
        pages.append(signature(version))
        version = mutated(random, version, 3)
    nothing = np.zeros(0, dtype=np.uint64)
    return [*pages, signature(nothing, b"?"), signature(nothing, b"!")]


POOL = pool_of_pages()
SIMILAR = np.array([[similarity(one, other) >= TAU for other in POOL] for one in POOL])


class AnyHistory(RuleBasedStateMachine):
    """Pages come, go and come back under the same numbers; components are kept as the spanning forest would."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        self.pages: dict[int, PageSignature] = {}
        self.index = index_of(self.pages, shingle_cache_bytes_max=4000)

    def matching(self, kind: int) -> set[int]:
        return {number for number, other in self.kinds.items() if SIMILAR[kind, other]}

    @rule(number=st.integers(0, 30), kind=st.integers(0, len(POOL) - 1))
    def insert(self, number: int, kind: int) -> None:
        if number in self.kinds:
            return
        touched = {self.index.component_of(other) for other in self.matching(kind)}
        self.pages[number] = POOL[kind]
        assert link(self.index, self.members, number, POOL[kind]) == len(touched)
        self.kinds[number] = kind

    @precondition(lambda self: self.kinds)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.kinds)))
        component = self.index.component_of(number)
        self.index.remove(number)
        del self.kinds[number], self.pages[number]
        left = set(self.members.pop(component)) - {number}
        pieces = sorted(self.pieces(left), key=len, reverse=True)
        for piece in pieces[1:]:
            label = self.index.new_component()
            self.index.separate(piece, label)
            self.members[label] = piece
        if pieces:
            self.members[component] = pieces[0]

    @precondition(lambda self: self.members)
    @rule(data=st.data(), kind=st.integers(0, len(POOL) - 1))
    def scatter_and_mend(self, data: st.DataObject, kind: int) -> None:
        """A forest that lost an edge looks at pieces of one component, copies among them, as if they were strangers."""
        component = data.draw(st.sampled_from(sorted(self.members)))
        everyone = self.members[component]
        piece = [number for number in everyone if data.draw(st.booleans())]
        if not piece or len(piece) == len(everyone):
            return
        label = self.index.new_component()
        self.index.separate(piece, label)
        self.check_components(kind)
        self.index.relabel(piece, component)

    def pieces(self, left: set[int]) -> list[list[int]]:
        pieces = []
        while left:
            piece, border = set(), {min(left)}
            while border:
                piece |= border
                border = {b for a in border for b in left - piece if SIMILAR[self.kinds[a], self.kinds[b]]}
            pieces.append(sorted(piece))
            left = left - piece
        return pieces

    def check_components(self, kind: int) -> None:
        matches = self.index.first_match_per_component(query(self.index, POOL[kind]), order_key=kind)
        components = [match.component for match in matches]
        assert components == sorted({self.index.component_of(number) for number in self.matching(kind)})
        assert all(match.number in self.matching(kind) for match in matches)
        assert components == [self.index.component_of(match.number) for match in matches]

    @rule(kind=st.integers(0, len(POOL) - 1))
    def search_components(self, kind: int) -> None:
        self.check_components(kind)

    @rule(kind=st.integers(0, len(POOL) - 1))
    def same_as_a_fresh_index(self, kind: int) -> None:
        fresh = index_of(self.pages)
        for number in sorted(self.pages):
            insert(fresh, number, self.pages[number])
        ours = self.index.candidates(query(self.index, POOL[kind]))
        assert ours.tolist() == fresh.candidates(query(fresh, POOL[kind])).tolist()
        assert found(self.index, POOL[kind]) == expected(self.pages, POOL[kind])

    @invariant()
    def counts(self) -> None:
        assert len(self.index) == len(self.kinds)
        assert all((number in self.index) == (number in self.kinds) for number in range(31))


AnyHistory.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
test_any_history = AnyHistory.TestCase
