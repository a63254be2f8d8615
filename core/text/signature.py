"""A page's signature: tokens → shingle set → MinHash and length vector, and the content hash (docs/signatures.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.text.extractors import DEFAULT_SOURCE, Extractor, TextSource, extractor
from dustream.core.text.language import language_of, primary_subtag
from dustream.core.text.one_pass import BY_WORDS, HAS_SCRIPT, SIGN, TELL_LANGUAGE, Room, one_pass, run
from dustream.core.text.tokens import composed, text_bytes
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature


class SignedPage(Struct, frozen=True):
    """A page's signature, and what else of it decides what becomes of it."""

    signature: PageSignature
    refresh_target: str = ""
    refresh_delay_s: float = 0.0
    utf8: bytes = b""  # the text, where it was asked for


PageSigner = Callable[[str | bytes, str | None, str], SignedPage]
"""Of a page, its content type and its language as the crawler says."""


def sign(text: str | bytes, lang: str = "") -> PageSignature:
    """The signature of plain text, in its language unless `lang` names another.

    Text without tokens has no shingles, and token_count 0 says so.
    """
    data = np.frombuffer(text_bytes(text), dtype=np.uint8)
    return signature_in(one_pass(data, SIGN), data, lang)


def signature_in(room: Room, text: NDArray[np.uint8], lang: str) -> PageSignature:
    """The signature that compiled code left in the room, `text` being what it signed."""
    _, tokens, shingles, may_compose, _, _ = room.numbers.tolist()
    if may_compose and (nfc := composed(data := text.tobytes())) != data:
        text = np.frombuffer(data, dtype=np.uint8)  # the room gets the composed text's signature
        room = one_pass(np.frombuffer(nfc, dtype=np.uint8), SIGN)
        _, tokens, shingles, _, _, _ = room.numbers.tolist()
    return PageSignature(
        version=SIGNATURE_VERSION,
        content_hash=room.content_hash.tobytes(),
        shingles=room.shingles[:shingles].tobytes(),
        minhash=room.minhash.tobytes(),
        lengths=tuple(room.lengths.tolist()),
        token_count=tokens,
        lang=primary_subtag(lang) or _language_in(room, text),
    )


def _language_in(room: Room, text: NDArray[np.uint8]) -> str:
    """The language of the text whose tokens are in the room."""
    run(room, text, TELL_LANGUAGE)
    numbers = room.numbers.tolist()
    return language_of(text, bool(numbers[HAS_SCRIPT]), numbers[BY_WORDS])


def page_signer(source: TextSource, with_text: bool = False) -> PageSigner:
    """What reads and signs pages. Language: as the crawler says, else the page's own attribute, else by its text."""
    if source.extractor == "scan":
        from dustream.core.text.scan import scan_and_sign

        return lambda page, content_type, lang: scan_and_sign(page, content_type, lang, source.mode, with_text)
    read = extractor(source.extractor)
    return lambda page, content_type, lang: _read_and_sign(read, page, content_type, lang, source)


def _read_and_sign(
    read: Extractor, page: str | bytes, content_type: str | None, lang: str, source: TextSource
) -> SignedPage:
    found = read(page, content_type=content_type, mode=source.mode)
    signature = sign(found.utf8, primary_subtag(lang) or found.lang)
    return SignedPage(signature, found.refresh_target, found.refresh_delay_s, found.utf8)


def sign_page(
    page: str | bytes, *, content_type: str | None = None, lang: str = "", source: TextSource = DEFAULT_SOURCE
) -> PageSignature:
    """The signature of an HTML page."""
    return page_signer(source)(page, content_type, lang).signature


def shingle_array(signature: PageSignature) -> NDArray[np.uint64]:
    """The signature's shingles, ascending, without a copy."""
    return np.frombuffer(signature.shingles, dtype="<u8")


def minhash_array(signature: PageSignature) -> NDArray[np.uint32]:
    """The signature's MinHash, without a copy."""
    return np.frombuffer(signature.minhash, dtype="<u4")


def shingle_count(signature: PageSignature) -> int:
    """The number of distinct shingles."""
    return len(signature.shingles) // 8
