"""Where records begin and end in an archive, for the moment when its reader has lost its way.

Archives are compressed record by record (WARC 1.1 annex D), so after damage the next gzip member or zstd frame that is
sound from end to end and begins like a record is where reading can go on; in a plain file, the next record header.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

import zstandard

from dustream.streams.readers.sources import (
    BrokenSource,
    compression_of,
    gzip_magic,
    zstd_magic,
    zstd_window_bytes_max,
)

_scan_bytes: Final = 1024 * 1024
_header_bytes_max: Final = 64 * 1024
_overlap_bytes: Final = 16 * 1024  # longer than any line that begins a record
_small_piece_bytes: Final = 16 * 1024
_MEMBER_MAGIC: Final = re.compile(re.escape(gzip_magic) + b"|" + re.escape(zstd_magic))
WARC_RECORD: Final = re.compile(rb"WARC/\d\.\d\r*\n[A-Za-z]")
BLANK_LINE: Final = re.compile(rb"\r\n\r\n")
ANY_BLANK_LINE: Final = re.compile(rb"\r*\n\r*\n")
_CONTENT_LENGTH: Final = re.compile(rb"^Content-Length:[ \t]*(\d+)[ \t]*\r*$", re.IGNORECASE | re.MULTILINE)


def is_compressed_at(file: BinaryIO, offset: int) -> bool:
    file.seek(offset)
    return compression_of(file.read(4)) != "plain"


def next_record_start(file: BinaryIO, after: int, record_start: re.Pattern[bytes] = WARC_RECORD) -> int | None:
    """The first sound record at or after this offset, or None."""
    if not is_compressed_at(file, 0):
        return next(_find(file, after, _after_line_feed(record_start)), None)
    return next((start for start in _find(file, after, _MEMBER_MAGIC) if _is_sound(file, start, record_start)), None)


def _after_line_feed(pattern: re.Pattern[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"(?<=\n)" + pattern.pattern)


def member_end(file: BinaryIO, start: int) -> int:
    """Where the member that begins here ends. Raises BrokenSource if it is not sound to its end."""
    return max(end for _, end in _member(file, start))


def framed_end(file: BinaryIO, start: int, blank_line: re.Pattern[bytes] = BLANK_LINE) -> int:
    """Where the record that begins here ends: where its Content-Length says, and then come two CRLF (WARC 1.1
    section 4; at the end of a file they may be missing). BrokenSource if not."""
    content = _content(file, start)
    head = b""
    end: re.Match[bytes] | None = None
    for piece in content:
        head += piece
        end = blank_line.search(head)
        if end or len(head) > _header_bytes_max:
            break
    length = _CONTENT_LENGTH.search(head, 0, end.end()) if end else None
    if end is None or length is None or not _ends_after(int(length[1]), head[end.end() :], content):
        raise BrokenSource("does not end where its Content-Length says")
    if is_compressed_at(file, start):
        return member_end(file, start)
    return start + end.end() + int(length[1]) + 4


def _ends_after(length: int, block: bytes, content: Iterator[bytes]) -> bool:
    seen = len(block)
    tail = block[length:]
    while len(tail) < 4 and (piece := next(content, b"")):
        tail += piece[max(0, length - seen) :]
        seen += len(piece)
    return seen >= length and not tail[:4].strip(b"\r\n")


def _find(file: BinaryIO, after: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """All offsets ≥ `after` where the pattern matches, reading on only as they are asked for."""
    base = max(0, after - 1)  # one byte more, so that a pattern may ask what precedes it
    position, window, least = base, b"", after
    while True:
        file.seek(position)
        piece = file.read(_scan_bytes)
        position += len(piece)
        window += piece
        decided = len(window) - _overlap_bytes if piece else len(window)  # a match at the very end may go on
        for found in pattern.finditer(window):
            if found.start() < decided and base + found.start() >= least:
                least = base + found.start() + 1
                yield least - 1
        if not piece:
            return
        passed = max(0, decided - 1)
        base, window = base + passed, window[passed:]


def _is_sound(file: BinaryIO, start: int, pattern: re.Pattern[bytes]) -> bool:
    head = b""
    begins = False
    try:
        for content, _ in _member(file, start):
            if not begins:
                head += content
                begins = pattern.match(head) is not None
                if not begins and len(head) > _overlap_bytes:
                    return False
    except BrokenSource:
        return False
    return begins


def _content(file: BinaryIO, start: int) -> Iterator[bytes]:
    file.seek(start)
    if compression_of(file.read(4)) != "plain":
        for content, _ in _member(file, start):
            yield content
        return
    position = start
    while True:
        file.seek(position)
        piece = file.read(_small_piece_bytes)
        if not piece:
            return
        position += len(piece)
        yield piece


def _member(file: BinaryIO, start: int) -> Iterator[tuple[bytes, int]]:
    """The content of one gzip member or zstd frame in pieces, each with the offset up to which it was stored."""
    file.seek(start)
    gzip = file.read(4).startswith(gzip_magic)
    member = (
        zlib.decompressobj(wbits=31)
        if gzip
        else zstandard.ZstdDecompressor(max_window_size=zstd_window_bytes_max).decompressobj()
    )
    position = start
    while not member.eof:
        file.seek(position)
        piece = file.read(_small_piece_bytes if gzip else 1024)
        if not piece:
            raise BrokenSource("ends too early")
        position += len(piece)
        try:
            content = member.decompress(piece)
        except (zlib.error, zstandard.ZstdError) as error:
            raise BrokenSource(f"is corrupt ({error})") from None
        yield content, position - len(member.unused_data)
