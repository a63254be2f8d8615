"""A page in the state, and its content in tier 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dustream.core.pages.resolution import effective, verdicts_of
from dustream.core.pages.rows import UNKNOWN_VERSION, PageRow, vertex_of
from dustream.core.text.shingle_bytes import shingle_array, shingle_count
from dustream.core.tier2.rows import VertexRow
from dustream.core.winners import PageFacts
from dustream.schemas.pages import Verdict
from dustream.schemas.signature import PageSignature
from dustream.streams.questions.state import ReadableState


@dataclass(frozen=True)
class KnownPage:
    """A URL and its row."""

    url: str
    row: PageRow

    @property
    def vertex(self) -> str:
        return vertex_of(self.url, self.row)

    @property
    def facts(self) -> PageFacts:
        return PageFacts.of(self.url, self.row)


@dataclass(frozen=True)
class ComparedPage:
    """The data of a page that tier 2 compares."""

    vertex: VertexRow
    signature: PageSignature

    @property
    def shingle_count(self) -> int:
        return shingle_count(self.signature.shingles)

    @property
    def contacts(self) -> frozenset[int]:
        """The partitions in which the page is compared with others."""
        return frozenset((self.vertex.home, *self.vertex.probes))


def known_page(state: ReadableState, url: str) -> KnownPage | None:
    """The page of a URL; None also if the URL is only known as a redirect target."""
    return next(iter(known_pages(state, [url])), None)


def known_pages(state: ReadableState, urls: Iterable[str]) -> list[KnownPage]:
    """The pages among these URLs, in their order."""
    wanted = list(urls)
    rows: dict[str, PageRow] = state.rows("pages", "pages", wanted)
    return [KnownPage(url, rows[url]) for url in wanted if url in rows and rows[url].version != UNKNOWN_VERSION]


def verdict_of(page: KnownPage, market: int) -> Verdict:
    """A content page's effective verdict, by the market's index in the settings."""
    standing = page.row.standing
    assert standing is not None
    return effective(page.url, standing, verdicts_of(page.url, page.row)[market])


def content_page(state: ReadableState, page: KnownPage) -> KnownPage | None:
    """The page whose content a URL shows: its own, or that of its redirect target; None if there is none."""
    if page.row.kind == "content":
        return page
    upstream = page.row.upstream
    if page.row.kind != "redirect" or upstream is None or page.url in upstream.path or upstream.end != "content":
        return None
    end = known_page(state, upstream.path[-1])
    return end if end is not None and end.row.kind == "content" else None


def compared_pages(state: ReadableState, pages: Sequence[KnownPage]) -> list[ComparedPage | None]:
    """The pages in tier 2, each at its home; None for a page not stored there yet.

    Tier 2 stores its vertices by number: the homes' rows are read once to find the names."""
    found: dict[str, ComparedPage] = {}
    for home in sorted({page.row.home for page in pages}):
        wanted = {page.vertex for page in pages if page.row.home == home}
        vertices, contents = state.table("tier2", home, "vertices"), state.table("tier2", home, "contents")
        for number, row in vertices.containing_any(wanted):
            content = contents.get(number) if row.vertex in wanted and row.entry else None
            if content is not None:
                found[row.vertex] = ComparedPage(row, content)
                if wanted <= found.keys():
                    break
    return [found.get(page.vertex) for page in pages]


def common_shingles(one: PageSignature, other: PageSignature) -> int:
    """|A ∩ B|, with numpy: loading a compiler does not pay for two sets."""
    import numpy as np

    here, there = (shingle_array(each.shingles) for each in (one, other))
    return int(np.intersect1d(here, there, assume_unique=True).size)
