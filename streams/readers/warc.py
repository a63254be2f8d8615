"""WARC and WET, plain, gzip or zstd.

    response     → a fetch: status, Location of a redirect, body of a page (transfer and content codings removed)
    resource     → a page kept without HTTP headers
    revisit      → revisit_of the URL it refers to, or of itself
    conversion   → text (WET)
    all others   → counted as skipped

Only http and https URLs, and only types that can be pages (`is_page_type`), are read; the rest is counted by reason and
its bytes are passed over. Damage costs the records it touches, and one rejection (framing.py).
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import ClassVar, Final

from dustream.streams.readers.archive_input import ArchiveInput
from dustream.streams.readers.content import Content
from dustream.streams.readers.framing import LENGTH, Format, RecordHead, UnsoundRecord
from dustream.streams.readers.http_head import is_all_there

_head_bytes_max: Final = 256 * 1024
_first_read_bytes: Final = 2 * 1024
_BLANK_LINE: Final = re.compile(rb"\n\r*\n")
_FOLD: Final = re.compile(rb"\n[ \t]+")
_DIGESTS: Final = {"sha1": hashlib.sha1, "md5": hashlib.md5, "sha256": hashlib.sha256, "sha-256": hashlib.sha256}
_NO_HEAD: Final = "the record header is broken off or no WARC header"


class _Fields(dict[str, str]):
    """The first value of each field, by its name in lower case."""

    def get(self, key: str) -> str | None:  # type: ignore[override]
        return super().get(key.lower())


class WarcFormat:
    """See framing.Format."""

    start: re.Pattern[bytes] = re.compile(rb"WARC/\d\.\d\r*\n[A-Za-z]")

    def head(self, content: Content, at: int) -> RecordHead:
        text, size = self._text(content, at)
        fields = _fields(text)
        if not fields.get("WARC-Type") or fields.get("Content-Length") is None:
            raise UnsoundRecord(_NO_HEAD)
        length = LENGTH.fullmatch(fields["content-length"])
        if length is None:
            raise UnsoundRecord(f"Content-Length {fields['content-length'][:40]!r} is not a record length")
        return RecordHead(fields, size, int(length[1]))

    def _text(self, content: Content, at: int) -> tuple[bytes, int]:
        """The lines of a head, and the bytes it takes."""
        for bytes_max in (_first_read_bytes, _head_bytes_max):
            text = content.read(at, bytes_max)
            if self.start.match(text) is None:
                raise UnsoundRecord("no WARC record begins here")
            end = _BLANK_LINE.search(text)
            if (inner := self.start.search(text, 1, end.start() if end else bytes_max)) is not None:
                raise UnsoundRecord("the record ends within its header", at + inner.start())
            if end is not None:
                return text[: end.start()], end.end()
        raise UnsoundRecord(_NO_HEAD)

    def ends_well(self, content: Content, end: int) -> bool:
        """Two line ends follow every block (WARC 1.1 section 4), whatever comes after them."""
        return not content.read(end, 4).strip(b"\r\n")

    def is_whole(self, head: RecordHead, block: bytes) -> bool:
        if (digest := head.headers.get("WARC-Block-Digest")) is not None and (fits := _fits(digest, block)) is not None:
            return fits
        return is_all_there(block)


def _fields(text: bytes) -> _Fields:
    """A line that begins with white space continues the previous one."""
    fields = _Fields()
    for line in _FOLD.sub(b" ", text.replace(b"\r", b"")).split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(name.strip().decode("latin-1").lower(), _decoded(value.strip()))
    return fields


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _fits(digest: str, block: bytes) -> bool | None:
    """Whether a labelled digest is that of the block; None if its algorithm is not known here."""
    label, _, value = digest.strip().partition(":")
    make = _DIGESTS.get(label.lower())
    if make is None:
        return None
    found = make(block).digest()
    return value.lower().rstrip("=") in (found.hex(), base64.b32encode(found).decode().lower().rstrip("="))


class WarcArchive(ArchiveInput):
    """See the head of this file."""

    format: ClassVar[str] = "WARC"
    archive: ClassVar[Format] = WarcFormat()
