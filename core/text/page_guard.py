"""Limits checked before parsing: pages on which the parser would run for minutes or exhaust the memory.

Measured on lexbor and resiliparse's text writer (docs/explanation/signatures.md): time grows with the square of the
nesting depth and of the attributes of one tag, with (tags × formatting elements left open), and in the writer with
(elements × text).
Small pages cannot reach these limits; large ones are scanned first, in linear time (page_scan).
"""

from __future__ import annotations

from dustream.core.errors import BadEvent

PAGE_BYTES_MAX = 8 * 1024 * 1024  # also characters, where the page comes decoded
NESTING_MAX = 2_000  # browsers stop at 512
ATTRIBUTES_MAX = 4_000  # of one tag
NODES_MAX = 4_000_000  # tags × formatting elements left open, which HTML5 opens again in every block
WRITER_WORK_MAX = 100_000_000_000  # elements × bytes of text: about 4 s

# Below both, the worst page takes about half a second.
UNSCANNED_BYTES_MAX = 48 * 1024
UNSCANNED_TAGS_MAX = 2_000


class TooLarge(BadEvent):
    """The page or its text is larger than what is processed; a part of it can be processed."""


def check_size(size: int) -> None:
    """Raises TooLarge over PAGE_BYTES_MAX."""
    if size > PAGE_BYTES_MAX:
        raise TooLarge(f"page of {size} bytes: at most {PAGE_BYTES_MAX} are processed")


def check_page(page: bytes) -> None:
    """Raises BadEvent, with the limit that was passed, for a page (in UTF-8) that must not be parsed."""
    check_size(len(page))
    if len(page) <= UNSCANNED_BYTES_MAX and page.count(b"<") <= UNSCANNED_TAGS_MAX:
        return
    from dustream.core.text.page_scan import scan_page  # loads compiled code, which small pages do not need

    found = scan_page(page, NESTING_MAX)
    if found.nesting > NESTING_MAX:
        raise BadEvent(f"elements nested more than {NESTING_MAX} deep")
    if found.attributes > ATTRIBUTES_MAX:
        raise BadEvent(f"a tag with {found.attributes} attributes: at most {ATTRIBUTES_MAX} are processed")
    if found.tags * found.formatting > NODES_MAX:
        raise BadEvent(f"{found.formatting} formatting elements left open over {found.tags} tags: over {NODES_MAX}")
    if found.elements * found.text_bytes > WRITER_WORK_MAX:
        raise BadEvent(
            f"{found.elements} elements on {found.text_bytes} bytes of text: over {WRITER_WORK_MAX} in product"
        )
