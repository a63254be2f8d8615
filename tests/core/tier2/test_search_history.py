"""Search by brute force and by the index, over any history of pages that come, change and go, cut into any batches; and
what the index makes of odd pages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.similarity import threshold_ratio
from dustream.core.text.minhash import minhash
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.signature import sign
from dustream.core.tier2.index import SimilarityIndex
from dustream.core.tier2.odd_sketch import is_out_of_reach, odd_sketch
from dustream.schemas.signature import PageSignature

FAMILIES, VERSIONS, SHINGLES = 4, 8, 60
NUMBERS = 24


class Event(NamedTuple):
    """The page of this number is now this content (None: gone)."""

    number: int
    content: int | None


def contents() -> list[PageSignature]:
    """Families whose versions lose one to three shingles at a time: similarities on both sides of every threshold."""
    random, made = np.random.default_rng(71), []
    for _ in range(FAMILIES):
        shingles = random.integers(0, 2**64, SHINGLES, dtype=np.uint64)
        for version in range(VERSIONS):
            shingles = shingles.copy()
            shingles[random.integers(0, SHINGLES, 1 + version % 3)] = random.integers(0, 2**64, dtype=np.uint64)
            made.append(page_of(np.unique(shingles)))
    return [*made, page_of(np.zeros(0, dtype=np.uint64)), page_of(np.array([7], dtype=np.uint64))]


def page_of(shingles: np.ndarray) -> PageSignature:
    content_hash = (np.bitwise_xor.reduce(shingles), np.uint64(len(shingles)))
    return PageSignature(
        1, np.array(content_hash).tobytes(), shingles.tobytes(), minhash(shingles).tobytes(), (), len(shingles), "en"
    )


CONTENTS = contents()
SETS = [frozenset(np.frombuffer(page.shingles, dtype=np.uint64).tolist()) for page in CONTENTS]


def similarity(one: int, other: int) -> float:
    if one == other:
        return 1.0
    union = len(SETS[one] | SETS[other])
    return len(SETS[one] & SETS[other]) / union if union else 0.0


EVENTS = st.builds(Event, st.integers(0, NUMBERS - 1), st.none() | st.integers(0, len(CONTENTS) - 1))


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(EVENTS, min_size=1, max_size=12), min_size=1, max_size=12),
    tau=st.sampled_from([0.5, 0.8, 0.9]),
    cache_bytes=st.sampled_from([2_000, 20_000, 1 << 20]),
)
def test_any_history_in_any_batches_finds_what_brute_force_finds(
    batches: list[list[Event]], tau: float, cache_bytes: int
) -> None:
    present: dict[int, int] = {}

    def shingles_of(number: int) -> np.ndarray:
        return np.frombuffer(CONTENTS[present[number]].shingles, dtype=np.uint64)

    index = SimilarityIndex(tau, shingles_of, shingle_cache_bytes_max=cache_bytes)
    for batch in batches:
        newest = {event.number: event.content for event in batch}
        for number in sorted(newest.keys() & present.keys()):
            index.remove(number)
            del present[number]
        coming = {number: content for number, content in sorted(newest.items()) if content is not None}
        take_in(index, coming)
        present |= coming
        check(index, present, tau)


def take_in(index: SimilarityIndex, coming: dict[int, int]) -> None:
    pages = [CONTENTS[content] for content in coming.values()]
    minhashes = np.frombuffer(b"".join([page.minhash for page in pages]), dtype="<u4").reshape(len(pages), 128)
    index.insert_batch(np.array(list(coming), dtype=np.int64), [page.content_hash for page in pages], minhashes)


def check(index: SimilarityIndex, present: dict[int, int], tau: float) -> None:
    queries, numbers, similarities = index.matches_batch(CONTENTS)
    found = list(zip(queries.tolist(), numbers.tolist(), similarities.tolist(), strict=True))
    pairs = [
        (one, number, similarity(one, present[number])) for one in range(len(CONTENTS)) for number in sorted(present)
    ]
    assert found == [pair for pair in pairs if pair[2] >= tau]


@settings(max_examples=200)
@given(
    common=st.integers(0, 400),
    own=st.integers(0, 200),
    others=st.integers(0, 200),
    tau=st.sampled_from([0.3, 0.5, 0.8, 0.9, 1.0]),
    bits=st.sampled_from([8, 32, 64]),
    seed=st.integers(0, 1000),
)
def test_an_odd_sketch_never_rules_out_a_match(
    common: int, own: int, others: int, tau: float, bits: int, seed: int
) -> None:
    """Also where shingles differ in few bits, so that bins are shared by many."""
    drawn = np.random.default_rng(seed).permutation(common + own + others).astype(np.uint64) << np.uint64(64 - bits)
    one, two = np.unique(drawn[: common + own]), np.unique(np.concatenate((drawn[:common], drawn[common + own :])))
    union = len(np.union1d(one, two))
    numerator, denominator = threshold_ratio(tau)
    if is_out_of_reach(odd_sketch(one), odd_sketch(two), 0, numerator, denominator):
        assert len(np.intersect1d(one, two)) * denominator < numerator * union


def test_an_odd_sketch_rules_out_most_pairs_well_below_the_threshold() -> None:
    random, ruled_out = np.random.default_rng(5), 0
    for _ in range(200):
        drawn = random.integers(0, 2**64, 500, dtype=np.uint64)
        ruled_out += is_out_of_reach(odd_sketch(drawn[:400]), odd_sketch(drawn[100:]), 0, *threshold_ratio(0.8))
    assert ruled_out >= 180, "J = 300 / 500"


# ---- odd pages


def test_a_page_of_one_repeated_token_matches_its_like_only() -> None:
    pages = [sign(text) for text in ("spam " * 400, "spam " * 900, "eggs " * 400, "")]
    sets = dict(enumerate(shingle_array(page.shingles) for page in pages))
    index = SimilarityIndex(0.8, sets.__getitem__)
    for number, page in enumerate(pages):
        index.insert(number, index.queries([page])[0])
    found = [[match.number for match in index.matches(page)] for page in pages]
    assert found == [[0, 1], [0, 1], [2], [3]], "one window of spam and four that run into the end of the text"
