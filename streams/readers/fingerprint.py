"""Whether a file is the one that was read before: by its size, its beginning and its end."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO, Final, Literal

from msgspec import Struct

from dustream.core.errors import UnreadableInput

fingerprint_bytes_max: Final = 64 * 1024

Change = Literal["same", "grown", "other"]


class Fingerprint(Struct, frozen=True):
    """Size of a file, and hashes of its first and last up to 64 KiB."""

    size_bytes: int
    head_hash: str
    tail_hash: str


def fingerprint(path: str) -> Fingerprint:
    """Identity of an input for resuming. Standard input and pipes have none: UnreadableInput."""
    with _open(path) as file:
        return _fingerprint_at(file, os.fstat(file.fileno()).st_size)


def change_since(earlier: Fingerprint, path: str) -> Change:
    """same: unchanged. grown: the same content with more appended. other: a different file of this name."""
    with _open(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes < earlier.size_bytes or _fingerprint_at(file, earlier.size_bytes) != earlier:
            return "other"
    return "same" if size_bytes == earlier.size_bytes else "grown"


def _open(path: str) -> BinaryIO:
    if not os.path.isfile(path):
        raise UnreadableInput(f"{path}: only a regular file can be resumed")
    return open(path, "rb")


def _fingerprint_at(file: BinaryIO, size_bytes: int) -> Fingerprint:
    """As if the file ended at `size_bytes`."""
    length = min(size_bytes, fingerprint_bytes_max)
    return Fingerprint(size_bytes, _hash(file, 0, length), _hash(file, size_bytes - length, length))


def _hash(file: BinaryIO, offset: int, length: int) -> str:
    file.seek(offset)
    return hashlib.blake2b(file.read(length), digest_size=16).hexdigest()
