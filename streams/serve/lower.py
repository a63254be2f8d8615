"""An estimate for thresholds below that of the run, for which no similarities are stored: a sample of kept pages is
compared with all kept pages, by MinHash first and then exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.text.shingle_bytes import shingle_count
from dustream.core.vertex import url_of
from dustream.schemas.signature import PageSignature
from dustream.streams.questions.pages import common_shingles
from dustream.streams.questions.state import ReadableState
from dustream.streams.serve.source import LowerSample, NearPair

SAMPLE_PAGES = 200
PAGES_READ_MAX = 200_000
CHUNK_PAGES = 2_048
LOWEST = 0.5
MARGIN = 0.15  # below LOWEST by MinHash: its standard error is 0.044 at most


class _Kept(NamedTuple):
    url: str
    signature: PageSignature


def sample_below(state: ReadableState) -> LowerSample:
    """Reads the signatures of all kept pages twice, up to a limit; takes some seconds for 100,000 pages."""
    kept = islice(_kept_pages(state), PAGES_READ_MAX)
    sample = nsmallest(SAMPLE_PAGES, kept, key=lambda page: (page.signature.content_hash, page.url))
    hashes = _minhashes(sample)
    best: dict[str, NearPair] = {}
    read = 0
    pages = islice(_kept_pages(state), PAGES_READ_MAX)
    while chunk := list(islice(pages, CHUNK_PAGES)):
        read += len(chunk)
        for number, other in _candidates(hashes, _minhashes(chunk)):
            _note(best, sample[number], chunk[other])
    nearest = sorted(best.values(), key=lambda pair: (-pair.similarity, pair.url))
    return LowerSample(sampled=len(sample), compared_with=read, is_cut=read == PAGES_READ_MAX, nearest=nearest)


def _kept_pages(state: ReadableState) -> Iterator[_Kept]:
    """Winners of the first market, also those alone, that have text."""
    for partition in range(state.settings.partitions):
        contents = state.table("tier2", partition, "contents")
        for number, row in state.table("tier2", partition, "vertices").scan():
            signature = contents.get(number) if row.entry and row.stars[0].winner and not row.dropped & 1 else None
            if signature is not None and signature.shingles:
                yield _Kept(url_of(row.vertex), signature)


def _minhashes(pages: list[_Kept]) -> npt.NDArray[np.uint32]:
    return np.frombuffer(b"".join(page.signature.minhash for page in pages), dtype="<u4").reshape(len(pages), -1)


def _candidates(sample: npt.NDArray[np.uint32], chunk: npt.NDArray[np.uint32]) -> Iterator[tuple[int, int]]:
    """Pairs that may be similar enough."""
    for number in range(len(sample)):
        estimate = (chunk == sample[number]).mean(axis=1)
        for other in np.flatnonzero(estimate >= LOWEST - MARGIN).tolist():
            yield number, other


def _note(best: dict[str, NearPair], page: _Kept, other: _Kept) -> None:
    if page.url == other.url:
        return
    common = common_shingles(page.signature, other.signature)
    sizes = shingle_count(page.signature.shingles) + shingle_count(other.signature.shingles)
    similarity = common / (sizes - common)
    known = best.get(page.url)
    better = known is None or (-similarity, other.url) < (-known.similarity, known.winner)
    if similarity >= LOWEST and better:
        best[page.url] = NearPair(similarity, page.url, other.url)
