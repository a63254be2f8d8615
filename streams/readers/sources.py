"""Bytes of an input: a file, standard input or a member of a zip, plain or compressed with gzip or zstd.

A decompressor gives everything that precedes a break, and then raises `BrokenSource`. Memory is bounded whatever the
data claim: a piece of output is at most a few MiB for gzip, and for zstd what its largest block makes of one KiB.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Final, Literal

import zstandard

from dustream.core.errors import UnreadableInput

STDIN_DESCRIPTOR: Final = 0

Compression = Literal["plain", "gzip", "zstd"]

gzip_magic: Final = b"\x1f\x8b\x08"
zstd_magic: Final = b"\x28\xb5\x2f\xfd"
zstd_window_bytes_max: Final = 2**27
head_bytes_max: Final = 256 * 1024  # holds a whole zstd block (128 KiB), before which nothing comes out of a frame
piece_bytes_max: Final = 1024 * 1024
_compressed_piece_bytes: Final = 64 * 1024
_zstd_piece_bytes: Final = 1024  # a zstd block of 4 bytes may hold 128 KiB: 1 KiB makes at most 32 MiB


class BrokenSource(Exception):
    """The bytes end or stop making sense here; `str(error)` says how."""


class Source:
    """A stream of stored bytes that can be looked at before it is read. Counts what was taken."""

    def __init__(self, stream: BufferedReader, total_bytes: int | None) -> None:
        self._stream = stream
        self._ahead = b""
        self.bytes_total = total_bytes
        self.bytes_read = 0

    def peek(self, size: int = head_bytes_max) -> bytes:
        """The first bytes; of a pipe the first line will do, since the next may take its time."""
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

    def seek(self, offset: int) -> bool:
        """Go on from this byte of a plain file; False where that cannot be done."""
        if self.bytes_total is None or compression_of(self.peek()) != "plain" or offset > self.bytes_total:
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
            raise BrokenSource(f"cannot be read further: {error.strerror or error}") from None


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
    kind = compression_of(head)
    if kind == "plain":
        return head[:size]
    content = b""
    try:
        for piece in _decompress(kind, iter((head,))):
            content += piece
            if len(content) >= size:
                break
    except BrokenSource:
        pass  # the head ends in the middle of the data, or its first bytes are all there is to judge by
    return content[:size]


def read_content(source: Source) -> Iterator[bytes]:
    """The decompressed bytes in pieces. An empty piece marks the end of a gzip member."""
    kind = compression_of(source.peek())
    pieces = iter(lambda: source.read(_compressed_piece_bytes if kind != "plain" else piece_bytes_max), b"")
    return pieces if kind == "plain" else _decompress(kind, pieces)


def _decompress(kind: Compression, pieces: Iterator[bytes]) -> Iterator[bytes]:
    return _gunzip(pieces) if kind == "gzip" else _unzstd(pieces)


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """All members, one after the other, an empty piece after each. What precedes a break inside a piece is won back by
    going over it byte by byte from a copy of the state before it: zlib keeps back the output of a call that fails."""
    member: zlib._Decompress | None = None
    for piece in pieces:
        rest = piece
        while rest:
            if member is None:
                rest = rest.lstrip(b"\0")  # padding between and after members (tar, tapes)
                if not rest:
                    break
                member = zlib.decompressobj(wbits=31)
            before = member.copy()
            try:
                content = member.decompress(rest, piece_bytes_max)
            except zlib.error as error:
                yield from _salvage(before, rest)
                raise BrokenSource(f"gzip data are corrupt ({error})") from None
            if content:
                yield content
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
                yield b""
    if member is not None:
        yield from _tail(member)
        raise BrokenSource("gzip data end too early: the file is truncated")


def _tail(member: zlib._Decompress) -> Iterator[bytes]:
    if content := member.flush():
        yield content


def _salvage(member: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    for start in range(len(piece)):
        try:
            content = member.decompress(piece[start : start + 1])
        except zlib.error:
            return
        if content:
            yield content


def _unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """All frames, one after the other. Skippable frames give nothing."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=zstd_window_bytes_max)
    frame = decompressor.decompressobj()
    started = False
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            step, rest = rest[:_zstd_piece_bytes], rest[_zstd_piece_bytes:]
            while step:
                try:
                    content = frame.decompress(step)
                except zstandard.ZstdError as error:
                    raise BrokenSource(f"zstd data are corrupt or need another dictionary ({error})") from None
                if content:
                    yield content
                started = not frame.eof
                step = memoryview(frame.unused_data) if frame.eof else memoryview(b"")
                if frame.eof:
                    frame = decompressor.decompressobj()
    if started:
        raise BrokenSource("zstd data end too early: the file is truncated")
