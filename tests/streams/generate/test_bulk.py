"""Shingle sets without pages."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from dustream.core.errors import BadSetting
from dustream.streams.generate.bulk import BUCKETS, CHUNK_PAGES, default_sub_dictionaries, length_vectors, shingle_sets

GOLDEN = "7dbd8e0ef40820ef4ecbef606f9eb49b1707a350ca374b8a3da8592dbdf208bd"


def jaccard(a, b) -> float:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


@pytest.fixture(scope="module")
def chunk():
    return next(shingle_sets(1_000, 1))


def test_bytes_are_pinned(chunk) -> None:
    data = chunk.shingles.astype("<u8").tobytes() + chunk.clusters.astype("<i8").tobytes()
    assert hashlib.sha256(data).hexdigest() == GOLDEN


def test_sets_are_ascending_and_distinct(chunk) -> None:
    for index in range(1_000):
        page = chunk.page(index)
        assert len(page) >= 15
        assert np.all(page[1:] > page[:-1])


def test_pages_of_a_cluster_are_near_duplicates_and_no_others(chunk) -> None:
    copies = [index for index in range(1_000) if chunk.clusters[index] != index]
    assert 120 < len(copies) < 280
    similarities = [jaccard(chunk.page(index), chunk.page(chunk.clusters[index])) for index in copies]
    assert min(similarities) >= 0.92
    assert sum(similarity < 1 for similarity in similarities) > len(copies) // 2
    others = [
        jaccard(chunk.page(i), chunk.page(j))
        for i, j in zip(range(300), range(300, 600), strict=True)
        if chunk.clusters[i] != chunk.clusters[j]
    ]
    assert max(others) < 0.1


def test_clusters_count_through_chunks() -> None:
    chunks = list(shingle_sets(CHUNK_PAGES + 10, 2))
    assert [chunk.first_page for chunk in chunks] == [0, CHUNK_PAGES]
    assert chunks[1].clusters.min() == CHUNK_PAGES


def test_length_vectors_add_up_to_the_sets(chunk) -> None:
    vectors = length_vectors(1_000, 1)
    assert vectors.shape == (1_000, 3)
    assert np.array_equal(vectors.sum(axis=1), np.diff(chunk.offsets))
    buckets = (chunk.page(7) >> np.uint64(52)).astype(int)
    assert vectors[7].tolist() == np.bincount(default_sub_dictionaries()[buckets], minlength=3).tolist()


def test_buckets_follow_the_first_token(chunk) -> None:
    """Frequent words make frequent buckets: by Zipf's law the most frequent one holds far more than its even share."""
    counts = np.bincount((chunk.shingles >> np.uint64(52)).astype(int), minlength=BUCKETS)
    assert counts.max() > 50 * counts.mean()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(BadSetting):
        next(shingle_sets(0, 1))
    with pytest.raises(BadSetting, match="4096 entries"):
        length_vectors(10, 1, np.zeros(7, dtype=np.uint8))
