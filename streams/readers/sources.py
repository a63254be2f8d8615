"""Bytes of an input: a file, standard input or a member of a zip, plain or compressed with gzip or zstd.

A decompressor gives everything that precedes a break, and then raises `BrokenSource`. Memory is bounded whatever the
data claim: a piece of output is at most a few MiB for gzip, and for zstd what its largest block makes of one KiB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, Final, Literal, NamedTuple

import zstandard
from zlib_ng import zlib_ng

from dustream.core.errors import UnreadableInput

STDIN_DESCRIPTOR: Final = 0

Compression = Literal["plain", "gzip", "zstd"]

gzip_magic: Final = b"\x1f\x8b\x08"
zstd_magic: Final = b"\x28\xb5\x2f\xfd"
zstd_window_bytes_max: Final = 2**27
head_bytes_max: Final = 256 * 1024  # holds a whole zstd block (128 KiB), before which nothing comes out of a frame
piece_bytes_max: Final = 1024 * 1024
_compressed_piece_bytes: Final = 64 * 1024
_GZIP_WINDOW: Final = 31  # the largest window, in gzip framing
_PADDING: Final = b"\0\r\n"
_zstd_piece_bytes: Final = 1024  # a zstd block of 4 bytes may hold 128 KiB: 1 KiB makes at most 32 MiB


class BrokenSource(Exception):
    """The bytes end early or are invalid from here on. `at` is the start of the broken member."""

    at: int = 0


class Source:
    """A stream of stored bytes that can be looked at before it is read. Counts what was taken."""

    def __init__(self, stream: BufferedReader, total_bytes: int | None) -> None:
        self._stream = stream
        self._ahead = b""
        self.bytes_total = total_bytes
        self.bytes_read = 0

    def peek(self, size: int = head_bytes_max) -> bytes:
        """The first bytes; of a pipe only the first line, since the next may take long to arrive."""
        while len(self._ahead) < size and not (self.bytes_total is None and b"\n" in self._ahead):
            piece = self._read_stream(size - len(self._ahead))
            if not piece:
                break
            self._ahead += piece
        return self._ahead[:size]

    def read(self, size: int = piece_bytes_max) -> bytes:
        if self._ahead:
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            piece = self._read_stream(size)
        self.bytes_read += len(piece)
        return piece

    @property
    def is_plain_file(self) -> bool:
        return self.bytes_total is not None and compression_of(self.peek()) == "plain"

    def seek(self, offset: int) -> bool:
        """Continue at this byte of a plain file; False if that is not possible."""
        if self.bytes_total is None or not self.is_plain_file or offset > self.bytes_total:
            return False
        self._stream.seek(offset)
        self._ahead = b""
        self.bytes_read = offset
        return True

    def close(self) -> None:
        self._stream.close()

    def _read_stream(self, size: int) -> bytes:
        try:
            return self._stream.read1(size)
        except OSError as error:
            raise BrokenSource(f"reading failed: {error.strerror or error}") from None


def open_source(path: str) -> Source:
    """Open a file, or standard input for "-"."""
    try:
        # closed by the input that owns it; standard input itself stays open
        stream = open(STDIN_DESCRIPTOR if path == "-" else path, "rb", closefd=path != "-")  # noqa: SIM115
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}") from None
    return Source(stream, os.fstat(stream.fileno()).st_size if stream.seekable() else None)


def compression_of(head: bytes) -> Compression:
    if head.startswith(gzip_magic):
        return "gzip"
    # skippable frames (0x184D2A5?) may come first: they hold dictionaries or seek tables
    if head.startswith(zstd_magic) or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    return "plain"


def peek_content(source: Source, size: int = 64 * 1024) -> bytes:
    """The first decompressed bytes, leaving the source as it was."""
    head = source.peek()
    if compression_of(head) == "plain":
        return head[:size]
    content = b""
    try:
        for piece in unpack(iter((head,))):
            content += piece.content
            if len(content) >= size:
                break
    except BrokenSource:
        pass  # the head ends in the middle of the data, or its first bytes are all there is to judge by
    return content[:size]


def read_content(source: Source) -> Iterator[bytes]:
    """The decompressed bytes in pieces. An empty piece marks the end of a gzip member."""
    if compression_of(source.peek()) == "plain":
        return iter(source.read, b"")
    pieces = unpack(iter(lambda: source.read(_compressed_piece_bytes), b""))
    return (piece.content for piece in pieces if piece.content or piece.member is None)


class Piece(NamedTuple):
    """Unpacked bytes. Empty, with `member`: a gzip member or zstd frame begins at this offset of the stored bytes.
    Empty, without: one has ended."""

    content: bytes
    member: int | None = None


def unpack(stored: Iterator[bytes], at: int = 0) -> Iterator[Piece]:
    """All gzip members and zstd frames, one after the other, empty ones too; `at` is the offset of the first byte.
    BrokenSource, with the offset of the member that is broken, comes after everything that precedes the break."""
    ahead = _Ahead(stored, at)
    while ahead.skip_padding():
        start = ahead.offset
        yield Piece(b"", start)
        try:
            kind = compression_of(ahead.peek(4))
            if kind == "plain":
                raise BrokenSource("the following bytes are not compressed data")
            yield from _gzip_member(ahead) if kind == "gzip" else _zstd_frame(ahead)
        except BrokenSource as error:
            error.at = start
            raise
        yield Piece(b"")


class _Ahead:
    """Stored bytes; those that a decompressor did not use can be put back."""

    def __init__(self, stored: Iterator[bytes], at: int) -> None:
        self._stored = stored
        self._held = b""
        self._taken = 0  # of those held
        self.offset = at  # of the next byte

    def peek(self, size: int) -> bytes:
        while len(self._held) - self._taken < size and (more := next(self._stored, b"")):
            self._held, self._taken = self._held[self._taken :] + more, 0
        return self._held[self._taken : self._taken + size]

    def take(self, size: int) -> bytes:
        """At least one byte and at most `size`; none at the end."""
        if self._taken == len(self._held):
            self._held, self._taken = next(self._stored, b""), 0
        taken = self._held[self._taken : self._taken + size]
        self._taken += len(taken)
        self.offset += len(taken)
        return taken

    def put_back(self, size: int) -> None:
        """Return the last bytes of the last `take`."""
        self._taken -= size
        self.offset -= size

    def skip_padding(self) -> bool:
        """Pass over zeros and line ends between and after members (tar, tapes); False at the end."""
        while more := self.take(_compressed_piece_bytes):
            if rest := more.lstrip(_PADDING):
                self.put_back(len(rest))
                return True
        return False


def _gzip_member(ahead: _Ahead) -> Iterator[Piece]:
    """What precedes a break is won back by going over the last bytes one by one from a copy of the state before them:
    zlib discards the output of a call that fails."""
    member = zlib_ng.decompressobj(wbits=_GZIP_WINDOW)
    before: Any = None  # None: the member begins with these bytes
    while stored := ahead.take(_compressed_piece_bytes):
        while stored:
            try:
                content = member.decompress(stored, piece_bytes_max)
            except zlib_ng.error as error:
                yield from _salvage(before or zlib_ng.decompressobj(wbits=_GZIP_WINDOW), stored)
                raise BrokenSource(f"gzip data are corrupt ({error})") from None
            if content:
                yield Piece(content)
            if member.eof:
                ahead.put_back(len(member.unused_data))
                return
            stored = member.unconsumed_tail
            before = member.copy()
    if content := member.flush():
        yield Piece(content)
    raise BrokenSource("gzip data end too early: the file is truncated")


def _salvage(member: Any, stored: bytes) -> Iterator[Piece]:
    for start in range(len(stored)):
        try:
            content = member.decompress(stored[start : start + 1])
        except zlib_ng.error:
            return
        if content:
            yield Piece(content)


def _zstd_frame(ahead: _Ahead) -> Iterator[Piece]:
    """A skippable frame has no output."""
    frame = zstandard.ZstdDecompressor(max_window_size=zstd_window_bytes_max).decompressobj()
    while stored := ahead.take(_zstd_piece_bytes):
        try:
            content = frame.decompress(stored)
        except zstandard.ZstdError as error:
            raise BrokenSource(f"zstd data are corrupt or need another dictionary ({error})") from None
        if content:
            yield Piece(content)
        if frame.eof:
            ahead.put_back(len(frame.unused_data))
            return
    raise BrokenSource("zstd data end too early: the file is truncated")
