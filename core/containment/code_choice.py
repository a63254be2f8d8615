"""Which pages get a feature code: none, those in Chinese, Japanese and Korean, or all."""

from __future__ import annotations

from collections.abc import Callable

from dustream.core.text.code_parameters import OTHER_SCRIPTS, CodeParameters
from dustream.core.text.extractors import CodesFor
from dustream.core.text.feature_code import code_and_language
from dustream.core.text.language import SAMPLE_BYTES

CodeOf = Callable[[bytes], str]
"""The feature code of a text, "" for none."""

# All but the lead bytes of Han, kana and Hangul in UTF-8: a text whose beginning has no others is not CJK.
_NOT_CJK_BYTES = bytes([*range(0xE3), *range(0xEE, 0x100)])


def code_chooser(codes: CodesFor, parameters: CodeParameters) -> CodeOf:
    """A function that computes the codes of the pages that get one."""
    if codes == "off":
        return lambda utf8: ""
    if codes == "all":
        return lambda utf8: _code(utf8, parameters, is_cjk=False)
    return lambda utf8: _code(utf8, parameters, is_cjk=True) if _may_be_cjk(utf8) else ""


def _may_be_cjk(utf8: bytes) -> bool:
    sample = utf8[:SAMPLE_BYTES]
    return not sample.isascii() and sample.translate(None, _NOT_CJK_BYTES) != b""


def _code(utf8: bytes, parameters: CodeParameters, *, is_cjk: bool) -> str:
    """The code, or "" if the text has too little content, or if it must be CJK and is not."""
    code, language = code_and_language(utf8.decode("utf-8", "replace"), parameters)
    is_wanted = len(code) >= parameters.code_chars_min and not (is_cjk and language == OTHER_SCRIPTS)
    return code if is_wanted else ""
