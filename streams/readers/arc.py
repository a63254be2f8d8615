"""ARC and ARC.gz, the predecessor of WARC (as the Internet Archive wrote it until 2008): responses only.

Each record is a line (URL, address, time, type, length) and that many bytes. A record whose length proves wrong is
rejected; reading goes on at the next line, or gzip member, that begins like a record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import Any, ClassVar, Final

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeadersParserException

from dustream.core.errors import BadEvent
from dustream.streams.readers.archive_input import ArchiveInput
from dustream.streams.readers.archive_record import Outcome, Truncated, read_record
from dustream.streams.readers.framing import next_record_start
from dustream.streams.readers.records import Item

_ARC_RECORD: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:\S+ [0-9A-Fa-f.:]+ \d{12,18} \S+ -?\w+\r?\n")
_FAILURES: Final = (ArchiveLoadFailed, StatusAndHeadersParserException, Truncated, OSError, zlib.error)


class _Records(ArchiveIterator):  # type: ignore[misc]
    """warcio's iterator, which would write what it finds wrong to standard error; `err_count` tells as well."""

    INC_RECORD = ""


class ArcArchive(ArchiveInput):
    """See the head of this file."""

    format: ClassVar[str] = "ARC"

    def _stretch(self, start: int) -> Generator[Item, None, int | None]:
        self.file.seek(start)
        records = _Records(self.file, no_record_parse=True)
        offset = start
        try:
            for record in records:
                offset = self.progress_bytes = records.offset
                outcome = self._outcome(record, records)
                yield from self.give(outcome, offset, end=offset + records.get_record_length())
        except _FAILURES as error:
            next_start = next_record_start(self.file, offset + 1, _ARC_RECORD)
            reason = BadEvent(_one_line(error))
            yield from self.give(reason, offset, end=next_start, ends_input=next_start is None)
            return next_start
        return None

    def _outcome(self, record: Any, records: _Records) -> Outcome:
        block = _ArcBlock(record)
        headers = {
            "WARC-Type": "arc header" if record.rec_type == "arc_header" else "response",
            "WARC-Target-URI": record.rec_headers.get_header("uri"),
            "WARC-Date": record.rec_headers.get_header("archive-date"),
        }
        try:
            outcome: Outcome = read_record(headers, block)
        except BadEvent as error:
            outcome = error
        errors_before = records.err_count
        records.read_to_end()
        block.check_complete()
        if records.err_count > errors_before or not _begins_record(records.next_line):
            raise Truncated("the record does not end where its length says")
        return outcome


class _ArcBlock:
    """The block of an ARC record."""

    def __init__(self, record: Any) -> None:
        length = (record.rec_headers.get_header("length") or "").strip()
        if record.rec_type != "arc_header" and not length.isdecimal():
            raise Truncated(f"length {length[:40]!r} is no number of bytes")
        self.size = int(length) if length.isdecimal() else 0
        self._stream = record.raw_stream

    def read(self, size: int) -> bytes:
        pieces = []
        while size > 0 and (piece := self._stream.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def check_complete(self) -> None:
        missing = getattr(self._stream, "limit", 0)
        if missing > 0:
            raise Truncated(f"the record is truncated: {self.size - missing} of {self.size} bytes are there")


def _begins_record(line: bytes | None) -> bool:
    """Whether what follows a record is another, or the end of the file or member."""
    return line is None or _ARC_RECORD.match(line) is not None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
