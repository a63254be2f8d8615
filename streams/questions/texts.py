"""The texts of two pages, read again, and their differences."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dustream.core.settings import Settings
from dustream.core.text.extracted import Extracted
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.questions.origins import NotThere, Watch, read_again
from dustream.streams.questions.pages import ComparedPage, KnownPage, common_shingles, compared_pages
from dustream.streams.questions.state import ReadableState
from dustream.streams.questions.word_diff import WordDiff, word_diff

QUOTED_CHARS_MAX = 120
_RULE = (
    "A page with little main text is compared by its visible text, menus included, and matches only pages with the "
    "same main text; a page of links matches only pages with the same headline."
)


class TextSizes(Struct, frozen=True, kw_only=True):
    """The sizes of two texts."""

    common_shingles: int
    shingles: tuple[int, int]
    words: tuple[int, int]


class TextAnswer(Struct, frozen=True, kw_only=True):
    """The differences between the texts of two pages; for a text that cannot be read, the reason and what is known.

    `note` says so if a page matches only pages with the same short main text or headline."""

    one: str
    other: str
    note: str = ""
    diff: WordDiff | None = None
    missing: list[str] = []
    sizes: TextSizes | None = None


def compare_texts(state: ReadableState, one: KnownPage, other: KnownPage, watch: Watch) -> TextAnswer:
    """Read both texts again from their inputs, and compare them word by word."""
    pages = (one, other)
    compared = compared_pages(state, pages)
    events = read_again(state, [page.row.origin for page in pages], watch)
    texts = [_text(state.settings, events[page.row.origin], found) for page, found in zip(pages, compared, strict=True)]
    found = [text for text in texts if not isinstance(text, NotThere)]
    missing = [f"{page.url}: {text}" for page, text in zip(pages, texts, strict=True) if isinstance(text, NotThere)]
    diff = word_diff(found[0].text, found[1].text) if not missing else None
    note = required_note((one.url, other.url), [text.required for text in found]) if not missing else ""
    return TextAnswer(one=one.url, other=other.url, note=note, diff=diff, missing=missing, sizes=_sizes(compared))


def required_note(urls: tuple[str, str], required: Sequence[bytes]) -> str:
    """What is said of pages with a required text (`Extracted.required`); "" if neither has one."""
    from dustream.core.text.signature import sign

    if not any(required):
        return ""
    if all(required) and sign(required[0]).content_hash == sign(required[1]).content_hash:
        return f"{_RULE} Both have the same: {_quoted(required[0])}."
    said = ", ".join(f"{_quoted(text) if text else 'none'} ({url})" for url, text in zip(urls, required, strict=True))
    return f"{_RULE} These differ: {said}."


def _quoted(text: bytes) -> str:
    words = " ".join(text.decode("utf-8", "replace").split())
    return f"“{words if len(words) <= QUOTED_CHARS_MAX else words[:QUOTED_CHARS_MAX] + '…'}”"


def _text(settings: Settings, event: CrawlEvent | NotThere, found: ComparedPage | None) -> Extracted | NotThere:
    """The text that was compared: extracted as in the run, and verified by its content hash."""
    from dustream.core.intake import extracted_of
    from dustream.core.text.signature import sign

    if isinstance(event, NotThere):
        return event
    if found is None:
        return NotThere("it has not been compared yet: let the run come to rest")
    text = extracted_of(event, settings.text_source)
    if text is None or found.shingle_count == 0:
        return NotThere("the fetched page has no text")
    if sign(text.utf8, required=text.required).content_hash != found.signature.content_hash:
        return NotThere("the input now has another text at this position")
    return text


def _sizes(compared: Sequence[ComparedPage | None]) -> TextSizes | None:
    one, other = compared
    if one is None or other is None:
        return None
    return TextSizes(
        common_shingles=common_shingles(one.signature, other.signature),
        shingles=(one.shingle_count, other.shingle_count),
        words=(one.signature.token_count, other.signature.token_count),
    )
