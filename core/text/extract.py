"""The text and head of a page by resiliparse, an HTML5 parser with a main-content extractor.

docs/explanation/signatures.md compares extractors.
"""

from __future__ import annotations

from typing import Any

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from dustream.core.text.encoding import decode
from dustream.core.text.extracted import (
    ATTRIBUTE_CHARS_MAX,
    TITLE_CHARS_MAX,
    Extracted,
    TextMode,
    first_refresh,
    resolved,
    without_surrogates,
)
from dustream.core.text.page_guard import check_page, check_size


def extract(page: str | bytes, *, content_type: str | None = None, mode: TextMode = "main") -> Extracted:
    """Parse a page. Raises BadEvent over the limits of page_guard.

    `main` is the main content as resiliparse judges it; where it finds none, the full text, so that a page is empty
    only when it shows nothing at all. `full` is everything a reader would see, menus included.
    """
    check_size(len(page))
    html = decode(page, content_type) if isinstance(page, bytes) else page
    if content_type and content_type.lower().startswith("text/plain"):
        return Extracted(utf8=_clean(html).encode())
    try:
        utf8 = html.encode()
    except UnicodeEncodeError:  # lone surrogates, which JSON can carry and UTF-8 cannot
        html = without_surrogates(html)
        utf8 = html.encode()
    check_page(utf8)
    return _extracted(HTMLTree.parse(html), mode)


def _clean(text: str) -> str:
    return without_surrogates(text.replace("\0", ""))


def _extracted(tree: Any, mode: TextMode) -> Extracted:
    refreshes = tree.document.query_selector_all("meta[http-equiv=refresh i]")
    target, delay_s = first_refresh(_attribute(node, "content") for node in refreshes)
    root = tree.document.first_element_child
    return Extracted(
        utf8=_text(tree, mode).encode("utf-8", "replace"),
        title=" ".join((tree.title or "")[:TITLE_CHARS_MAX].split()),
        lang=_attribute(root, "lang") or _attribute(root, "xml:lang"),
        canonical=resolved(
            _attribute(tree.document.query_selector("base[href]"), "href"),
            _attribute(tree.document.query_selector("link[rel~=canonical i][href]"), "href"),
        ),
        refresh_target=target,
        refresh_delay_s=delay_s,
    )


def _text(tree: Any, mode: TextMode) -> str:
    if tree.body is None:
        return ""
    options: dict[str, bool] = {"links": False, "list_bullets": False, "alt_texts": False}
    text = ""
    if mode == "main":
        text = extract_plain_text(tree, main_content=True, comments=False, **options)
    if not text.strip():
        text = extract_plain_text(tree, main_content=False, **options)
    return str(text).replace("\0", "").strip()


def _attribute(node: Any, name: str) -> str:
    value = node.getattr(name) if node is not None else None
    return value.strip() if value and len(value) <= ATTRIBUTE_CHARS_MAX else ""
