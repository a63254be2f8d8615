"""Lengths of pages and bytes saved: of a state, of a --once result, and added up over workers."""

from __future__ import annotations

from pathlib import Path

from served_web import WEB_SERVED

from dustream.core.pages.rows import PageRow
from dustream.schemas.pages import Standing, Verdict
from dustream.streams.engine.sizes import BOUNDS, SizeTally
from dustream.streams.serve.opening import open_source

URL, OTHER = "http://a.example/", "http://b.example/"


def row(winner: str, size: int, length: int, *, held: bool = False, kept: bool = False) -> PageRow:
    verdicts = (Verdict(winner, 0.95, False),)
    standing = Standing(OTHER, False, held)
    return PageRow(1, 1, "content", standing=standing, verdicts=verdicts, size=size, length=length, kept=kept)


def test_only_what_is_dropped_is_saved() -> None:
    tally = SizeTally()
    tally.add(OTHER, row(OTHER, 1_000, 7))
    tally.add(URL, row(OTHER, 200, 7))
    tally.add(URL, row(OTHER, 30, 0, held=True))
    tally.add(URL, row(OTHER, 4, 500_000, kept=True))
    tally.add(URL, PageRow(1, 1, "gone", size=5_000))
    assert (tally.pages, tally.bytes, tally.bytes_dropped) == (4, 1_234, 200)
    bars = {(bar.least, bar.pages) for bar in tally.bars() if bar.pages}
    assert sum(pages for _, pages in bars) == 4 and (0, 1) in bars
    assert all(bar.least < bar.below for bar in tally.bars())


def test_tallies_of_workers_add_up() -> None:
    pages = [(URL if number % 2 else OTHER, row(OTHER, number, number)) for number in range(300)]
    whole, parts = SizeTally(), [SizeTally() for _ in range(3)]
    for number, each in enumerate(pages):
        whole.add(*each)
        parts[number % 3].add(*each)
    added = SizeTally()
    for part in parts:
        added.include(part)
    assert added == whole and len(added.lengths) == len(BOUNDS)


def test_a_state_and_a_once_result_have_the_same_sizes(result: Path, once_result: Path) -> None:
    found = []
    for path in (result, once_result):
        source = open_source(path)
        found.append(source.page_sizes())
        source.close()
    kept, once = found
    assert kept is not None and once is not None
    assert (kept.pages, kept.bars, kept.bytes, kept.bytes_dropped) == (
        once.pages,
        once.bars,
        once.bytes,
        once.bytes_dropped,
    )
    assert 0 < kept.bytes_dropped < kept.bytes <= sum(len(str(each)) for each in WEB_SERVED)
    assert kept.cuts and not once.cuts
