"""The text and head of a page by the one-pass scanner, with the interface of extract.extract.

The scanner reads bytes and builds no tree, so nesting, attributes and unclosed elements cost nothing; the only limit is
the page's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.encoding import charset_label, decode_to_utf8, is_utf8_where_valid
from dustream.core.text.extracted import (
    ATTRIBUTE_CHARS_MAX,
    TITLE_CHARS_MAX,
    Extracted,
    TextMode,
    first_refresh,
    resolved,
)
from dustream.core.text.language import primary_subtag
from dustream.core.text.one_pass import (
    HAS_REFRESH,
    LANGUAGE,
    MAIN,
    NAMED_ODDLY,
    NOT_NAMED,
    PAGE_BYTES,
    READ,
    REQUIRED,
    REQUIRED_BYTES,
    SIGN,
    TELL_LANGUAGE,
    TEXT_BYTES,
    UTF8,
    Room,
    one_pass,
    one_pass_decoded,
    one_pass_if_utf8,
    scan_blocks,
    subtag_of,
)
from dustream.core.text.page_guard import check_size
from dustream.core.text.scan_blocks import (
    FACT_BASE,
    FACT_CANONICAL,
    FACT_CHARSET,
    FACT_CONTENT_TYPE,
    FACT_LANG,
    FACT_REFRESH,
    FACT_ROBOTS,
    FACT_TITLE,
    FACT_XML_LANG,
    ROBOTS_MAX,
)
from dustream.core.text.scan_references import dereferenced
from dustream.core.text.scan_tables import name_tables
from dustream.core.text.signature import PageSigner, SignedPage, sign, signature_in
from dustream.core.text.tokens import TEXT_BYTES_MAX, text_too_long
from dustream.core.text.utf8 import utf8_array

TASKS: dict[TextMode, int] = {"main": READ | MAIN, "full": READ}

Utf8 = NDArray[np.uint8] | str
"""A page in UTF-8; a string if it is ASCII, whose characters are its bytes."""

Places = list[list[int]]
"""Of each fact of the head, where its value starts and ends in the page; -1 where the page does not say."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a page. URLs are as written, "" where there are none."""

    title: str = ""
    lang: str = ""
    charset: str = ""
    canonical: str = ""
    refresh_target: str = ""
    refresh_delay_s: float = 0.0
    is_noindex: bool = False


def scan(page: str | bytes, *, content_type: str | None = None, mode: TextMode = "main") -> Extracted:
    """Read a page. Raises BadEvent over page_guard.PAGE_BYTES_MAX.

    `main` is the main content; where there is none, or a scrap, the full text, so that a page is empty only when it
    shows nothing at all. `full` is everything a reader would see, menus included.
    """
    utf8 = _utf8(page, content_type)
    if _is_plain(content_type):
        return Extracted(utf8=_without_nul(utf8))
    room = one_pass(utf8, TASKS[mode])
    places = room.facts.tolist()
    target, delay_s = _refresh(utf8, places)
    found = room.result()
    return Extracted(
        utf8=room.text[: found[TEXT_BYTES]].tobytes(),
        required=room.parts[REQUIRED][: found[REQUIRED_BYTES]].tobytes(),
        title=_title(utf8, places),
        lang=_lang(utf8, places),
        canonical=_canonical(utf8, places),
        refresh_target=target,
        refresh_delay_s=delay_s,
    )


def scan_signer(mode: TextMode, with_text: bool) -> PageSigner:
    """A function that reads and signs a page in one call. The text becomes a Python object only on request."""
    task = TASKS[mode] | SIGN

    def scan_and_sign(page: str | bytes, content_type: str | None, lang: str) -> SignedPage:
        if content_type is not None and _is_plain(content_type):
            text = _without_nul(_utf8(page, content_type))
            return SignedPage(sign(text, lang), utf8=text, size=len(text))
        language = primary_subtag(lang) if lang else ""
        room, utf8 = _signed(page, content_type, task if language else task | TELL_LANGUAGE)
        found = room.result()
        if found[TEXT_BYTES] > TEXT_BYTES_MAX:
            raise text_too_long(found[TEXT_BYTES])
        text = room.text[: found[TEXT_BYTES]].tobytes() if with_text else b""
        target, delay_s, named = "", 0.0, found[LANGUAGE]
        if found[HAS_REFRESH] or named == NAMED_ODDLY:
            places = room.facts.tolist()
            target, delay_s = _refresh(utf8, places)
            language = language or primary_subtag(_lang(utf8, places))
        elif named > NOT_NAMED:
            language = language or subtag_of(named)
        canonical = _canonical(utf8, room.facts.tolist()) if room.facts[FACT_CANONICAL, 0] >= 0 else ""
        size = found[PAGE_BYTES]
        return SignedPage(signature_in(room, found, None, language), target, delay_s, canonical, text, size)

    return scan_and_sign


def _signed(page: str | bytes, content_type: str | None, task: int) -> tuple[Room, Utf8]:
    """The results of compiled code for a page, and the page in UTF-8, which the facts of its head point into."""
    if isinstance(page, str):
        room = one_pass_decoded(page, task)
        if room is not None:
            return room, page if page.isascii() else room.parts[UTF8]
    else:
        check_size(len(page))
        room = one_pass_if_utf8(page, task) if is_utf8_where_valid(page, content_type) else None
        if room is not None:
            return room, np.frombuffer(page, dtype=np.uint8)
    utf8 = _utf8(page, content_type)
    return one_pass(utf8, task), utf8


def _utf8(page: str | bytes, content_type: str | None) -> NDArray[np.uint8]:
    check_size(len(page))
    if isinstance(page, str):
        utf8 = utf8_array(page)
    else:
        utf8 = np.frombuffer(decode_to_utf8(page, content_type), dtype=np.uint8)
    check_size(utf8.size)
    return utf8


def _is_plain(content_type: str | None) -> bool:
    return content_type is not None and content_type.lower().startswith("text/plain")


def _without_nul(utf8: NDArray[np.uint8]) -> bytes:
    return utf8.tobytes().replace(b"\0", b"")


# --- the head


def head_of(page: bytes) -> Head:
    """The head of a page in UTF-8."""
    utf8, places = np.frombuffer(page, dtype=np.uint8), scan_blocks(page).facts.tolist()
    target, delay_s = _refresh(utf8, places)
    return Head(
        title=_title(utf8, places),
        lang=_lang(utf8, places),
        charset=_charset(utf8, places),
        canonical=_canonical(utf8, places),
        refresh_target=target,
        refresh_delay_s=delay_s,
        is_noindex=_is_noindex(utf8, places),
    )


def _title(utf8: Utf8, places: Places) -> str:
    return " ".join(_value(utf8, places[FACT_TITLE], in_attribute=False)[:TITLE_CHARS_MAX].split())


def _canonical(utf8: Utf8, places: Places) -> str:
    """The rel=canonical link, resolved against `<base href>` if there is one; either may be relative to the page."""
    return resolved(_attribute(utf8, places[FACT_BASE]), _attribute(utf8, places[FACT_CANONICAL]))


def _lang(utf8: Utf8, places: Places) -> str:
    return _attribute(utf8, places[FACT_LANG]) or _attribute(utf8, places[FACT_XML_LANG])


def _charset(utf8: Utf8, places: Places) -> str:
    """The charset that the page names first, in a meta charset or a meta http-equiv."""
    named, typed = places[FACT_CHARSET], places[FACT_CONTENT_TYPE]
    in_type = charset_label(_attribute(utf8, typed))
    if in_type and (named[0] < 0 or typed[0] < named[0]):
        return in_type
    return _attribute(utf8, named)


def _is_noindex(utf8: Utf8, places: Places) -> bool:
    said = (_attribute(utf8, place) for place in places[FACT_ROBOTS : FACT_ROBOTS + ROBOTS_MAX])
    return any(word in ("noindex", "none") for each in said for word in each.lower().replace(",", " ").split())


def _refresh(utf8: Utf8, places: Places) -> tuple[str, float]:
    if places[FACT_REFRESH][0] < 0:  # they are noted one behind the other
        return "", 0.0
    return first_refresh(_attribute(utf8, place) for place in places[FACT_REFRESH:] if place[0] >= 0)


def _attribute(utf8: Utf8, place: list[int]) -> str:
    value = _value(utf8, place, in_attribute=True).strip()
    return value if len(value) <= ATTRIBUTE_CHARS_MAX else ""


def _value(utf8: Utf8, place: list[int], *, in_attribute: bool) -> str:
    if place[0] < 0:
        return ""
    piece = utf8[place[0] : place[1]]
    value = piece.encode() if isinstance(piece, str) else piece.tobytes()
    if b"&" in value:
        found = np.frombuffer(value, dtype=np.uint8)
        value = dereferenced(found, 0, found.size, in_attribute, *name_tables()).tobytes()
    return value.decode("utf-8", "replace").replace("\0", "\ufffd")
