"""Which pages get a feature code: none, those in Chinese, Japanese and Korean, or all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dustream.core.containment.levels import CODE_CHARS_MIN
from dustream.core.text.extractors import CodesFor
from dustream.core.text.feature_code import OTHER_SCRIPTS, feature_code
from dustream.core.text.language import SAMPLE_BYTES
from dustream.schemas.pages import PageCode

CodeOf = Callable[[bytes], PageCode | None]

# The first bytes of Han, kana and Hangul in UTF-8: a text whose beginning has none is asked nothing more.
_CJK_BYTE = re.compile(b"[\xe3-\xed]")


def no_code(utf8: bytes) -> PageCode | None:
    return None


def code_if_cjk(utf8: bytes) -> PageCode | None:
    if _CJK_BYTE.search(utf8, 0, SAMPLE_BYTES) is None:
        return None
    code = code_of_any(utf8)
    return code if code is not None and code.language != OTHER_SCRIPTS else None


def code_of_any(utf8: bytes) -> PageCode | None:
    """The text's code; None if there is too little in it to be compared."""
    found = feature_code(utf8.decode("utf-8", "replace"))
    return PageCode(found.language, found.code) if len(found.code) >= CODE_CHARS_MIN else None


CODES: Mapping[CodesFor, CodeOf] = {"off": no_code, "cjk": code_if_cjk, "all": code_of_any}
