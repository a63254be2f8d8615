"""Lines of a byte stream, with their offsets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dustream.streams.readers.records import Input, excerpt_bytes_max, line_bytes_max
from dustream.streams.readers.sources import BrokenSource, Source

_SPACES: Final = b" \t\n\r\x0b\x0c"


class Line(NamedTuple):
    """A line without its line feed: `piece[start:end]`, which is copied only where it is asked for. `too_long`: that is
    only its beginning. `ended`: a line feed ended it, not the end of the data."""

    offset: int
    piece: bytes
    start: int
    end: int
    too_long: bool = False
    ended: bool = True

    @property
    def content(self) -> bytes:
        return self.piece[self.start : self.end]

    @property
    def is_blank(self) -> bool:
        return self.start == self.end or (self.piece[self.start] in _SPACES and self.content.isspace())


class BrokenLine(Exception):
    """The source broke inside this line (or before it, if it is empty)."""

    def __init__(self, reason: str, offset: int, content: bytes) -> None:
        super().__init__(reason)
        self.offset = offset
        self.content = content


def lines_of(pieces: Iterator[bytes], bytes_max: int = line_bytes_max, offset: int = 0) -> Iterator[Line]:
    """All lines, holding no more than `bytes_max` and one piece; the first one begins at `offset`. Raises BrokenLine
    where the source breaks."""
    begun = _Begun(bytes_max)
    try:
        for piece in pieces:
            at = piece.find(b"\n")
            if at < 0:
                begun.add(piece)
                continue
            begun.add(piece[:at])
            yield begun.line(offset)
            offset += begun.size + 1
            start = at + 1
            while (end := piece.find(b"\n", start)) >= 0:
                too_long = end - start > bytes_max
                shown_end = min(end, start + excerpt_bytes_max) if too_long else end
                yield Line(offset, piece, start, shown_end, too_long)
                offset += end + 1 - start
                start = end + 1
            begun = _Begun(bytes_max)
            begun.add(piece[start:])
    except BrokenSource as error:
        raise BrokenLine(str(error), offset, begun.line(offset).content) from None
    if begun.size:
        yield begun.line(offset)._replace(ended=False)


class _Begun:
    """The line being assembled from pieces."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size <= self._bytes_max:
            self._parts.append(part)
        else:
            self._parts = [b"".join(self._parts)[:excerpt_bytes_max] or part[:excerpt_bytes_max]]

    def line(self, offset: int) -> Line:
        whole = b"".join(self._parts)
        return Line(offset, whole, 0, len(whole), self.size > self._bytes_max)


class LineInput(Input):
    """An input of lines, from a file or a pipe."""

    def __init__(self, path: str, source: Source) -> None:
        super().__init__(path)
        self._source = source

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        return self._source.bytes_total

    def close(self) -> None:
        self._source.close()
