"""Where the records of an archive begin and end.

A record is a head, which tells the length of its block, the block, and line ends. The length is right if another
record or the end follows the block. If it is not, the record is cut off, and the next record begins at the next
*start* (a line that only records begin with), wherever that stands. So a record that breaks off takes no bytes of
another and costs none of its neighbours.

A record may be cut by exactly as many bytes as the records that follow it take. Its length then fits by chance. So a
start inside a block counts as the next record if records follow one another from there to the end of the block,
unless the block is proven to be whole: by its digest, or by the length in its HTTP head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple, Protocol

from dustream.streams.readers.archive_record import Headers, Truncated, block_bytes_max
from dustream.streams.readers.content import Content, line_start_bytes_max, window_bytes_max
from dustream.streams.readers.http_head import has_head, head_bytes_max
from dustream.streams.readers.sources import BrokenSource, gzip_magic, unpack, zstd_magic

LENGTH: Final = re.compile(r"\s*(\d{1,18})\s*", re.ASCII)
cut_giants_max: Final = 16
_member_piece_bytes: Final = 16 * 1024
_MEMBER_MAGIC: Final = re.compile(re.escape(gzip_magic) + b"|" + re.escape(zstd_magic))
_BGZF_BLOCK: Final = re.compile(re.escape(gzip_magic) + rb"\x04.{6}\x06\x00BC\x02\x00", re.DOTALL)


class RecordHead(NamedTuple):
    """The head of a record: its fields, the bytes it takes, and the bytes that its block takes."""

    headers: Headers
    size: int
    block_size: int


class Format(Protocol):
    """The differences between WARC and ARC."""

    start: re.Pattern[bytes]
    """Matches where a record begins, wherever that is."""

    def head(self, content: Content, at: int) -> RecordHead:
        """The head of the record that begins here; Cut if there is none."""

    def ends_well(self, content: Content, end: int) -> bool:
        """Whether a block that ends here is followed by what follows blocks, though not by a record."""

    def is_whole(self, head: RecordHead, block: bytes) -> bool:
        """Whether something but its length shows that nothing of the block is missing."""


class UnsoundRecord(Truncated):
    """A record is not sound. `next_at`: where the next one begins, if that is known already."""

    def __init__(self, reason: str, next_at: int | None = None) -> None:
        super().__init__(reason)
        self.next_at = next_at


class Frame(NamedTuple):
    """A sound record, and of its block what is read of a page."""

    head: RecordHead
    block: bytes
    end: int


def frame(format: Format, content: Content, at: int) -> Frame:
    """The record that begins here; Cut if it is not sound."""
    head = format.head(content, at)
    block_at = at + head.size
    end = block_at + head.block_size
    if end - at > window_bytes_max:
        return _giant(format, content, head, block_at, end)
    if content.ends_before(end) or not _fits(format, content, block_at, end):
        raise _wrong_length(head)
    if (inner := _inner_record(format, content, at, head, end)) is not None:
        raise UnsoundRecord("the record ends early, where another one begins", inner)
    return Frame(head, content.read(block_at, min(head.block_size, block_bytes_max)), end)


def _giant(format: Format, content: Content, head: RecordHead, block_at: int, end: int) -> Frame:
    """A record larger than the window. To find that it is cut, all of it must be read, and then the archive again up to
    its start: after some such records, the others are taken to be cut."""
    if content.ends_before(end) or content.cut_giants >= cut_giants_max:
        raise _wrong_length(head)
    block = content.read(block_at, min(head.block_size, block_bytes_max))
    if not _fits(format, content, block_at, end):
        content.cut_giants += 1
        raise _wrong_length(head)
    return Frame(head, block, end)


def _wrong_length(head: RecordHead) -> UnsoundRecord:
    return UnsoundRecord(f"the record does not end where its length of {head.block_size} bytes says")


def _fits(format: Format, content: Content, block_at: int, end: int) -> bool:
    """Whether something follows that may follow a block. What is no record may be a damaged one, or the rest of a block
    whose length is wrong: then at least the HTTP head must be in it."""
    if content.is_end(end - 1):
        return False
    after = content.skip(end)
    if content.is_end(after):
        # of a broken member, the last record may be what is broken
        return content.broken is None or after <= content.broken_from
    if begins(format, content, after) or content.members(after, after + 1):
        return True
    if not format.ends_well(content, end):
        return False
    return end - block_at > window_bytes_max or has_head(content.read(block_at, min(head_bytes_max, end - block_at)))


def begins(format: Format, content: Content, at: int) -> bool:
    return format.start.match(content.read(at, line_start_bytes_max)) is not None


def _inner_record(format: Format, content: Content, at: int, head: RecordHead, end: int) -> int | None:
    """Where another record begins before this one ends. One that begins a member of compressed data is one; others are
    unless the block is proven whole."""
    for member in content.members(at + 1, end):
        if begins(format, content, member):
            return member
    block_at = at + head.size
    starts = list(_starts(format, content, block_at, end))
    if not starts:
        return None
    after = content.skip(end)
    is_followed = content.is_end(after) or begins(format, content, after)
    inner = _leading_to(format, content, starts, after) if is_followed else starts[0]
    return None if inner is None or format.is_whole(head, content.read(block_at, head.block_size)) else inner


def _leading_to(format: Format, content: Content, starts: list[int], after: int) -> int | None:
    """The first start from which records follow one another up to here."""
    leading = {after}
    for at in reversed(starts):
        try:
            head = format.head(content, at)
        except UnsoundRecord:
            continue
        end = at + head.size + head.block_size
        if end <= after and content.skip(end) in leading:
            leading.add(at)
    first = min(leading)
    return None if first == after else first


def _starts(format: Format, content: Content, at: int, before: int) -> Iterator[int]:
    found = content.find(format.start, at, before)
    while found is not None:
        yield found
        found = content.find(format.start, found + 1, before)


def next_member(file: BinaryIO, after: int, start: re.Pattern[bytes]) -> int | None:
    """The first gzip member or zstd frame at or after this offset that is sound from end to end and begins like a
    record, or that is a block of BGZF, where records begin anywhere."""
    stored = Content(file, after, packed=False)
    found = stored.find(_MEMBER_MAGIC, after)
    while found is not None:
        stored.release(found)
        if _is_sound(file, found, start):
            return found
        found = stored.find(_MEMBER_MAGIC, found + 1)
    return None


def _is_sound(file: BinaryIO, at: int, start: re.Pattern[bytes]) -> bool:
    file.seek(at)
    begun = _BGZF_BLOCK.match(file.read(line_start_bytes_max)) is not None
    head = b""
    try:
        for piece in unpack(_from(file, at), at):
            if piece.member is not None and piece.member > at:
                return begun
            if not begun:
                head += piece.content
                begun = start.match(head) is not None
                if not begun and len(head) > line_start_bytes_max:
                    return False
    except BrokenSource as error:
        return begun and error.at > at
    return begun


def _from(file: BinaryIO, position: int) -> Iterator[bytes]:
    while True:
        file.seek(position)
        piece = file.read(_member_piece_bytes)
        if not piece:
            return
        position += len(piece)
        yield piece
