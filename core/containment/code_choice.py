"""Which pages get a feature code: none, those in Chinese, Japanese and Korean, or all."""

from __future__ import annotations

import re
from collections.abc import Callable

from dustream.core.text.code_parameters import OTHER_SCRIPTS, CodeParameters
from dustream.core.text.extractors import CodesFor
from dustream.core.text.feature_code import feature_code
from dustream.core.text.language import SAMPLE_BYTES

CodeOf = Callable[[bytes], str]
"""The feature code of a text, "" for none."""

# The lead bytes of Han, kana and Hangul in UTF-8: a text whose beginning has none is not CJK.
_CJK_BYTE = re.compile(b"[\xe3-\xed]")


def code_chooser(codes: CodesFor, parameters: CodeParameters) -> CodeOf:
    """A function that computes the codes of the pages that get one."""
    if codes == "off":
        return lambda utf8: ""
    if codes == "all":
        return lambda utf8: _code(utf8, parameters, is_cjk=False)
    return lambda utf8: _code(utf8, parameters, is_cjk=True) if _CJK_BYTE.search(utf8, 0, SAMPLE_BYTES) else ""


def _code(utf8: bytes, parameters: CodeParameters, *, is_cjk: bool) -> str:
    """The code, or "" if the text has too little content, or if it must be CJK and is not."""
    found = feature_code(utf8.decode("utf-8", "replace"), parameters)
    is_wanted = len(found.code) >= parameters.code_chars_min and not (is_cjk and found.language == OTHER_SCRIPTS)
    return found.code if is_wanted else ""
