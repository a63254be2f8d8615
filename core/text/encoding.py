"""Decoding of pages: bytes to characters, even where the declared charset is wrong.

In order: a byte order mark; UTF-8 if all bytes are valid UTF-8 (text in another charset is hardly ever valid UTF-8, so
a different declaration is wrong); the charset of the HTTP header; that of a meta tag; detection. A charset that does
not fit the bytes is skipped; if none fits, the first known one is used with replacement characters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from dustream.core.text.utf8 import is_utf8, utf8_of

# HTML5 looks for a meta charset in the first 1,024 bytes; pages in the wild put it later.
META_BYTES_MAX = 4096
CHARSETS_CACHED_MAX = 1024

# A page truncated inside a character, or with a few corrupt bytes, still has its declared charset.
_SPOILT_SHARE_MAX = 0.1

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARKS = tuple(bom for bom, _ in _BOMS)
_HTTP_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)

# Escape-based charsets are made of ASCII bytes, so they are also valid UTF-8: here the declaration decides.
_ESCAPE_BASED = frozenset({"iso2022_jp", "hz"})


def decode(page: bytes, content_type: str | None = None) -> str:
    """The page as text. Never fails; what cannot be decoded becomes U+FFFD."""
    if (marked := _by_mark(page)) is not None:
        return marked
    declared = list(_declared(page, content_type))
    return page.decode() if _is_in_utf8(page, declared) else _by_charset(page, declared)


def decode_to_utf8(page: bytes, content_type: str | None = None) -> bytes:
    """As `decode`, in UTF-8. Most pages are UTF-8 already and are not copied."""
    if (marked := _by_mark(page)) is not None:
        return utf8_of(marked)
    declared = list(_declared(page, content_type))
    return page if _is_in_utf8(page, declared) else utf8_of(_by_charset(page, declared))


def is_utf8_where_valid(page: bytes, content_type: str | None = None) -> bool:
    """Whether a page is in UTF-8 if it is valid UTF-8. Nearly all are: they have no mark, and do not declare a charset
    that is made of bytes of ASCII."""
    return not page.startswith(_MARKS) and not _is_ascii_based(page, _declared(page, content_type))


def _by_mark(page: bytes) -> str | None:
    for bom, name in _BOMS:
        if page.startswith(bom):
            return page[len(bom) :].decode(name, "replace")
    return None


def _by_charset(page: bytes, declared: list[str]) -> str:
    """A page that is not UTF-8, by the first declared charset that fits it, else by detection."""
    for name in declared:
        text = _decode_if_it_fits(page, name)
        if text is not None:
            return text
    detected = _codec(detect_encoding(page) or "utf-8") or "utf-8"
    text = _decode_if_it_fits(page, detected)
    return text if text is not None else page.decode((declared or [detected])[0], "replace")


def _is_in_utf8(page: bytes, declared: list[str]) -> bool:
    return not _is_ascii_based(page, declared) and is_utf8(page)


def _is_ascii_based(page: bytes, declared: Iterable[str]) -> bool:
    return any(name in _ESCAPE_BASED or _is_utf16(name, page) for name in declared)


def _declared(page: bytes, content_type: str | None) -> Iterator[str]:
    """The charsets the header and the page name, as Python codecs; unknown ones are left out."""
    meta = _META_CHARSET.search(page, 0, META_BYTES_MAX)
    for name in (_header_codec(content_type), _codec(meta[1].decode("ascii")) if meta else None):
        # Text without zero bytes is not UTF-16, although it may decode as such without an error.
        if name and (not name.startswith("utf-16") or _is_utf16(name, page)):
            yield name


def charset_label(content_type: str) -> str:
    """The charset of a Content-Type; "" if it names none."""
    match = _HTTP_CHARSET.search(content_type)
    return match[1] if match else ""


@lru_cache(maxsize=CHARSETS_CACHED_MAX)
def _header_codec(content_type: str | None) -> str | None:
    label = charset_label(content_type) if content_type else ""
    return _codec(label) if label else None


@lru_cache(maxsize=CHARSETS_CACHED_MAX)
def _codec(label: str) -> str | None:
    """The Python codec of a charset label by the WHATWG names (latin1 means windows-1252); None if there is none."""
    try:
        known = codecs.lookup(label.strip())
        if not getattr(known, "_is_text_encoding", True):
            return None
        return codecs.lookup(str(map_encoding_to_html5(label.strip()))).name
    except (LookupError, ValueError):
        return None


def _is_utf16(name: str, page: bytes) -> bool:
    return name.startswith("utf-16") and b"\0" in page[:META_BYTES_MAX]


def _decode_if_it_fits(page: bytes, name: str) -> str | None:
    try:
        return page.decode(name)
    except UnicodeDecodeError:
        text = page.decode(name, "replace")
    other = len(text.encode("utf-8", "replace")) - len(text)  # longer by each character outside ASCII
    return text if text.count("\ufffd") * 3 <= other * _SPOILT_SHARE_MAX else None
