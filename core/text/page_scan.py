"""An upper bound of a page's nesting depth: a scan of the tags in linear time, before parsing.

It follows the HTML tokenizer (comments, quotes, raw text), so that no tag can be hidden from it, and the tree
construction only as far as an upper bound needs: which end tags close which elements. Where it does not follow, it
counts an element as open.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import find_key, key_table


class PageScan(NamedTuple):
    """Upper bounds; the scan stops once `nesting` is over the limit it was given."""

    nesting: int
    attributes: int
    formatting: int
    tags: int
    elements: int
    text_bytes: int


# Void elements, and those that nest only through others: a start tag closes an open one of their kind.
_NOT_NESTING = (
    "area base br col embed hr img input link meta param source track wbr "
    "p tr td th thead tbody tfoot colgroup html head body caption"
)
# An end tag inside these does not close what is open outside.
_HTML_SCOPE = "table object applet marquee template select "
_INTEGRATION_POINT = " mi mo mn ms mtext annotation-xml foreignobject desc"
_SCOPE = _HTML_SCOPE + "svg math frameset" + _INTEGRATION_POINT
# Their end tag takes out one element and leaves open what was opened inside ("adoption agency"; form likewise).
_FORMATTING = "a b big code em font i nobr s small strike strong tt u"
_TAKEN_OUT = _FORMATTING + " form"
# Their start tag closes an open one.
_CLOSES_ITSELF = "a nobr"
# Their start tag closes an open one that no special element but div and address stands before.
_LIST_ITEM = "li dd dt"
_DESCRIPTION = "dd dt"  # these two close each other
_SOFT = "div address"
# The end tag of a heading closes the last heading, of whatever rank.
_HEADING = "h1 h2 h3 h4 h5 h6"
# Their start tag closes an option that was opened last.
_CLOSES_OPTION = "option optgroup"
_OPTION = "option"
_PARAGRAPH = "p"
_TEMPLATE = "template"
_RAW_TEXT = "script style textarea title xmp iframe noembed noframes"
# Inside these, the raw text elements are ordinary ones or none at all.
_NO_RAW_TEXT = "svg math select frameset"
# Not closed: the parser takes or leaves it by rules of its own.
_NEVER_CLOSED = "frameset"
_FOREIGN = "svg math"
# Their start tag ends SVG and MathML around them.
_BREAKOUT = (
    "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
# Inside ruby, their start tag closes list items.
_RUBY_TEXT = "rt rp"
# Their end tag reaches as far as the scope.
_BLOCK = (
    (
        "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer "
        "header hgroup listing main menu nav ol pre search section summary ul "
    )
    + _HTML_SCOPE
    + _HEADING
)
# The end tag of an ordinary element does not reach past these.
_SPECIAL = _BLOCK + " svg math" + _INTEGRATION_POINT + " form frameset noscript plaintext li dd dt"

_GROUPS = (
    _NOT_NESTING,
    _SCOPE,
    _FORMATTING,
    _TAKEN_OUT,
    _CLOSES_ITSELF,
    _LIST_ITEM,
    _DESCRIPTION,
    _HEADING,
    _NEVER_CLOSED,
    _RUBY_TEXT,
    _FOREIGN,
    _BREAKOUT,
    _SOFT,
    _CLOSES_OPTION,
    _OPTION,
    _PARAGRAPH,
    _TEMPLATE,
    _INTEGRATION_POINT,
    _RAW_TEXT,
    _NO_RAW_TEXT,
    _BLOCK,
    _SPECIAL,
)
(
    NOT_NESTING,
    SCOPE,
    FORMATTING,
    TAKEN_OUT,
    CLOSES_ITSELF,
    LIST_ITEM,
    DESCRIPTION,
    HEADING,
    NEVER_CLOSED,
    RUBY_TEXT,
    FOREIGN,
    BREAKOUT,
    SOFT,
    CLOSES_OPTION,
    OPTION,
    PARAGRAPH,
    TEMPLATE,
    INTEGRATION_POINT,
    RAW_TEXT,
    NO_RAW_TEXT,
    BLOCK,
    SPECIAL,
) = (np.uint32(1 << bit) for bit in range(len(_GROUPS)))

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def _fnv1a(name: str) -> int:
    h = _FNV_OFFSET
    for byte in name.encode():
        h = ((h ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return h


@cache
def _name_table() -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Hashes of the names above, and what they are."""
    kinds: dict[int, int] = {}
    for bit, names in enumerate(_GROUPS):
        for h in map(_fnv1a, names.split()):
            kinds[h] = kinds.get(h, 0) | 1 << bit
    return key_table(kinds, np.uint32, slots_per_entry=4)


@inner
def _is_space(byte: int) -> bool:
    return byte == 0x20 or byte == 0x0A or byte == 0x09 or byte == 0x0D or byte == 0x0C


@inner
def _is_letter(byte: int) -> bool:
    return 0x61 <= (byte | 0x20) <= 0x7A


@inner
def _find(page: NDArray[np.uint8], at: int, byte: int) -> int:
    """Where the byte comes next; the page's end if it does not."""
    while at < page.size and page[at] != byte:
        at += 1
    return at


@inner
def _name(page: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    """(hash of the lower-case tag name at `at`, where it ends)."""
    h = np.uint64(_FNV_OFFSET)
    while at < page.size and not _is_space(page[at]) and page[at] != 0x2F and page[at] != 0x3E:
        byte = page[at]
        if 0x41 <= byte <= 0x5A:
            byte |= 0x20
        h = (h ^ np.uint64(byte)) * np.uint64(_FNV_PRIME)
        at += 1
    return h, at


@inner
def _kind(name: np.uint64, hashes: NDArray[np.uint64], kinds: NDArray[np.uint32]) -> np.uint32:
    return kinds[find_key(hashes, name)]  # type: ignore[no-any-return]  # an empty slot has no kind


@inner
def _skip_value(page: NDArray[np.uint8], at: int) -> int:
    """Past an attribute's value, quoted or not."""
    while at < page.size and _is_space(page[at]):
        at += 1
    if at < page.size and (page[at] == 0x22 or page[at] == 0x27):
        return _find(page, at + 1, page[at]) + 1
    while at < page.size and not _is_space(page[at]) and page[at] != 0x3E:
        at += 1
    return at


@inner
def _skip_attributes(page: NDArray[np.uint8], at: int) -> tuple[int, int, bool]:
    """(past the tag's ">", number of attributes, ends in "/>"): the attribute states of the HTML tokenizer."""
    count, slash = 0, False
    while at < page.size and page[at] != 0x3E:
        slash = page[at] == 0x2F
        if slash or _is_space(page[at]):
            at += 1
            continue
        count += 1
        at += 1  # whatever it is, "=" too, it starts a name
        while at < page.size and not _is_space(page[at]) and page[at] != 0x2F and page[at] != 0x3E and page[at] != 0x3D:
            at += 1
        while at < page.size and _is_space(page[at]):
            at += 1
        if at < page.size and page[at] == 0x3D:
            at = _skip_value(page, at + 1)
    return at + 1, count, slash


@inner
def _skip_declaration(page: NDArray[np.uint8], at: int, foreign: bool) -> int:
    """Past a comment, CDATA (which only foreign content has), doctype or processing instruction at `at`."""
    size = page.size
    if at + 3 < size and page[at + 1] == 0x21 and page[at + 2] == 0x2D and page[at + 3] == 0x2D:
        at += 2
        while at < size:  # "<!-->" and "<!--->" are whole comments
            at = _find(page, at, 0x2D)
            if at + 2 < size and page[at + 1] == 0x2D and page[at + 2] == 0x3E:
                return at + 3
            if at + 3 < size and page[at + 1] == 0x2D and page[at + 2] == 0x21 and page[at + 3] == 0x3E:
                return at + 4
            at += 1
        return size
    if foreign and at + 2 < size and page[at + 1] == 0x21 and page[at + 2] == 0x5B:
        while at < size:
            at = _find(page, at, 0x5D)
            if at + 2 < size and page[at + 1] == 0x5D and page[at + 2] == 0x3E:
                return at + 3
            at += 1
        return size
    return _find(page, at, 0x3E) + 1


@inner
def _skip_raw_text(page: NDArray[np.uint8], at: int, name: np.uint64) -> int:
    """To the end tag that ends the raw text of element `name`."""
    while at < page.size:
        at = _find(page, at, 0x3C)
        if at + 1 < page.size and page[at + 1] == 0x2F and _name(page, at + 2)[0] == name:
            return at
        at += 1
    return page.size


@inner
def _starts_between(page: NDArray[np.uint8], first: int, end: int) -> int:
    starts = 0
    for at in range(first, min(end, page.size - 1)):
        starts += page[at] == 0x3C and _is_letter(page[at + 1])
    return starts


@inner
def _matches(name: np.uint64, kind: np.uint32, open_name: np.uint64, open_kind: np.uint32) -> bool:
    return bool(name == open_name) or bool(kind & open_kind & (DESCRIPTION | HEADING))


@inner
def _find_open(
    name: np.uint64, kind: np.uint32, names: NDArray[np.uint64], kinds: NDArray[np.uint32], depth: int, only_last: bool
) -> tuple[int, bool]:
    """(where the open element stands that the tag closes, or -1; whether it is in reach)."""
    # The first are counted in SVG and MathML only; the end tag of the second means nothing inside other elements.
    if only_last or kind & (NOT_NESTING | INTEGRATION_POINT):
        is_last = depth > 0 and names[depth - 1] == name and not kinds[depth - 1] & PARAGRAPH
        return (depth - 1 if is_last else -1), True
    barrier = SCOPE if kind & (BLOCK | TAKEN_OUT) else SPECIAL | PARAGRAPH  # a paragraph inside is special, too
    soft = SOFT if kind & LIST_ITEM else np.uint32(0)
    is_reached = True
    at = depth - 1
    while at >= 0 and not _matches(name, kind, names[at], kinds[at]):
        if kinds[at] & SCOPE:
            return -1, False
        if kinds[at] & barrier and not kinds[at] & soft:
            is_reached = False
        at -= 1
    if at >= 0 and kinds[at] & barrier & PARAGRAPH and not kind & LIST_ITEM:
        is_reached = False
    return at, is_reached


@inner
def _seal(at: int, names: NDArray[np.uint64], kinds: NDArray[np.uint32]) -> None:
    """The parser may or may not have closed it: it stays counted, and no later tag is taken to close it."""
    names[at] = np.uint64(0)
    kinds[at] &= ~(LIST_ITEM | DESCRIPTION | HEADING | OPTION)


@inner
def _closes_last(kind: np.uint32, last_kind: np.uint32) -> bool:
    """Whether a start tag closes the element opened last: an option, a heading."""
    return bool(kind & CLOSES_OPTION and last_kind & OPTION) or bool(kind & last_kind & HEADING)


@inner
def _take_out(at: int, names: NDArray[np.uint64], kinds: NDArray[np.uint32], depth: int) -> None:
    for i in range(at, depth - 1):
        names[i], kinds[i] = names[i + 1], kinds[i + 1]


@inner
def _seal_list_items(names: NDArray[np.uint64], kinds: NDArray[np.uint32], depth: int) -> None:
    at = depth - 1
    while at >= 0 and kinds[at] & (LIST_ITEM | CLOSES_OPTION | RUBY_TEXT):
        _seal(at, names, kinds)
        at -= 1


@inner
def _nearest(kind: np.uint32, kinds: NDArray[np.uint32], depth: int) -> int:
    at = depth - 1
    while at >= 0 and not kinds[at] & kind:
        at -= 1
    return at


@inner
def _seal_foreign(names: NDArray[np.uint64], kinds: NDArray[np.uint32], depth: int) -> bool:
    """The SVG or MathML around may be over, unless an integration point stands before it: whether it was sealed."""
    at = _nearest(FOREIGN | INTEGRATION_POINT, kinds, depth)
    if at >= 0 and kinds[at] & FOREIGN:
        _seal(at, names, kinds)
        return True
    return False


@inner
def _in_foreign(names: NDArray[np.uint64], kinds: NDArray[np.uint32], depth: int) -> bool:
    """Surely in SVG or MathML, where "/>" closes an element."""
    at = _nearest(SCOPE, kinds, depth)
    return at >= 0 and (kinds[at] & FOREIGN) != 0 and names[at] != np.uint64(0)


@inner
def _count_kind(kinds: NDArray[np.uint32], first: int, end: int, kind: np.uint32) -> int:
    count = 0
    for i in range(first, end):
        count += (kinds[i] & kind) != 0
    return count


@inner
def _is_markup(page: NDArray[np.uint8], at: int) -> bool:
    following = page[at + 1]
    return page[at] == 0x3C and (_is_letter(following) or following == 0x2F or following == 0x21 or following == 0x3F)


@kernel
def _scan(
    page: NDArray[np.uint8], nesting_max: int, hashes: NDArray[np.uint64], table: NDArray[np.uint32]
) -> tuple[int, int, int, int, int, int]:
    names = np.empty(nesting_max + 2, dtype=np.uint64)
    kinds = np.empty(nesting_max + 2, dtype=np.uint32)
    depth = hidden = deepest = attributes_most = formatting = formatting_most = tags = elements = text_bytes = 0
    is_uncertain = False  # whether SVG or MathML has ended where no end tag says so
    start_closes = CLOSES_ITSELF | LIST_ITEM
    no_raw_text = foreign = 0  # how many elements are open in which raw text, or HTML's own closing, is none
    at = 0
    while at < page.size - 1 and deepest <= nesting_max:
        if not _is_markup(page, at):
            text_bytes += 1
            at += 1
            continue
        tags += 1
        is_end = page[at + 1] == 0x2F
        if not _is_letter(page[at + 1]) and not (is_end and at + 2 < page.size and _is_letter(page[at + 2])):
            first = at
            at = _skip_declaration(page, at, no_raw_text > 0)
            hidden += _starts_between(page, first, at) if no_raw_text else 0
            continue
        name, at = _name(page, at + 1 + is_end)
        at, attributes, is_self_closing = _skip_attributes(page, at)
        attributes_most = max(attributes_most, attributes)
        kind = _kind(name, hashes, table)
        if (is_end and not kind & NEVER_CLOSED) or (kind & start_closes and not foreign):
            found, is_reached = _find_open(name, kind, names, kinds, depth, is_uncertain)
            if not is_reached:
                if is_end and found >= 0:
                    _seal(found, names, kinds)
            elif found >= 0 and kind & TAKEN_OUT:
                _take_out(found, names, kinds, depth)
                depth -= 1
                formatting -= (kind & FORMATTING) != 0
            elif found >= 0:
                no_raw_text -= _count_kind(kinds, found, depth, NO_RAW_TEXT)
                foreign -= _count_kind(kinds, found, depth, FOREIGN)
                depth = found
        elif depth and not foreign and _closes_last(kind, kinds[depth - 1]):
            depth -= 1
        if kind & PARAGRAPH and depth:  # not counted itself, but noted on what it is in
            kinds[depth - 1] = kinds[depth - 1] & ~PARAGRAPH if is_end else kinds[depth - 1] | PARAGRAPH
        if kind & BREAKOUT and no_raw_text and (kind & NOT_NESTING or not is_end):  # "</p>" breaks out, too
            is_uncertain |= _seal_foreign(names, kinds, depth)
        if is_end:
            continue
        if kind & RUBY_TEXT:
            _seal_list_items(names, kinds, depth)
        elements += 1
        if kind & RAW_TEXT:
            first = at
            at = _skip_raw_text(page, at, name)
            hidden += _starts_between(page, first, at) if no_raw_text else 0
        elif is_self_closing and (kind & FOREIGN or (foreign and _in_foreign(names, kinds, depth))):
            continue
        elif not kind & NOT_NESTING or (no_raw_text and not kind & BREAKOUT):
            names[depth], kinds[depth] = name, kind
            if is_self_closing and foreign:  # behind a possible end of SVG or MathML: it may be open or closed
                names[depth], kinds[depth] = np.uint64(0), SCOPE | SPECIAL | (kind & (NO_RAW_TEXT | FOREIGN))
            depth += 1
            if kind & TEMPLATE:  # has insertion modes of its own, in which formatting elements are kept apart
                start_closes = LIST_ITEM
            no_raw_text += (kind & NO_RAW_TEXT) != 0
            foreign += (kind & FOREIGN) != 0
            formatting += (kind & FORMATTING) != 0
            formatting_most = max(formatting_most, formatting)
        deepest = max(deepest, depth + formatting + hidden)
    deepest = max(deepest, depth + formatting + hidden)
    return deepest, attributes_most, formatting_most, tags, elements + hidden, text_bytes


def scan_page(page: bytes, nesting_max: int) -> PageScan:
    """Scan a page in UTF-8."""
    return PageScan(*_scan(np.frombuffer(page, dtype=np.uint8), nesting_max, *_name_table()))
