"""The signature of a page's text: a stored format, with a version that golden files pin (internal, msgpack).

The version changes with everything that changes signatures: how text is extracted and how it is signed.
"""

from __future__ import annotations

from msgspec import Struct

SIGNATURE_VERSION = 6


class PageSignature(Struct, frozen=True, array_like=True, gc=False):
    """The data by which pages are compared instead of their text.

    `shingles` are the distinct hashed k-token shingles, little-endian uint64, ascending. The top 12 bits of a
    shingle are the bucket of its first token, so the length vector for any sub-dictionary table follows from it.
    `minhash` is 128 little-endian uint32. `lengths` counts distinct shingles per default sub-dictionary. `code` is the
    page's feature code (Guo et al.), where one is taken.
    """

    version: int
    content_hash: bytes
    shingles: bytes
    minhash: bytes
    lengths: tuple[int, ...]
    token_count: int
    lang: str
    code: str = ""
