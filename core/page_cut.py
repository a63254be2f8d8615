"""Truncation of large pages to the first 8 MiB, as a browser shows a page that is still loading."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from dustream.core.text.page_guard import PAGE_BYTES_MAX
from dustream.schemas.crawl import CrawlEvent

utf8_bytes_max: Final = 4  # per character
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def cut_event(event: CrawlEvent) -> CrawlEvent:
    """The event with at most PAGE_BYTES_MAX bytes of its page (decoded text: in UTF-8), marked `truncated` if it was
    cut."""
    html, text, body = _cut_text(event.html), _cut_text(event.text), _cut_bytes(event.body)
    if html is event.html and text is event.text and body is event.body:
        return event
    return replace(event, html=html, text=text, body=body, truncated=True)


def _cut_text(text: str | None) -> str | None:
    if text is None or len(text) * utf8_bytes_max <= PAGE_BYTES_MAX:
        return text
    utf8 = text.encode("utf-8", "surrogatepass")
    return (
        text
        if len(utf8) <= PAGE_BYTES_MAX
        else whole_characters(utf8[:PAGE_BYTES_MAX]).decode("utf-8", "surrogatepass")
    )


def _cut_bytes(body: bytes | None) -> bytes | None:
    return body if body is None or len(body) <= PAGE_BYTES_MAX else whole_characters(body[:PAGE_BYTES_MAX])


def smaller(page: str | bytes) -> str | bytes:
    """The first third of a page that exceeds the limit only when transcoded to UTF-8, where a byte grows to at most
    three."""
    return whole_characters(page[: len(page) // 3]) if isinstance(page, bytes) else page[: len(page) // 3]


def whole_characters(page: bytes) -> bytes:
    """The page without an incomplete UTF-8 character at its end, which would make the encoding look different."""
    if page.startswith(_UTF16_MARKS):
        return page[: len(page) & ~1]
    for back in range(1, min(utf8_bytes_max, len(page)) + 1):
        byte = page[-back]
        if byte & 0xC0 != 0x80:  # the first byte of a character
            size = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return page if size <= back else page[:-back]
    return page
