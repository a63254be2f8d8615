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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal

from dustream.core.text.code_parameters import DEFAULT_PARAMETERS, OTHER_SCRIPTS, CodeParameters
from dustream.core.text.language import SAMPLE_CHARS, by_script

Way = Literal["units", "paragraph_ends", "anchors", "beginning"]

# Spaces, controls, formatting and ignorable characters, and those of private use: icons of a site's own font, mostly,
# which no reprint has.
_INVISIBLE = re.compile(
    "[\\s\\x00-\\x1f\\x7f-\\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\uf8ff\U000e0000-\U0010ffff]+"
)
_LINES = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029]+")
_PIECE_CHARS = 4_096


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


def feature_code(text: str, parameters: CodeParameters = DEFAULT_PARAMETERS) -> FeatureCode:
    """Algorithm 2 on a page's main text, in which each paragraph (block) is a line. No visible text: an empty code."""
    paragraphs = mark_units(purified_paragraphs(text, parameters.text_chars_max), parameters)
    language = by_script("".join(paragraph.text for paragraph in paragraphs)[:SAMPLE_CHARS])
    if language not in parameters.anchors:
        language = OTHER_SCRIPTS
    code, way = _algorithm_2(paragraphs, parameters.anchors[language], parameters)
    return FeatureCode(code, way, language, paragraphs)


def purified_paragraphs(text: str, chars_max: int) -> list[str]:
    """Steps 1 and 2: the paragraphs of the first `chars_max` visible characters. Reads no further than these."""
    paragraphs: list[str] = []
    left = chars_max
    for line in _lines(text):
        visible = _first_visible(line, left)
        if visible:
            paragraphs.append(visible)
            left -= len(visible)
        if left == 0:
            break
    return paragraphs


def mark_units(texts: Iterable[str], parameters: CodeParameters) -> tuple[Paragraph, ...]:
    """Definition 1: a paragraph is a unit if it is long, or most of the text."""
    texts = tuple(texts)
    total = sum(map(len, texts))
    return tuple(
        Paragraph(each, len(each) >= parameters.unit_chars_min or len(each) / total >= parameters.unit_share_min)
        for each in texts
    )


def beside_anchors(text: str, anchors: str) -> str:
    """The characters next to an anchor, the first and the last one included."""
    pieces = _anchor_run(anchors).split(text)
    return "".join(piece[0] + piece[-1] if len(piece) > 1 else piece for piece in pieces)


def algorithm_1(units: Iterable[str], anchors: str) -> str:
    """The codes of the units, one after the other."""
    return "".join(beside_anchors(unit, anchors) for unit in units)


def _algorithm_2(paragraphs: tuple[Paragraph, ...], anchors: str, parameters: CodeParameters) -> tuple[str, Way]:
    texts = [paragraph.text for paragraph in paragraphs]
    units = [paragraph.text for paragraph in paragraphs if paragraph.is_unit]
    code, way = _step_3(texts, units, anchors, parameters)
    if len(code) < parameters.code_chars_min:
        return "".join(texts)[: 4 * parameters.end_paragraphs], "beginning"
    return code, way


def _step_3(texts: list[str], units: list[str], anchors: str, parameters: CodeParameters) -> tuple[str, Way]:
    if units:
        return algorithm_1(units, anchors), "units"
    if len(texts) >= parameters.paragraphs_min:
        count = parameters.end_paragraphs
        return "".join(each[0] + each[-1] for each in chain(texts[:count], texts[-count:])), "paragraph_ends"
    return beside_anchors("".join(texts), anchors), "anchors"


def _lines(text: str) -> Iterator[str]:
    start = 0
    for match in _LINES.finditer(text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def _first_visible(line: str, count: int) -> str:
    """In pieces, so that a line of ten megabytes is read only as far as needed."""
    visible = ""
    for start in range(0, len(line), _PIECE_CHARS):
        visible += _INVISIBLE.sub("", line[start : start + _PIECE_CHARS])
        if len(visible) >= count:
            break
    return visible[:count]


@cache
def _anchor_run(anchors: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(anchors)}]+")
