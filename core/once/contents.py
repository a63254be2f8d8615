"""The contents of pages in columns, by number: only the parts needed for comparing them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dustream.core.similarity import threshold_ratio
from dustream.core.text.shingle_bytes import SHINGLE_BYTES, shingle_count
from dustream.core.tier2.bands import bands_for
from dustream.core.tier2.bucket_search import page_keys
from dustream.core.tier2.index import content_words
from dustream.schemas.signature import PageSignature

COLUMNS_AT_ONCE = 1_024
COPIES_KNOWN_MAX = 1 << 18  # contents whose copies share their shingles; more would take memory


class Spool(Protocol):
    """Sequential storage for 64-bit words, which may be too many for memory."""

    def append(self, words: bytes) -> None: ...

    def piece(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""

    def all(self) -> NDArray[np.uint64]:
        """All words appended."""

    def release(self) -> None:
        """May drop from memory what `all` returned; it is read again when it is needed."""

    def close(self) -> None: ...


class MemorySpool:
    """In memory: for tests and small inputs."""

    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, words: bytes) -> None:
        self._data += words

    def piece(self, start: int, end: int) -> bytes:
        return bytes(self._data[start:end])

    def all(self) -> NDArray[np.uint64]:
        return np.frombuffer(bytearray(self._data), dtype=np.uint64)  # writable like a mapped file: one array type

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


class Columns(NamedTuple):
    """All contents: the key of every band (one row per content), the content hash as two 64-bit words, whether the
    content has no shingles, and where its shingles start and end. Equal contents may share them."""

    keys: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    bare: NDArray[np.bool_]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    shingles: NDArray[np.uint64]


class Contents:
    """Signatures by number, from 0."""

    def __init__(self, threshold: float, new_spool: Callable[[], Spool]) -> None:
        self.ratio = threshold_ratio(threshold)
        self._bands, self._rows = bands_for(threshold)
        self.new_spool = new_spool
        self._shingles, self._keys = new_spool(), new_spool()
        self._starts, self._ends = array("q"), array("q")
        self._size = 0  # of all shingles
        self._known: dict[bytes, int] = {}  # by content hash: the content that has the shingles
        self._new: list[PageSignature] = []
        self.codes: dict[int, str] = {}  # feature codes by content number
        self.languages: list[str] = []
        self._parts: list[tuple[NDArray[np.uint64], NDArray[np.bool_]]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, signature: PageSignature) -> int:
        number, new = len(self._ends), self._new
        self._add_shingles(number, signature)
        new.append(signature)
        self.languages.append(sys.intern(signature.lang))
        if signature.code:
            self.codes[number] = signature.code
        if len(new) == COLUMNS_AT_ONCE:
            self._take_new()
        return number

    def _add_shingles(self, number: int, signature: PageSignature) -> None:
        """Every other page of many crawls is an exact copy: its shingles are not stored again."""
        first = self._known.setdefault(signature.content_hash, number)
        if first < number:
            self._starts.append(self._starts[first])
            self._ends.append(self._ends[first])
            return
        if len(self._known) > COPIES_KNOWN_MAX:
            self._known = {}
        self._starts.append(self._size)
        self._size += shingle_count(signature.shingles)
        self._ends.append(self._size)
        self._shingles.append(signature.shingles)

    def shingle_bytes(self, number: int) -> bytes:
        return self._shingles.piece(self._starts[number] * SHINGLE_BYTES, self._ends[number] * SHINGLE_BYTES)

    def sets(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Where each content's shingles start and end, and all shingles."""
        return np.array(self._starts, dtype=np.int64), np.array(self._ends, dtype=np.int64), self._shingles.all()

    def lengths(self) -> NDArray[np.int64]:
        """The number of shingles of each content."""
        return np.array(self._ends, dtype=np.int64) - np.array(self._starts, dtype=np.int64)

    def columns(self) -> Columns:
        self._known = {}  # all contents are there
        if self._new:
            self._take_new()
        hashes, bare = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return Columns(self._keys.all().reshape(-1, self._bands), hashes, bare, *self.sets())

    def release(self) -> None:
        """Keep within bounds what `sets` and `columns` have mapped into memory."""
        self._shingles.release()
        self._keys.release()

    def close(self) -> None:
        """Give back the memory and the files of shingles and keys."""
        self._shingles.close()
        self._keys.close()

    def _take_new(self) -> None:
        """Reduce new signatures to bands, which take a fifth of the size of MinHashes."""
        minhashes = np.frombuffer(b"".join([each.minhash for each in self._new]), dtype="<u4")
        hashes = content_words([each.content_hash for each in self._new])
        keys, bare = page_keys(minhashes.reshape(len(self._new), -1).copy(), hashes, self._bands, self._rows)
        self._keys.append(keys[:, : self._bands].tobytes())
        self._parts.append((hashes, bare))
        self._new = []
