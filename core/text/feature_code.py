"""Length-variable feature codes (Guo et al., section III.A): a short string that stands for a page's text.

The code is made of the characters on both sides of *anchors*: marks and characters that are frequent in any text. A
paragraph that is long, or most of the page, is an *independent extraction unit*, and only units count, so adverts,
comments and links around an article do not change its code. Pages without units fall back, in this order, on the
ends of their first and last paragraphs, on all of their text as one paragraph, on their first characters.

What the paper leaves open is decided here:
- Definition 1 lists its two conditions without a word between them; the text says "or", and Table I needs it.
- A paragraph's own beginning and end count as anchors (系 begins the paper's example code); anchors that stand
  together are one; a character between two anchors is taken once.
- The paper names 的 as an anchor, but its example code takes nothing beside 的. The default follows the example.
- Invisible characters go before the text is cut to 1,000 characters, not after: a thousand of them would hide a page.
- n_th and N are "by experience": N = 5 gives codes of 4N = 20 characters like the paper's, and n_th = 2N is the fewest
  paragraphs of which the first N and the last N do not overlap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner, kernel
from dustream.core.text.code_parameters import DEFAULT_PARAMETERS, OTHER_SCRIPTS, CodeParameters
from dustream.core.text.language import SAMPLE_CHARS, Chars, chars_of, script_language

Way = Literal["units", "paragraph_ends", "anchors", "beginning"]
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]

# Spaces, controls, formatting and ignorable characters, and those of private use: icons of a site's own font, mostly,
# which no reprint has. Beyond them, all from _INVISIBLE_FROM on.
_INVISIBLE = re.compile(
    "[\\s\\x00-\\x1f\\x7f-\\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\uf8ff]+"
)
_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029]+")
_INVISIBLE_FROM = 0xE0000
_VISIBLE_CHAR, _INVISIBLE_CHAR, _LINE_END = range(3)
_OTHER_PLANES = 0x10000

_WAYS: tuple[Way, ...] = get_args(Way)
_UNITS, _PARAGRAPH_ENDS, _ANCHORS, _BEGINNING = range(len(_WAYS))

PIECE_CHARS = 1_280  # of a text are looked at at a time: it may be ten megabytes, of which a thousand characters count


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The part of a paragraph that is used, without invisible characters."""

    text: str
    is_unit: bool


@dataclass(frozen=True, slots=True)
class FeatureCode:
    """The code, and what it was taken from and how."""

    code: str
    way: Way
    language: str
    paragraphs: tuple[Paragraph, ...]

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(paragraph.text for paragraph in self.paragraphs if paragraph.is_unit)


class Purified(NamedTuple):
    """Visible characters, and where the paragraphs of them end; none is empty."""

    chars: Chars
    ends: Ints

    @property
    def paragraphs(self) -> list[str]:
        return [_text(each) for each in np.split(self.chars, self.ends[:-1])] if self.ends.size else []


class _Taken(NamedTuple):
    """A code, how it was taken, and from what."""

    code: str
    way: Way
    language: str
    purified: Purified
    are_units: Marks


def feature_code(text: str, parameters: CodeParameters = DEFAULT_PARAMETERS) -> FeatureCode:
    """Algorithm 2 on a page's main text, in which each paragraph (block) is a line. No visible text: an empty code."""
    code, way, language, purified, are_units = _take(text, parameters)
    marked = zip(purified.paragraphs, are_units.tolist(), strict=True)
    return FeatureCode(code, way, language, tuple(Paragraph(*each) for each in marked))


def code_and_language(text: str, parameters: CodeParameters) -> tuple[str, str]:
    """Those of `feature_code`, without the paragraphs."""
    found = _take(text, parameters)
    return found.code, found.language


def purify(text: str, chars_max: int) -> Purified:
    """Steps 1 and 2: the paragraphs of the first `chars_max` visible characters. Reads little further than these."""
    room = min(chars_max, len(text))
    chars, ends, count, paragraphs = np.empty(room, np.uint32), np.empty(room, np.int64), 0, 0
    for start in range(0, len(text), PIECE_CHARS):
        piece = chars_of(text[start : start + PIECE_CHARS])
        count, paragraphs = _purify_into(piece, _kinds(), chars, count, ends, paragraphs)
        if count == room:
            break
    if count > (ends[paragraphs - 1] if paragraphs else 0):
        ends[paragraphs] = count
        paragraphs += 1
    return Purified(chars[:count], ends[:paragraphs])


def _take(text: str, parameters: CodeParameters) -> _Taken:
    purified = purify(text, parameters.text_chars_max)
    language = script_language(purified.chars[:SAMPLE_CHARS])
    if language not in parameters.anchors:
        language = OTHER_SCRIPTS
    chars, ends = purified
    are_units, code = np.empty(ends.size, np.bool_), np.empty(max(chars.size, 4 * parameters.end_paragraphs), np.uint32)
    size, way = _take_into(
        chars, ends, _anchor_table(parameters.anchors[language]), parameters.unit_chars_min,
        parameters.unit_share_min, parameters.paragraphs_min, parameters.end_paragraphs, are_units, code,
    )  # fmt: skip
    if size < parameters.code_chars_min:
        size, way, code = 4 * parameters.end_paragraphs, _BEGINNING, chars
    return _Taken(_text(code[:size]), _WAYS[way], language, purified, are_units)


def _text(chars: Chars) -> str:
    return chars.tobytes().decode("utf-32-le")


@cache
def _kinds() -> NDArray[np.uint8]:
    """By character of the basic plane."""
    kinds, plane = np.full(_OTHER_PLANES, _VISIBLE_CHAR, np.uint8), "".join(map(chr, range(_OTHER_PLANES)))
    for pattern, kind in ((_INVISIBLE, _INVISIBLE_CHAR), (_LINE_ENDS, _LINE_END)):
        for found in pattern.finditer(plane):
            kinds[found.start() : found.end()] = kind
    return kinds


@cache
def _anchor_table(anchors: str) -> Marks:
    """By character, up to the last anchor."""
    chars = chars_of(anchors)
    table = np.zeros(int(chars.max()) + 1, np.bool_)
    table[chars] = True
    return table


# --- compiled code


@inner
def _kind_of(char: np.uint32, kinds: NDArray[np.uint8]) -> int:
    if char < _OTHER_PLANES:
        return int(kinds[char])
    return _VISIBLE_CHAR if char < _INVISIBLE_FROM else _INVISIBLE_CHAR


@kernel
def _purify_into(
    piece: Chars, kinds: NDArray[np.uint8], chars: Chars, count: int, ends: Ints, paragraphs: int
) -> tuple[int, int]:
    """Append the visible characters, while there is room, and the ends of paragraphs: how many there are then."""
    for char in piece:
        kind = _kind_of(char, kinds)
        if kind == _VISIBLE_CHAR:
            if count == chars.size:
                break
            chars[count] = char
            count += 1
        elif kind == _LINE_END and count > (ends[paragraphs - 1] if paragraphs else 0):
            ends[paragraphs] = count
            paragraphs += 1
    return count, paragraphs


@inner
def _is_anchor(char: np.uint32, anchors: Marks) -> bool:
    return bool(char < anchors.size and anchors[char])


@inner
def _beside_anchors(chars: Chars, begin: int, end: int, anchors: Marks, code: Chars, size: int) -> int:
    """Algorithm 1: append the characters beside an anchor, or at an end, to the code of this size: its size then."""
    behind = True
    for i in range(begin, end):
        is_anchor = _is_anchor(chars[i], anchors)
        if not is_anchor and (behind or i + 1 == end or _is_anchor(chars[i + 1], anchors)):
            code[size] = chars[i]
            size += 1
        behind = is_anchor
    return size


@kernel
def _take_into(
    chars: Chars, ends: Ints, anchors: Marks, unit_chars_min: int, unit_share_min: float, paragraphs_min: int,
    end_paragraphs: int, are_units: Marks, code: Chars,
) -> tuple[int, int]:  # fmt: skip
    """Mark the units (Definition 1), and write the code of step 3: its size, and the way."""
    begin, size, has_units = 0, 0, False
    for number in range(ends.size):
        chars_here = ends[number] - begin
        are_units[number] = chars_here >= unit_chars_min or chars_here / chars.size >= unit_share_min
        if are_units[number]:
            size = _beside_anchors(chars, begin, ends[number], anchors, code, size)
            has_units = True
        begin = ends[number]
    if has_units:
        return size, _UNITS
    if ends.size < paragraphs_min:
        return _beside_anchors(chars, 0, chars.size, anchors, code, 0), _ANCHORS
    for number in range(ends.size):
        if number < end_paragraphs or number >= ends.size - end_paragraphs:
            code[size] = chars[ends[number - 1] if number else 0]
            code[size + 1] = chars[ends[number] - 1]
            size += 2
    return size, _PARAGRAPH_ENDS
