"""The generated web as a stream: crawl events with their HTML, and the truth about every URL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from dustream.core.errors import BadSetting
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.generate.block import BLOCK_PAGES_MAX, REDIRECT_STATUSES, PlannedBlock, PlannedPage
from dustream.streams.generate.history import Fetch
from dustream.streams.generate.site import Site
from dustream.streams.generate.templates import (
    BREAKAGES,
    LAYOUTS,
    VARIANTS,
    Rendering,
    empty_layout,
    meta_refresh,
    print_layout,
)
from dustream.streams.generate.truth import PageTruth

PAGES_MAX = 1_000_000_000
MARKUP_BYTES_DEFAULT, MARKUP_BYTES_MIN, MARKUP_BYTES_MAX = 11_000, 1_000, 1_000_000
PYTHON_CODECS = {"windows-874": "cp874"}
"""Names on the web that Python spells differently."""


def generate(pages: int, seed: int, markup_bytes: int = MARKUP_BYTES_DEFAULT) -> Iterator[CrawlEvent]:
    """The log of a web of `pages` URLs, the same for the same arguments, in bounded memory.

    `markup_bytes` is about what surrounds the main text of a page: 11,000 give pages of 8–25 KB.
    """
    for block in blocks(pages, seed, markup_bytes):
        yield from events(block)


def truth(pages: int, seed: int) -> Iterator[PageTruth]:
    """What is true of that web after its whole log: every URL once."""
    for block in blocks(pages, seed, MARKUP_BYTES_MIN):
        yield from block.truths()


def blocks(pages: int, seed: int, markup_bytes: int) -> Iterator[PlannedBlock]:
    """The blocks of a web, planned one at a time."""
    if not 1 <= pages <= PAGES_MAX:
        raise BadSetting(f"pages must be between 1 and {PAGES_MAX:,}, not {pages:,}")
    if not MARKUP_BYTES_MIN <= markup_bytes <= MARKUP_BYTES_MAX:
        raise BadSetting(f"markup_bytes must be between {MARKUP_BYTES_MIN:,} and {MARKUP_BYTES_MAX:,}")
    for index, start in enumerate(range(0, pages, BLOCK_PAGES_MAX)):
        yield PlannedBlock(seed, index, min(BLOCK_PAGES_MAX, pages - start), markup_bytes)


def events(block: PlannedBlock) -> Iterator[CrawlEvent]:
    """The events of a block in log order, each written when it is asked for."""
    for page, fetch in block.events():
        yield _event(page, fetch)


def _event(page: PlannedPage, fetch: Fetch) -> CrawlEvent:
    if fetch.kind in ("content", "empty"):
        return _content_event(page, fetch)
    if fetch.kind == "meta_refresh":
        return CrawlEvent(url=page.url, fetched_at=_fetched_at(page, fetch), html=meta_refresh(fetch.target or ""))
    if fetch.kind == "redirect":
        return _redirect_event(page, fetch)
    status = 304 if fetch.kind == "unchanged" else (404, 404, 410)[fetch.fetched_at_s % 3]
    return CrawlEvent(url=page.url, fetched_at=_fetched_at(page, fetch), status=status)


def _redirect_event(page: PlannedPage, fetch: Fetch) -> CrawlEvent:
    """Every third target is written relative to the page, as servers do."""
    target = fetch.target or ""
    parts = urlsplit(target)
    if fetch.fetched_at_s % 3 == 0 and urlsplit(page.url).netloc == parts.netloc:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    status = REDIRECT_STATUSES[fetch.fetched_at_s % len(REDIRECT_STATUSES)]
    return CrawlEvent(url=page.url, fetched_at=_fetched_at(page, fetch), status=status, redirect_to=target)


def _content_event(page: PlannedPage, fetch: Fetch) -> CrawlEvent:
    site, html = page.site, _html(page, fetch)
    body, content_type = (None, None) if site.charset is None else _encoded(page, site, html)
    return CrawlEvent(
        url=page.url,
        fetched_at=_fetched_at(page, fetch),
        html=html if body is None else None,
        body=body,
        content_type=content_type,
        lang=site.language.code if site.tells_language else None,
        popularity=page.popularity,
    )


def _html(page: PlannedPage, fetch: Fetch) -> str:
    site = page.site
    frame = Rendering(_time(fetch.fetched_at_s).strftime("%Y-%m-%d %H:%M"), (fetch.fetched_at_s >> 3) % VARIANTS)
    if fetch.text is None:
        html = empty_layout(site.chrome, frame)
    elif page.rule == "print":
        html = print_layout(site.chrome, fetch.text, frame)
    elif page.rule == "mirror":
        html = LAYOUTS[site.mirror_layout](site.mirror_chrome, fetch.text, frame)
    else:
        html = LAYOUTS[site.layout](site.chrome, fetch.text, frame)
    return html if page.breakage is None else BREAKAGES[page.breakage % len(BREAKAGES)](html)


def _encoded(page: PlannedPage, site: Site, html: str) -> tuple[bytes, str]:
    """The page in the site's encoding, declared in the header, the page, or both; a lie declares another."""
    charset = site.charset or "utf-8"
    declared = charset
    if page.charset_lie:
        declared = "iso-8859-1" if charset == "utf-8" else "utf-8"
    body = html.replace("utf-8", declared, 1).encode(PYTHON_CODECS.get(charset, charset), "xmlcharrefreplace")
    return body, f"text/html; charset={declared}" if site.charset_in_header else "text/html"


def _fetched_at(page: PlannedPage, fetch: Fetch) -> str | int:
    if page.bad_time is not None:
        return page.bad_time
    if page.site.time_format == "seconds":
        return fetch.fetched_at_s
    shape = "%Y-%m-%dT%H:%M:%SZ" if page.site.time_format == "rfc3339" else "%Y%m%d%H%M%S"
    return _time(fetch.fetched_at_s).strftime(shape)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
