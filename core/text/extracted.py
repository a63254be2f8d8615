"""The result of every extractor, and code that all extractors share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal
from urllib.parse import urljoin

from msgspec import Struct

TextMode = Literal["main", "full"]

TITLE_CHARS_MAX = 1_000
ATTRIBUTE_CHARS_MAX = 8_192
REFRESH_DELAY_S_MAX = 86_400.0

# HTML5's "shared declarative refresh steps": a time, then optionally a separator and a URL, perhaps in quotes. Only the
# time may be missing before a separator, as some pages have it; anything else in its place makes it no refresh.
_REFRESH = re.compile(
    r"\s*+([0-9]*+(?:\.[0-9]*+)?+)[0-9.]*+(?:[\s;,]+|$)(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.*)", re.I | re.S
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Extracted(Struct, frozen=True):
    """The text and head of a page. Blocks are lines of the text. URLs are as written, a canonical link after `<base
    href>`; "" where there are none."""

    utf8: bytes  # the text as it is signed; `text` decodes it
    # What a page must have, too, to match this one: the main text, where it is a scrap and `utf8` is the full text; the
    # headline, where the main text may be a menu. Empty on most pages.
    required: bytes = b""
    title: str = ""
    lang: str = ""
    canonical: str = ""
    refresh_target: str = ""
    refresh_delay_s: float = 0.0

    @property
    def text(self) -> str:
        return self.utf8.decode("utf-8", "replace")


def first_refresh(contents: Iterable[str]) -> tuple[str, float]:
    """(URL, delay) of the first meta refresh of a page that names a URL."""
    for content in contents:
        match = _REFRESH.match(content)
        if match and match["url"]:
            quote = match["quote"]
            url = match["url"].split(quote, 1)[0] if quote else match["url"]
            return url.strip(), min(float(match[1].rstrip(".") or 0), REFRESH_DELAY_S_MAX)
    return "", 0.0


def resolved(base: str, link: str) -> str:
    """The link against `<base href>`; what comes out may still be relative to the page. No link stays none."""
    if not base or not link:
        return link
    try:
        return urljoin(base, link)
    except ValueError:  # a base that is no URL
        return link


def without_surrogates(text: str) -> str:
    """Lone surrogates, which JSON can carry and UTF-8 cannot, become replacement characters."""
    return _SURROGATES.sub("\ufffd", text)
