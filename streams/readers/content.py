"""The content of an archive, unpacked, by offsets: what a reader needs to look ahead and to go back.

Memory is bounded: of what was read, a window is kept. To look behind it the archive is read again from the member (gzip
member, zstd frame) that the record being read begins in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Final

from dustream.streams.readers.sources import BrokenSource, Piece, compression_of, unpack

window_bytes_max: Final = 64 * 1024 * 1024
line_start_bytes_max: Final = 16 * 1024  # longer than any line that begins a record
_scan_bytes: Final = 256 * 1024
_piece_bytes: Final = 64 * 1024
_release_bytes: Final = 1024 * 1024
_skip_bytes: Final = 64


class Content:
    """From the byte, member or frame at `start` on. Offsets of plain content are those of the file; unpacked content
    begins at 0. It ends where the file does, or at damage: `broken`."""

    def __init__(self, file: BinaryIO, start: int, *, packed: bool) -> None:
        self._file = file
        self.is_packed = packed
        self.begin = 0 if packed else start
        self.broken: BrokenSource | None = None
        self.broken_from = 0
        """Where the content of the broken member begins."""
        self.cut_giants = 0
        """Records larger than the window that proved to be cut."""
        self._end = None if packed else file.seek(0, os.SEEK_END)
        self._members: dict[int, int] = {}
        self._open(start, self.begin)

    def _open(self, stored: int, at: int) -> None:
        self._window = bytearray()
        self._base = at
        self._is_all = False
        self._pieces = unpack(self._stored(stored), stored) if self.is_packed else map(Piece, self._stored(stored))

    def _stored(self, position: int) -> Iterator[bytes]:
        """The file from a position on, independent of other readers of it."""
        while True:
            try:
                self._file.seek(position)
                piece = self._file.read(_piece_bytes)
            except OSError as error:
                broken = BrokenSource(f"reading failed: {error.strerror or error}")
                broken.at = position
                raise broken from None
            if not piece:
                return
            position += len(piece)
            yield piece

    # ---------------------------------------------------------------- reading

    def read(self, at: int, size: int) -> bytes:
        """Fewer bytes than wanted at the end."""
        self._fill(at, at + size)
        low = at - self._base
        with memoryview(self._window) as view:
            return bytes(view[low : low + size])

    def is_end(self, at: int) -> bool:
        self._fill(at, at + 1)
        return self._base + len(self._window) <= at

    def ends_before(self, at: int) -> bool:
        """Whether it is known that there is less."""
        return self._end is not None and self._end < at

    @property
    def end(self) -> int:
        """The end of the content; reads up to it if necessary."""
        while self._end is None:
            self._fill(self._base + len(self._window), self._base + len(self._window) + 1)
        return self._end

    def skip(self, at: int, passed_over: bytes = b"\r\n") -> int:
        """The first offset that has another byte."""
        size = _skip_bytes
        while some := self.read(at, size):
            rest = some.lstrip(passed_over)
            at += len(some) - len(rest)
            if rest:
                break
            size = _scan_bytes
        return at

    def find(self, pattern: re.Pattern[bytes], at: int, before: int | None = None) -> int | None:
        """Where the pattern matches first, reading on as far as needed. No match is longer than a line that begins a
        record."""
        while before is None or at < before:
            until = at + _scan_bytes + line_start_bytes_max
            self._fill(at, until)
            match = pattern.search(self._window, at - self._base, until - self._base)
            found = None if match is None else self._base + match.start()
            del match  # it would keep the window from growing
            ended = self._base + len(self._window) < until
            if found is not None and (ended or found < at + _scan_bytes):
                return found if before is None or found < before else None
            if ended:
                return None
            at += _scan_bytes
        return None

    # ---------------------------------------------------------------- members

    def stored(self, at: int) -> int | None:
        """Where in the file the byte at this offset is stored, if it can be read from there."""
        return self._members.get(at) if self.is_packed else at

    def members(self, at: int, before: int) -> list[int]:
        """Where members begin, as far as has been read."""
        return [begins for begins in self._members if at <= begins < before]

    def release(self, at: int) -> None:
        """Content before this offset may be dropped."""
        if at - self._base > _release_bytes:
            self._drop(at)
        while len(self._members) > 1:
            first, second = islice(self._members, 2)
            if second > at:
                break
            del self._members[first]

    # ---------------------------------------------------------------- window

    def _fill(self, at: int, until: int) -> None:
        if at < self._base:
            self._go_back(at)
        while not self._is_all and self._base + len(self._window) < until:
            self._take()
            if len(self._window) > window_bytes_max:
                self._drop(at)

    def _take(self) -> None:
        try:
            piece = next(self._pieces, None)
        except BrokenSource as error:
            self.broken = error
            piece = None
        if piece is None:
            self._is_all = True
            self._end = self._base + len(self._window)
        elif piece.member is not None:
            self.broken_from = self._base + len(self._window)
            self._members[self.broken_from] = piece.member
        else:
            self._window += piece.content

    def _drop(self, before: int) -> None:
        spare = min(before - self._base, len(self._window))
        if spare > 0:
            del self._window[:spare]
            self._base += spare

    def _go_back(self, at: int) -> None:
        if not self.is_packed:
            self._open(at, at)
            return
        start = max(begins for begins in self._members if begins <= at)
        stored = self._members[start]
        self._members = {begins: place for begins, place in self._members.items() if begins <= start}
        self._open(stored, start)


def is_packed(file: BinaryIO, offset: int) -> bool:
    """Whether compressed data begin here."""
    file.seek(offset)
    return compression_of(file.read(4)) != "plain"
