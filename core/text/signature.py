"""A page's signature: tokens → shingle set → MinHash and length vector, and the content hash (docs/signatures.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dustream.core.text.extractors import DEFAULT_SOURCE, TextSource, extractor
from dustream.core.text.kept import Kept
from dustream.core.text.language import (
    LANGUAGES,
    SAMPLE_TOKENS,
    language_of,
    language_of_tokens,
    may_have_script,
    primary_subtag,
    word_table,
)
from dustream.core.text.minhash import ADDENDS_32, MULTIPLIERS_32, PERMUTATIONS, minima
from dustream.core.text.shingles import DEFAULT_TABLE, DIMENSIONS, distinct_shingles
from dustream.core.text.tokens import char_table, composed, count_into, hash_tokens, text_bytes
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature


class _Room(NamedTuple):
    """Where compiled code writes the parts of a signature."""

    shingles: NDArray[np.uint64]
    content_hash: NDArray[np.uint64]
    minhash: NDArray[np.uint32]
    lengths: NDArray[np.int64]


def _room_for(text_size: int) -> _Room:
    return _Room(
        np.empty(text_size // 2 + 2, dtype="<u8"),  # a token and what separates it are two bytes
        np.empty(2, dtype="<u8"),
        np.empty(PERMUTATIONS, dtype="<u4"),
        np.empty(DIMENSIONS, dtype=np.int64),
    )


_kept = Kept(_room_for)


@njit(cache=True)
def _sign_into(
    data: bytes, shingles: NDArray[np.uint64], content_hash: NDArray[np.uint64], minhash: NDArray[np.uint32],
    lengths: NDArray[np.int64], chars: NDArray[np.uint32], words: NDArray[np.uint64], languages: NDArray[np.uint32],
) -> tuple[int, int, bool, bool, int]:  # fmt: skip
    """(number of tokens, of shingles, whether NFC may change the text, whether a script may tell its language, the
    number of the language its words are in). One call: each would cost as much as it does."""
    text = np.frombuffer(data, dtype=np.uint8)
    tokens, low, high, may_compose = hash_tokens(text, chars)
    found = distinct_shingles(tokens)
    shingles[: found.size] = found
    content_hash[0], content_hash[1] = low, high
    minhash[:] = minima(found, MULTIPLIERS_32, ADDENDS_32)
    count_into(found, DEFAULT_TABLE, lengths)
    language = language_of_tokens(tokens[:SAMPLE_TOKENS], words, languages, len(LANGUAGES))
    return tokens.size, found.size, may_compose, may_have_script(text), language


def sign(text: str | bytes, lang: str = "") -> PageSignature:
    """The signature of plain text, in its language unless `lang` names another.

    Text without tokens has no shingles, and token_count 0 says so.
    """
    data = text_bytes(text)
    room, tables = _kept(len(data)), (char_table(), *word_table())
    tokens, shingles, may_compose, has_script, by_words = _sign_into(data, *room, *tables)
    if may_compose and (nfc := composed(data)) != data:
        room = _kept(len(nfc))
        tokens, shingles, _, _, by_words = _sign_into(nfc, *room, *tables)
    return PageSignature(
        version=SIGNATURE_VERSION,
        content_hash=room.content_hash.tobytes(),
        shingles=room.shingles[:shingles].tobytes(),
        minhash=room.minhash.tobytes(),
        lengths=tuple(room.lengths.tolist()),
        token_count=tokens,
        lang=primary_subtag(lang) or language_of(data, has_script, by_words),
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
