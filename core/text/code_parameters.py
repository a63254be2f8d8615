"""The parameters of feature codes (Guo et al., section III.A): settings, so without any compiled code."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dustream.core.errors import BadSetting

# ASCII marks are in every set: pages of all languages mix them in.
_ASCII_ANCHORS = ".,;:?!\"'()[]"
_CJK_ANCHORS = "。，、；：？！…—·“”‘’「」『』《》〈〉【】〔〕（）．｡､"
OTHER_SCRIPTS = ""
DEFAULT_ANCHORS = {
    "zh": _CJK_ANCHORS + _ASCII_ANCHORS,
    "ja": _CJK_ANCHORS + "・〜～" + _ASCII_ANCHORS,
    "ko": _CJK_ANCHORS + "ㆍ～" + _ASCII_ANCHORS,
    OTHER_SCRIPTS: "“”‘’„«»‹›…–—¿¡،؛؟।॥" + _ASCII_ANCHORS,
}


class CodeParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of Algorithms 1 and 2, with the paper's values where it gives any."""

    text_chars_max: Annotated[int, Meta(description="visible characters of a text that are looked at")] = 1_000
    unit_chars_min: Annotated[int, Meta(description="L_pth: a paragraph of so many characters is a unit")] = 300
    unit_share_min: Annotated[float, Meta(description="δ_p: or one that is this share of the text")] = 0.75
    paragraphs_min: Annotated[int, Meta(description="n_th: paragraphs from which on their ends make the code")] = 10
    end_paragraphs: Annotated[int, Meta(description="N: of so many first and so many last paragraphs")] = 5
    code_chars_min: Annotated[int, Meta(description="a shorter code is replaced by the text's beginning")] = 8
    anchors: Annotated[
        dict[str, str], Meta(description='marks beside which characters are taken, by language; "": all others')
    ] = msgspec.field(default_factory=lambda: dict(DEFAULT_ANCHORS))

    def __post_init__(self) -> None:
        if self.text_chars_max < 1 or self.unit_chars_min < 0 or self.end_paragraphs < 1 or self.code_chars_min < 0:
            raise BadSetting("lengths of feature codes must be positive")
        if not 0 < self.unit_share_min <= 1:
            raise BadSetting(f"unit_share_min {self.unit_share_min} must be above 0 and at most 1")
        if self.paragraphs_min < 2 * self.end_paragraphs:
            raise BadSetting(f"paragraphs_min {self.paragraphs_min} must be at least twice end_paragraphs")
        if OTHER_SCRIPTS not in self.anchors or not all(self.anchors.values()):
            raise BadSetting('anchors need a set for "" (all other languages), and no set may be empty')


DEFAULT_PARAMETERS = CodeParameters()
