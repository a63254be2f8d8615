"""The index of terms: after any history, the sums of its changes are the candidates that comparing all pairs gives."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.containment.candidate_index import CandidateIndex, candidate_pairs, summed
from dustream.core.containment.sketch import ASK, CODE, POST, code_terms, sketch_of

TERM_CAP, CODE_CAP = 3, 2
CODE_FROM = 1_000  # terms from here on are runs of a code


class Page(NamedTuple):
    size: int
    terms: tuple[int, ...]  # the first of a kind are asked with
    asked: int

    def kind(self, term: int) -> int:
        same = [each for each in self.terms if (each >= CODE_FROM) == (term >= CODE_FROM)]
        asks = ASK if same.index(term) < self.asked else 0
        return POST | asks | (CODE if term >= CODE_FROM else 0)

    def bits(self, flag: int) -> set[int]:
        return {term & 127 for term in self.terms if term < CODE_FROM and self.kind(term) & flag}


def words(bits: set[int]) -> list[int]:
    return [sum(1 << (bit & 63) for bit in bits if bit >> 6 == word) for word in (0, 1)]


def post(index: CandidateIndex, pages: dict[int, Page]) -> np.ndarray:
    rows = list(pages.values())
    return index.post(
        np.array(list(pages), dtype=np.int64),
        np.array([page.size for page in rows], dtype=np.int32),
        np.array([words(page.bits(ASK)) + words(page.bits(POST)) for page in rows], dtype=np.uint64),
        np.array([len(page.terms) for page in rows], dtype=np.int32),
        np.array([term for page in rows for term in page.terms], dtype=np.uint64),
        np.array([page.kind(term) for page in rows for term in page.terms], dtype=np.uint8),
    )


def by_brute_force(pages: dict[int, Page]) -> Counter[tuple[int, int]]:
    counts = Counter(term for page in pages.values() for term in page.terms)
    found: Counter[tuple[int, int]] = Counter()
    for one, page in pages.items():
        for other, container in pages.items():
            for term in set(page.terms) & set(container.terms):
                kind = page.kind(term)
                common, asked = page.bits(ASK) & container.bits(POST), page.bits(ASK)
                is_near = kind & CODE or 2 * len(common) >= len(asked)
                is_rare = counts[term] <= (CODE_CAP if kind & CODE else TERM_CAP)
                if one != other and kind & ASK and is_near and is_rare and container.size >= page.size:
                    found[one, other] += 1
    return found


PAGES = st.builds(
    lambda size, terms, codes, asked: Page(size, (*terms, *codes), asked),
    st.integers(20, 24),
    st.lists(st.integers(0, 12) | st.integers(64, 70), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(CODE_FROM, CODE_FROM + 4), max_size=3, unique=True),
    st.integers(1, 3),
)
BATCHES = st.lists(st.tuples(st.lists(PAGES, max_size=5), st.lists(st.integers(0, 30), max_size=4)), max_size=8)


@given(BATCHES)
@settings(max_examples=300)
def test_any_history_gives_what_brute_force_gives(batches: list[tuple[list[Page], list[int]]]) -> None:
    index, posted, sums = CandidateIndex(TERM_CAP, CODE_CAP), dict[int, Page](), Counter[tuple[int, int]]()
    number = 0
    for new, gone in batches:
        pages = {number + at: page for at, page in enumerate(new)}
        number += len(new)
        posted |= pages
        changes = [post(index, pages)] if pages else []
        terms = [(page, term) for page in sorted(set(gone) & posted.keys()) for term in posted.pop(page).terms]
        if terms:
            pages_of, terms_of = zip(*terms, strict=True)
            changes.append(index.unpost(np.array(pages_of, dtype=np.int64), np.array(terms_of, dtype=np.uint64)))
        for change in changes:
            for one, other, sign in change.tolist():
                sums[one, other] += sign
        assert {pair: count for pair, count in sums.items() if count} == by_brute_force(posted)


def test_the_table_grows() -> None:
    """More pages than there is room for at first: each of two thousand pairs is met, and nobody else."""
    found = post(CandidateIndex(), {key: Page(30 + key % 2, (10_000 + key // 2,), 1) for key in range(4_000)})
    assert Counter(map(tuple, found[:, :2].tolist())) == Counter({(2 * at, 2 * at + 1): 1 for at in range(2_000)})


def test_a_sketch_asks_with_what_is_smallest_and_posts_more() -> None:
    rng = np.random.default_rng(1)
    shingles = np.unique(rng.integers(0, 1 << 63, 500, dtype=np.uint64))
    sketch = sketch_of(shingles, "")
    by_hash = sorted(shingles.tolist(), key=lambda shingle: shingle & (1 << 52) - 1)
    assert sketch.terms.tolist() == by_hash[:32]
    assert sketch.kinds.tolist() == [POST | ASK] * 8 + [POST] * 24
    assert sketch.masks.tolist() == [
        *words({each & 127 for each in by_hash[:8]}),
        *words({each & 127 for each in by_hash[:32]}),
    ]
    assert sketch_of(shingles[:5], "").terms.size == 5


def test_a_code_adds_runs_of_its_characters() -> None:
    shingles = np.arange(30, dtype=np.uint64)
    code = "".join(chr(0x4E00 + number) for number in range(40))
    sketch = sketch_of(shingles, code)
    assert sketch.terms.size == 30 + 16 and (sketch.kinds[30:] & CODE).all() and not (sketch.kinds[:30] & CODE).any()
    assert set(code_terms(code[:8]).tolist()) <= set(code_terms(code[:9]).tolist()), "a run is the same in every code"
    assert code_terms("abc").size == 0


@given(st.lists(PAGES, min_size=1, max_size=20))
@settings(max_examples=300)
def test_all_pages_at_once_give_what_brute_force_gives(pages: list[Page]) -> None:
    terms = np.array([term for page in pages for term in page.terms], dtype=np.uint64)
    pairs = candidate_pairs(
        np.array([page.size for page in pages], dtype=np.int32),
        np.array([words(page.bits(ASK)) + words(page.bits(POST)) for page in pages], dtype=np.uint64),
        np.repeat(np.arange(len(pages), dtype=np.int32), [len(page.terms) for page in pages]),
        terms,
        np.array([page.kind(term) for page in pages for term in page.terms], dtype=np.uint8),
        np.argsort(terms, kind="stable"),
        TERM_CAP,
        CODE_CAP,
    )
    assert Counter(divmod(pair, len(pages)) for pair in pairs.tolist()) == by_brute_force(dict(enumerate(pages)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from((1, -1)))))
def test_sums_of_changes_have_one_row_per_pair_in_order(changes: list[tuple[int, int, int]]) -> None:
    sums = Counter[tuple[int, int]]()
    for one, other, sign in changes:
        sums[one, other] += sign
    rows = summed(np.array(changes, dtype=np.int64).reshape(-1, 3)).tolist()
    assert rows == [[*pair, total] for pair, total in sorted(sums.items()) if total]
