"""Signing in worker processes: same result as in one process, in order, and a crash costs one page."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from dustream.core.intake import Rejected
from dustream.core.text.extractors import TextSource
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.engine.signing import CRASHED, INLINE_EVENTS, Chunk, SigningPool, sign_chunks


def events(count: int) -> list[CrawlEvent]:
    pages = [CrawlEvent(url=f"https://a.example/{n}", html=f"<p>page number {n} of many</p>") for n in range(count)]
    pages[3] = CrawlEvent(url="relative", html="<p>lost</p>")
    return pages


def chunks_of(pages: list[CrawlEvent], size: int) -> list[Chunk[int]]:
    return [Chunk(pages[at : at + size], at) for at in range(0, len(pages), size)]


def test_many_processes_give_what_one_gives_in_order() -> None:
    chunks = chunks_of(events(INLINE_EVENTS + 300), 50)
    alone = [(signed.chunk.place, signed.intake) for signed in sign_chunks(iter(chunks), 1, TextSource())]
    shared = [(signed.chunk.place, signed.intake) for signed in sign_chunks(iter(chunks), 2, TextSource())]
    assert alone == shared
    assert [place for place, _ in alone] == [chunk.place for chunk in chunks]
    assert alone[0][1].rejected[0].index == 3


HOSTILE_WORKER = """
import os, signal
from dustream.core.intake import Intake
from dustream.schemas.pages import Crawl

def die_on_hostile_page(pages, source):
    if any("hostile" in page.url for page in pages):
        os.kill(os.getpid(), signal.SIGSEGV)
    return Intake([Crawl(page.url, 0, "gone") for page in pages], [], {}, list(range(len(pages))))
"""


def test_page_that_kills_its_worker_is_rejected_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_worker.py").write_text(HOSTILE_WORKER)  # a module that spawned workers can import
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("hostile_worker").die_on_hostile_page
    pages = [CrawlEvent(url=f"https://a.example/{n}") for n in range(12)]
    pages[5] = CrawlEvent(url="https://a.example/hostile")
    with SigningPool(2, TextSource(), sign) as pool:
        signed = list(pool.sign(iter(chunks_of(pages, 4))))
    crawled = [crawl.url for each in signed for crawl in each.intake.crawls]
    assert crawled == [page.url for page in pages if "hostile" not in page.url]
    assert [each.intake.rejected for each in signed] == [[], [Rejected(1, "https://a.example/hostile", CRASHED)], []]
