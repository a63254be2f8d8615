"""ARC and ARC.gz, the predecessor of WARC (as the Internet Archive wrote it until 2008): responses only.

Each record is a line (URL, address, time, type, length; version 2 has five more fields before the length), that many
bytes, and a line feed. Damage costs the records it touches, and one rejection (framing.py).
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from dustream.streams.readers.archive_input import ArchiveInput
from dustream.streams.readers.content import Content, line_start_bytes_max
from dustream.streams.readers.framing import LENGTH, Format, RecordHead, UnsoundRecord
from dustream.streams.readers.http_head import is_all_there

_FIELDS: Final = rb":\S{1,8192} [0-9A-Fa-f.:-]+ \d{12,18} \S+(?:(?: \S+){5})? -?\w+\r?\n"
_LINE: Final = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*:\S+) \S+ (\d+) \S+(?:(?: \S+){5})? (-?\w+)\r?\n")
# A second URL inside a URL, not as its parameter: what precedes it is the beginning of a truncated record.
_INNER_URL: Final = re.compile(rb"(?:^(?:https?|ftp):/{0,2}[^/?#]*?|^.+?(?<=[A-Za-z0-9]))((?:https?|ftp)://)")


class ArcFormat:
    """See framing.Format."""

    # the schemes found in archives: within a line, letters before an unknown one would be read as part of it
    start: re.Pattern[bytes] = re.compile(rb"(?:https?|dns|ftp|filedesc|warcinfo|whois|gopher|nntp|news)" + _FIELDS)

    def head(self, content: Content, at: int) -> RecordHead:
        line = content.read(at, line_start_bytes_max).partition(b"\n")[0] + b"\n"
        found = _LINE.fullmatch(line)
        if found is None:
            raise UnsoundRecord("no ARC record begins here")
        url, time, length = (field.decode("utf-8", "replace") for field in found.groups())
        if (inner := _INNER_URL.match(found[1])) is not None:
            raise UnsoundRecord("the record ends within its URL", at + inner.start(1))
        if (later := self.start.search(line, found.end(1))) is not None:
            raise UnsoundRecord("the record ends within its first line", at + later.start())
        is_header = url.startswith("filedesc:")
        size = LENGTH.fullmatch(length)
        if size is None and not is_header:
            raise UnsoundRecord(f"length {length[:40]!r} is not a number of bytes")
        headers = {
            "WARC-Type": "arc header" if is_header else "response",
            "WARC-Target-URI": url,
            "WARC-Date": time,
        }
        return RecordHead(headers, len(line), int(size[1]) if size else 0)

    def ends_well(self, content: Content, end: int) -> bool:
        """A line feed follows every block."""
        return content.read(end, 1) == b"\n"

    def is_whole(self, head: RecordHead, block: bytes) -> bool:
        return is_all_there(block)


class ArcArchive(ArchiveInput):
    """See the head of this file."""

    format: ClassVar[str] = "ARC"
    archive: ClassVar[Format] = ArcFormat()
