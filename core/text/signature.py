"""A page's signature: tokens → shingle set → MinHash and length vector, and the content hash (docs/signatures.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.extractors import DEFAULT_SOURCE, TextSource, extractor
from dustream.core.text.language import detect_language, primary_subtag
from dustream.core.text.minhash import minhash
from dustream.core.text.shingles import distinct_shingles, length_vector
from dustream.core.text.tokens import hash_stream, text_bytes
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature


def sign(text: str | bytes, lang: str = "") -> PageSignature:
    """The signature of plain text, in its language unless `lang` names another.

    Text without tokens has no shingles, and token_count 0 says so.
    """
    data = text_bytes(text)
    tokens, content_hash = hash_stream(data)
    shingles = distinct_shingles(tokens)
    return PageSignature(
        version=SIGNATURE_VERSION,
        content_hash=content_hash,
        shingles=shingles.astype("<u8", copy=False).tobytes(),
        minhash=minhash(shingles).astype("<u4", copy=False).tobytes(),
        lengths=tuple(length_vector(shingles).tolist()),
        token_count=tokens.size,
        lang=primary_subtag(lang) or detect_language(data, tokens),
    )


def sign_page(
    page: str | bytes, *, content_type: str | None = None, lang: str = "", source: TextSource = DEFAULT_SOURCE
) -> PageSignature:
    """The signature of an HTML page. Language: as the crawler says, else the page's own attribute, else by its text."""
    extracted = extractor(source.extractor)(page, content_type=content_type, mode=source.mode)
    return sign(extracted.utf8, primary_subtag(lang) or extracted.lang)


def shingle_array(signature: PageSignature) -> NDArray[np.uint64]:
    """The signature's shingles, ascending, without a copy."""
    return np.frombuffer(signature.shingles, dtype="<u8")


def minhash_array(signature: PageSignature) -> NDArray[np.uint32]:
    """The signature's MinHash, without a copy."""
    return np.frombuffer(signature.minhash, dtype="<u4")


def shingle_count(signature: PageSignature) -> int:
    """The number of distinct shingles."""
    return len(signature.shingles) // 8
