"""WACZ: a zip of WARC files (archive/) with indexes and pages beside them. The WARCs are read in place, sorted.

Positions count through all of them; a rejection names the WARC inside as `file.wacz!archive/name.warc.gz`, and offsets
are inside that WARC.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO, ClassVar, Final, cast

from dustream.streams.readers.formats import refuse
from dustream.streams.readers.records import Input, Item, Rejection
from dustream.streams.readers.warc import WarcArchive

_WARC_NAMES: Final = (".warc", ".warc.gz", ".warc.zst")
# damage of the zip itself: a wrong checksum, an unknown compression, a password
_ZIP_FAILURES: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)


class WaczArchive(Input):
    """See the head of this file."""

    format: ClassVar[str] = "WACZ"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._bytes_read = 0
        self._bytes_total = os.path.getsize(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except _ZIP_FAILURES as error:
            raise refuse(path, f"a zip that is truncated or damaged ({error})") from None
        self._members = sorted(
            (info for info in self._zip.infolist() if _is_warc(info.filename)), key=lambda info: info.filename
        )
        if not self._members:
            self._zip.close()
            raise refuse(path, "a zip without WARC files in archive/, not a WACZ")

    def __iter__(self) -> Iterator[Item]:
        position = 0
        for info in self._members:
            position = yield from self._member(info, position)
            self._bytes_read += info.compress_size
        self._bytes_read = self._bytes_total

    def _member(self, info: zipfile.ZipInfo, base: int) -> Generator[Item, None, int]:
        """The records of one WARC; returns the position after them."""
        name = f"{self.path}!{info.filename}"
        try:
            file = cast(BinaryIO, self._zip.open(info))
        except _ZIP_FAILURES as error:
            return (yield from self._damage(name, base, error))
        with WarcArchive(name, file, info.file_size) as warc:
            warc.on_skip = lambda position, reason: self.skip(base + position, reason)
            warc.share = self.share._replace(base=base)
            try:
                for item in warc.start_at(max(0, self.first_position - base)):
                    yield item._replace(position=base + item.position)
            except _ZIP_FAILURES as error:
                return (yield from self._damage(name, base + warc.position, error))
            return base + warc.position

    def _damage(self, name: str, position: int, error: Exception) -> Generator[Item, None, int]:
        if self.gives(position):
            yield Rejection(name, position, 0, f"this part of the zip cannot be read further ({error})")
        return position + 1

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    @property
    def bytes_total(self) -> int | None:
        return self._bytes_total

    def close(self) -> None:
        self._zip.close()


def _is_warc(name: str) -> bool:
    return "archive/" in name and name.lower().endswith(_WARC_NAMES)
