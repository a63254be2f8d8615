"""A page → its text and what its head says, by the one-pass scanner: the same door as extract.extract.

The scanner reads bytes and keeps no tree, so nesting, attributes and unclosed elements cost it nothing; the one limit
is the page's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.encoding import decode_to_utf8
from dustream.core.text.extracted import ATTRIBUTE_CHARS_MAX, TITLE_CHARS_MAX, Extracted, TextMode, first_refresh
from dustream.core.text.kept import Kept
from dustream.core.text.page_guard import check_size
from dustream.core.text.scan_blocks import (
    FACT_CANONICAL,
    FACT_CHARSET,
    FACT_LANG,
    FACT_REFRESH,
    FACT_ROBOTS,
    FACT_TITLE,
    FACT_XML_LANG,
    Blocks,
    Buffers,
    buffers_for,
    scan_into,
)
from dustream.core.text.scan_main import join_into, main_blocks, main_text
from dustream.core.text.scan_references import dereferenced
from dustream.core.text.scan_tables import name_tables
from dustream.core.text.utf8 import utf8_of

Places = list[list[int]]
"""Of each fact of the head, where its value starts and ends in the page; -1 where the page does not say."""


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
    utf8 = decode_to_utf8(page, content_type) if isinstance(page, bytes) else utf8_of(page)
    if content_type and content_type.lower().startswith("text/plain"):
        return Extracted(utf8=utf8.replace(b"\0", b""))
    check_size(len(utf8))
    room = _kept(len(utf8))
    size = _read(utf8, mode == "main", room.joined, *room.found, *name_tables())
    places = room.found.facts.tolist()
    target, delay_s = _refresh(utf8, places)
    return Extracted(
        utf8=room.joined[:size].tobytes(),
        title=_title(utf8, places),
        lang=_lang(utf8, places),
        canonical=_attribute(utf8, places[FACT_CANONICAL]),
        refresh_target=target,
        refresh_delay_s=delay_s,
    )


@njit(cache=True)
def _read(
    page: bytes, is_main: bool, joined: NDArray[np.uint8], text: NDArray[np.uint8], blocks: NDArray[np.int32],
    containers: NDArray[np.int32], facts: NDArray[np.int64], keys: NDArray[np.uint64], values: NDArray[np.int64],
) -> int:  # fmt: skip
    """Write a page's main text, or all of it, to `joined`: its size. One call, because each array that compiled code
    hands back costs as much as a page of a kilobyte."""
    utf8 = np.frombuffer(page, dtype=np.uint8)
    size, block_count, container_count = scan_into(utf8, text, blocks, containers, facts, keys, values)
    if is_main:
        chosen = main_blocks(blocks[:block_count], containers[:container_count])
        main_size = join_into(text, blocks[:block_count], chosen, joined)
        if main_size > 0:
            return main_size
    joined[:size] = text[:size]
    return size


class _Room(NamedTuple):
    joined: NDArray[np.uint8]
    found: Buffers


def _room_for(page_bytes: int) -> _Room:
    found = buffers_for(page_bytes)
    return _Room(np.empty_like(found.text), found)


_kept = Kept(_room_for)


def text_of(found: Blocks, mode: TextMode) -> NDArray[np.uint8]:
    """The page's text in UTF-8, without a Python string."""
    text = main_text(found) if mode == "main" else found.text
    return text if text.size else found.text


# --- the head


def head_of(utf8: bytes, found: Blocks) -> Head:
    """The facts of a scanned page's head."""
    places = found.facts.tolist()
    target, delay_s = _refresh(utf8, places)
    return Head(
        title=_title(utf8, places),
        lang=_lang(utf8, places),
        charset=_attribute(utf8, places[FACT_CHARSET]),
        canonical=_attribute(utf8, places[FACT_CANONICAL]),
        refresh_target=target,
        refresh_delay_s=delay_s,
        is_noindex="noindex" in _attribute(utf8, places[FACT_ROBOTS]).lower(),
    )


def _title(utf8: bytes, places: Places) -> str:
    return " ".join(_value(utf8, places[FACT_TITLE], in_attribute=False)[:TITLE_CHARS_MAX].split())


def _lang(utf8: bytes, places: Places) -> str:
    return _attribute(utf8, places[FACT_LANG]) or _attribute(utf8, places[FACT_XML_LANG])


def _refresh(utf8: bytes, places: Places) -> tuple[str, float]:
    if places[FACT_REFRESH][0] < 0:  # they are noted one behind the other
        return "", 0.0
    return first_refresh(_attribute(utf8, place) for place in places[FACT_REFRESH:] if place[0] >= 0)


def _attribute(utf8: bytes, place: list[int]) -> str:
    value = _value(utf8, place, in_attribute=True).strip()
    return value if len(value) <= ATTRIBUTE_CHARS_MAX else ""


def _value(utf8: bytes, place: list[int], *, in_attribute: bool) -> str:
    if place[0] < 0:
        return ""
    value = utf8[place[0] : place[1]]
    if b"&" in value:
        data = np.frombuffer(value, dtype=np.uint8)
        value = dereferenced(data, 0, data.size, in_attribute, *name_tables()).tobytes()
    return value.decode("utf-8", "replace").replace("\0", "\ufffd")
