"""Extractors by name. Each is imported on first use."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from dustream.core.text.code_parameters import DEFAULT_PARAMETERS, CodeParameters
from dustream.core.text.extracted import Extracted, TextMode

ExtractorName = Literal["scan", "resiliparse"]
CodesFor = Literal["off", "cjk", "all"]


class TextSource(NamedTuple):
    """Which text of a page is compared, which extractor reads it, and which pages get a feature code."""

    mode: TextMode = "main"
    extractor: ExtractorName = "scan"
    codes: CodesFor = "off"
    code_parameters: CodeParameters = DEFAULT_PARAMETERS


DEFAULT_SOURCE = TextSource()


class Extractor(Protocol):
    def __call__(self, page: str | bytes, *, content_type: str | None = None, mode: TextMode = "main") -> Extracted: ...


def extractor(name: ExtractorName) -> Extractor:
    """scan: our own scanner, one compiled pass. resiliparse: an HTML5 parser and its main-content extractor."""
    if name == "scan":
        from dustream.core.text.scan import scan

        return scan
    from dustream.core.text.extract import extract

    return extract
