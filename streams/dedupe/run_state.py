"""The pages that a run has kept, as references for the rows of a corpus."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from dustream.core.tier2.bands import band_keys, bands_for
from dustream.core.tier2.index import content_words
from dustream.schemas.signature import PageSignature
from dustream.schemas.status import is_kept
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import Shard
from dustream.streams.dedupe.signatures import SignatureWriter, SignedShard
from dustream.streams.questions.pages import known_page
from dustream.streams.questions.state import EmbeddedState, state_folder
from dustream.streams.store.extent import read_extent

PAGES_AT_ONCE: Final = 4_096
URL: Final = "url"


class KeptPage(NamedTuple):
    """A page that is kept, and where its content is in tier 2."""

    url: str
    partition: int
    number: str


def is_run_state(folder: Path) -> bool:
    """Whether a folder is the state of a run, or has one."""
    return (state_folder(folder) / "CURRENT").exists()


def sign_state(folder: Path, target: Path, settings: DedupeSettings) -> SignedShard:
    """Write the signatures of the pages that a run has kept, in the order of their URLs."""
    batches = read_extent(state_folder(folder)).batches
    with EmbeddedState(folder) as state, SignatureWriter(target) as writer:
        pages = iter(sorted(_kept(state)))
        while some := list(itertools.islice(pages, PAGES_AT_ONCE)):
            found = [(page.url, state.table("tier2", page.partition, "contents").get(page.number)) for page in some]
            _add([(url, signature) for url, signature in found if signature is not None], writer, settings)
        # the path tells one version of a state from the next
        shard = Shard(f"{folder}@{batches}", folder.name)
        own = DedupeSettings(id=URL, threshold=settings.threshold, rules=settings.rules)
        return writer.finish(
            SignedShard(shard=shard, fingerprint=None, settings=own, rows=0, position=-1, is_reference=True)
        )


def _kept(state: EmbeddedState) -> Iterator[KeptPage]:
    pages = (known_page(state, status.url) for status in state.statuses() if is_kept(status.role))
    urls = {page.vertex: page.url for page in pages if page is not None and page.row.kind == "content"}
    for partition in range(state.settings.partitions):
        for number, row in state.table("tier2", partition, "vertices").scan():
            if row.entry and row.vertex in urls:
                yield KeptPage(urls[row.vertex], partition, number)


def _add(pages: list[tuple[str, PageSignature]], writer: SignatureWriter, settings: DedupeSettings) -> None:
    pages = [(url, signature) for url, signature in pages if signature.shingles]
    signatures = [signature for _, signature in pages]
    if not signatures:
        return
    minhashes = np.frombuffer(b"".join(each.minhash for each in signatures), dtype="<u4").reshape(len(signatures), -1)
    shingles = np.frombuffer(b"".join(each.shingles for each in signatures), dtype="<u8").astype(np.uint64)
    nothing = np.zeros(len(signatures), dtype=np.uint64)
    columns = {
        "keys.u64": band_keys(minhashes.astype(np.uint32), *bands_for(settings.threshold)),
        "hashes.u64": content_words([each.content_hash for each in signatures]),
        "bytes.u64": nothing,
        "tokens.i64": np.array([each.token_count for each in signatures], dtype=np.int64),
        "ends.i64": np.cumsum([len(each.shingles) // 8 for each in signatures], dtype=np.int64),
        "reasons.u8": nothing,
    }
    writer.add(columns, shingles, {URL: pa.array([url for url, _ in pages], pa.string())})
