"""The pages that benchmarks run on: real ones where DUSTREAM_DATA names a folder of them, else generated ones."""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from dustream.schemas.crawl import CrawlEvent

REAL_FILES = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en", "C_pages_multisite")
ZSTD_WINDOW_BYTES_MAX = 1 << 27


class _Page(msgspec.Struct):
    html: str
    url: str | None = None
    fetched_at: str | None = None


def data_folder() -> Path | None:
    """Where real pages are, if anywhere."""
    named = os.environ.get("DUSTREAM_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def read_jsonl_zst(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).stream_reader(file)
        yield from io.BufferedReader(reader, 1 << 20)


def real_pages(name: str) -> Iterator[CrawlEvent]:
    """The pages of one real file that have a URL."""
    folder = data_folder()
    assert folder is not None
    decoder = msgspec.json.Decoder(_Page)
    for line in read_jsonl_zst(folder / f"{name}.jsonl.zst"):
        page = decoder.decode(line)
        if page.url:
            yield CrawlEvent(url=page.url, fetched_at=page.fetched_at, html=page.html)


def family(url: str) -> str:
    """What the versions of one page have in common: its last path parts without version numbers."""
    return "/".join(re.sub(r"[0-9.]+", "", url).rsplit("/", 2)[1:])


def sample_pages(count: int) -> tuple[str, list[CrawlEvent]]:
    """About `count` pages, whole families of versions together, and a word on what they are."""
    if data_folder() is None:
        from dustream.streams.generate import generate

        events = [event for event in generate(pages=count, seed=7) if event.html and event.url.startswith("http")]
        return f"{len(events)} generated pages (set DUSTREAM_DATA for real ones)", events
    pages = [page for name in REAL_FILES for page in real_pages(name)]
    keep_one_in = max(1, len(pages) // count)
    chosen = [page for page in pages if zlib.crc32(family(page.url).encode()) % keep_one_in == 0]
    return f"{len(chosen)} real pages of {len(REAL_FILES)} collections, whole families of versions", chosen
