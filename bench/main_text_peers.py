"""Other extractors of main text, each called as its authors advise for main text without comments."""

from __future__ import annotations

import trafilatura
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import HTMLTree


def trafilatura_main(page: bytes) -> str:
    """Bytes as they were fetched, comments left out; all else at its defaults."""
    return trafilatura.extract(page, include_comments=False) or ""


def resiliparse_main(page: bytes) -> str:
    """Main content of a tree parsed from bytes in their detected encoding, without comments."""
    tree = HTMLTree.parse_from_bytes(page, detect_encoding(page))
    return str(extract_plain_text(tree, main_content=True, comments=False, alt_texts=False))


PEERS = {"trafilatura": trafilatura_main, "resiliparse": resiliparse_main}
