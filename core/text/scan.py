"""A page → its text and what its head says, by the one-pass scanner: the same door as extract.extract.

The scanner reads bytes and keeps no tree, so nesting, attributes and unclosed elements cost it nothing; the one limit
is the page's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.encoding import decode_to_utf8
from dustream.core.text.extracted import (
    ATTRIBUTE_CHARS_MAX,
    TITLE_CHARS_MAX,
    Extracted,
    TextMode,
    first_refresh,
    without_surrogates,
)
from dustream.core.text.page_guard import check_size
from dustream.core.text.scan_blocks import (
    FACT_CANONICAL,
    FACT_CHARSET,
    FACT_LANG,
    FACT_REFRESH,
    FACT_ROBOTS,
    FACT_TITLE,
    FACT_XML_LANG,
    FACTS,
    Blocks,
    scan_blocks,
)
from dustream.core.text.scan_main import main_text
from dustream.core.text.scan_references import dereferenced
from dustream.core.text.scan_tables import name_tables


@dataclass(frozen=True, slots=True)
class Head:
    """What a page says about itself. URLs are as written, "" where there are none."""

    title: str = ""
    lang: str = ""
    charset: str = ""
    canonical: str = ""
    refresh_target: str = ""
    refresh_delay_s: float = 0.0
    is_noindex: bool = False


def scan(page: str | bytes, *, content_type: str | None = None, mode: TextMode = "main") -> Extracted:
    """Read a page. Raises BadEvent over page_guard.PAGE_BYTES_MAX.

    `main` is the main content; where there is none, the full text, so that a page is empty only when it shows nothing
    at all. `full` is everything a reader would see, menus included.
    """
    check_size(len(page))
    utf8 = decode_to_utf8(page, content_type) if isinstance(page, bytes) else _utf8(page)
    if content_type and content_type.lower().startswith("text/plain"):
        return Extracted(utf8=utf8.replace(b"\0", b""))
    check_size(len(utf8))
    found = scan_blocks(utf8)
    head = head_of(utf8, found)
    return Extracted(
        utf8=text_of(found, mode).tobytes(),
        title=head.title,
        lang=head.lang,
        canonical=head.canonical,
        refresh_target=head.refresh_target,
        refresh_delay_s=head.refresh_delay_s,
    )


def text_of(found: Blocks, mode: TextMode) -> NDArray[np.uint8]:
    """The page's text in UTF-8, without a Python string."""
    text = main_text(found) if mode == "main" else found.text
    return text if text.size else found.text


def head_of(utf8: bytes, found: Blocks) -> Head:
    """The facts of a scanned page's head."""
    places = found.facts.tolist()
    facts = {fact: _fact(utf8, start, end, fact) for fact, (start, end) in enumerate(places) if start >= 0}
    attributes = {fact: _attribute(value) for fact, value in facts.items()}
    target, delay_s = first_refresh(attributes[fact] for fact in range(FACT_REFRESH, FACTS) if fact in attributes)
    return Head(
        title=" ".join(facts.get(FACT_TITLE, "")[:TITLE_CHARS_MAX].split()),
        lang=attributes.get(FACT_LANG) or attributes.get(FACT_XML_LANG, ""),
        charset=attributes.get(FACT_CHARSET, ""),
        canonical=attributes.get(FACT_CANONICAL, ""),
        refresh_target=target,
        refresh_delay_s=delay_s,
        is_noindex="noindex" in attributes.get(FACT_ROBOTS, "").lower(),
    )


def _utf8(html: str) -> bytes:
    try:
        return html.encode()
    except UnicodeEncodeError:  # lone surrogates, which JSON can carry and UTF-8 cannot
        return without_surrogates(html).encode()


def _fact(utf8: bytes, start: int, end: int, fact: int) -> str:
    value = utf8[start:end]
    if b"&" in value:
        data = np.frombuffer(value, dtype=np.uint8)
        value = dereferenced(data, 0, data.size, fact != FACT_TITLE, *name_tables()).tobytes()
    return value.decode("utf-8", "replace").replace("\0", "\ufffd")


def _attribute(value: str) -> str:
    value = value.strip()
    return value if len(value) <= ATTRIBUTE_CHARS_MAX else ""
