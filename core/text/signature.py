"""A page's signature: shingle set, MinHash, length vector and content hash (docs/explanation/signatures.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.text.extractors import DEFAULT_SOURCE, Extractor, TextSource, extractor
from dustream.core.text.language import language_of, primary_subtag
from dustream.core.text.one_pass import (
    BY_WORDS,
    CONTENT_HASH_FOUND,
    HAS_SCRIPT,
    MAY_COMPOSE,
    MINHASH_FOUND,
    NOTHING_REQUIRED,
    NUMBERS,
    REQUIRED_HASH,
    SHINGLES_FOUND,
    SIGN,
    TELL_LANGUAGE,
    TEXT_BYTES,
    TOKENS_FOUND,
    Result,
    Room,
    one_pass,
    run,
)
from dustream.core.text.tokens import composed, text_bytes
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature


class SignedPage(Struct, frozen=True, gc=False):
    """A page's signature, and the facts of its head that decide how it is processed."""

    signature: PageSignature
    refresh_target: str = ""
    refresh_delay_s: float = 0.0
    canonical: str = ""  # as the page writes it
    utf8: bytes = b""  # the text, on request
    size: int = 0  # of the page in UTF-8, in bytes


PageSigner = Callable[[str | bytes, str | None, str], SignedPage]
"""Of a page, its content type and its language as the crawler says."""


def sign(text: str | bytes, lang: str = "", required: bytes = b"") -> PageSignature:
    """The signature of plain text, in its language unless `lang` names another.

    Text without tokens has no shingles, and token_count 0 says so. It matches only texts with the same required text
    (`Extracted.required`).
    """
    required_hash = NOTHING_REQUIRED
    if required:
        found = one_pass(np.frombuffer(required, dtype=np.uint8), SIGN).result()
        required_hash = int.from_bytes(found[CONTENT_HASH_FOUND][:8], "little", signed=True)
    data, language = np.frombuffer(text_bytes(text), dtype=np.uint8), primary_subtag(lang)
    room = one_pass(data, SIGN if language else SIGN | TELL_LANGUAGE, required_hash)
    return signature_in(room, room.result(), data, language)


def signature_in(room: Room, found: Result, text: NDArray[np.uint8] | None, language: str) -> PageSignature:
    """The signature that compiled code left in the room, of `text`, or of the text that it read and left there; in
    this language, where it is known (a primary subtag)."""
    if found[MAY_COMPOSE] or not language:
        text = room.text[: found[TEXT_BYTES]] if text is None else text
        room, found, text = _composed(room, found, text)
        language = language or language_of(text, bool(found[HAS_SCRIPT]), found[BY_WORDS])
    return PageSignature(
        SIGNATURE_VERSION,
        found[CONTENT_HASH_FOUND],
        room.shingles(found[SHINGLES_FOUND]),
        found[MINHASH_FOUND],
        found[NUMBERS:CONTENT_HASH_FOUND],
        found[TOKENS_FOUND],
        language,
    )


def _composed(room: Room, found: Result, text: NDArray[np.uint8]) -> tuple[Room, Result, NDArray[np.uint8]]:
    """The same, or the signature of the text in composed form (NFC) if that differs. The script is detected on the text
    as written."""
    if found[MAY_COMPOSE] and (nfc := composed(data := text.tobytes())) != data:
        text = np.frombuffer(data, dtype=np.uint8)  # the room gets the composed text's signature
        room = one_pass(np.frombuffer(nfc, dtype=np.uint8), SIGN, found[REQUIRED_HASH])
        run(room, text, TELL_LANGUAGE)
        found = room.result()
    return room, found, text


def page_signer(source: TextSource, with_text: bool = False) -> PageSigner:
    """A function that reads and signs pages. Language: the crawler's, else the page's attribute, else detected."""
    if source.extractor == "scan":
        from dustream.core.text.scan import scan_signer

        return scan_signer(source.mode, with_text)
    read = extractor(source.extractor)
    return lambda page, content_type, lang: _read_and_sign(read, page, content_type, lang, source)


def _read_and_sign(
    read: Extractor, page: str | bytes, content_type: str | None, lang: str, source: TextSource
) -> SignedPage:
    found = read(page, content_type=content_type, mode=source.mode)
    signature = sign(found.utf8, primary_subtag(lang) or found.lang, found.required)
    size = len(page if isinstance(page, bytes) else page.encode("utf-8", "replace"))
    return SignedPage(signature, found.refresh_target, found.refresh_delay_s, found.canonical, found.utf8, size)


def sign_page(
    page: str | bytes, *, content_type: str | None = None, lang: str = "", source: TextSource = DEFAULT_SOURCE
) -> PageSignature:
    """The signature of an HTML page."""
    return page_signer(source)(page, content_type, lang).signature


def minhash_array(signature: PageSignature) -> NDArray[np.uint32]:
    """The signature's MinHash, without a copy."""
    return np.frombuffer(signature.minhash, dtype="<u4")
