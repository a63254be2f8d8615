"""Statuses, groups and URL rules do not depend on partitions, batch sizes, or how often the engine commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from dustream.core.intake import take_in
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.extractors import TextSource
from dustream.schemas.pages import Crawl
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import Outcome, write_results
from dustream.streams.generate import generate
from dustream.streams.store.memory import MemoryStore

EVENTS_PER_FEED = 50


@pytest.fixture(scope="module")
def crawls() -> list[Crawl]:
    return take_in(list(generate(pages=500, seed=11)), TextSource()).crawls


def outcome(crawls: list[Crawl], out: Path, partitions: int, batch: int, commit: int) -> Outcome:
    store = MemoryStore()
    topology = pipeline(Settings(partitions=partitions))
    engine = EmbeddedEngine(topology, store, batch_messages_max=batch, commit_messages=commit)
    sends = [Send(PAGES, crawl.url, crawl) for crawl in crawls]
    engine.run(Feed(sends[at : at + EVENTS_PER_FEED]) for at in range(0, len(sends), EVENTS_PER_FEED))
    return write_results(store, out)


def test_partitions_batches_and_commits_do_not_matter(crawls: list[Crawl], tmp_path: Path) -> None:
    plain = outcome(crawls, tmp_path / "plain", partitions=1, batch=1024, commit=10**9)
    assert plain.rejected == 0 and plain.groups > 50 and plain.roles["duplicate"] > 100
    assert sum(plain.rules.values()) > 0
    for partitions, batch, commit in ((2, 1, 100), (8, 1024, 20_000), (8, 3, 17), (64, 50, 500)):
        out = tmp_path / f"{partitions}-{batch}-{commit}"
        assert outcome(crawls, out, partitions, batch, commit) == plain
        for name in ("status.jsonl", "rules.jsonl"):
            assert (out / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_order_of_arrival_of_different_urls_does_not_matter(crawls: list[Crawl], tmp_path: Path) -> None:
    by_url = sorted(crawls, key=lambda crawl: crawl.url)  # stable: the fetches of one URL stay in order
    first = outcome(crawls, tmp_path / "first", partitions=4, batch=64, commit=1000)
    assert outcome(by_url, tmp_path / "second", partitions=4, batch=64, commit=1000) == first
