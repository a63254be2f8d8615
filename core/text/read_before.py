"""Pages that were read before: a crawler that comes again finds most pages as they were, to the byte.

What a page is read to depends on its bytes alone, so it need not be read again. To take a digest of every page would
cost a fifth of reading it. So a page that is read leaves a *trace* first (`page_trace`); a page with the trace of an
earlier one gets a digest, and its reading is kept under it; with that digest it is the same page, and gets that
reading. Pages that differ cost their traces, the second copy a digest, and the third is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from dustream.core.text.signature import SignedPage

KEPT_BYTES_MAX = 1 << 26
DIGEST_BYTES = 16
SIGNED_BYTES = 1_200  # of a signed page beside its shingles and its text


class Key(Struct, frozen=True, array_like=True):
    """All that a reading depends on, the settings aside."""

    digest: bytes
    lang: str


class ReadBefore:
    """Readings by what was read, the latest ones."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._kept: dict[Key, SignedPage] = {}
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def reading(self, utf8: NDArray[np.uint8], lang: str, read: Callable[[], SignedPage]) -> SignedPage:
        """That of a page with the trace of an earlier one: what is kept, or what `read` gives."""
        key = Key(sha256(utf8.data).digest()[:DIGEST_BYTES], lang)
        found = self._kept.pop(key, None)
        if found is None:
            found = read()
            self.kept_bytes += _size(found)
        self._kept[key] = found  # as the latest
        while self.kept_bytes > self._kept_bytes_max:
            self.kept_bytes -= _size(self._kept.pop(next(iter(self._kept))))
        return found


def _size(signed: SignedPage) -> int:
    return SIGNED_BYTES + len(signed.signature.shingles) + len(signed.utf8)
