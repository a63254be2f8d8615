"""The head of an HTTP response as archives keep it."""

from __future__ import annotations

import io
import re
from typing import Final, NamedTuple

from fastwarc.warc import HeaderMap

head_bytes_max: Final = 64 * 1024
_HEAD_END: Final = re.compile(rb"\n\r*\n")
_STATUS_LINE: Final = re.compile(rb"\s*[A-Za-z]+(?:/\d+(?:\.\d+)?)?\s+(\d{3})(?!\d)")
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


class HttpHead(NamedTuple):
    """Status and headers of a response, and how many bytes they took."""

    status: int
    headers: HeaderMap
    size_bytes: int

    def get(self, name: str) -> str | None:
        """First value of a header. Servers send UTF-8 where Latin-1 is allowed; what is not UTF-8 is Latin-1."""
        value: bytes | None = self.headers.get_bytes(name.encode())
        if value is None:
            return None
        try:
            return value.decode().strip()
        except UnicodeDecodeError:
            return value.decode("latin-1").strip()


def parse_http_head(block: bytes) -> HttpHead | None:
    """The head at the beginning of a block; None if there is no HTTP response in it."""
    status = _STATUS_LINE.match(block[:64])
    if status is None:
        return None
    end = _HEAD_END.search(block, 0, head_bytes_max)
    head = block[: end.start()] if end else block.rstrip(b"\r\n")
    headers = HeaderMap()
    lines = (line.rstrip(b"\r") for line in head.split(b"\n"))
    headers.parse(io.BytesIO(b"\r\n".join(lines) + b"\r\n\r\n"))
    return HttpHead(int(status[1]), headers, end.end() if end else len(block))


def has_head(block: bytes) -> bool:
    """Whether a response, if the block is one, has all of its head."""
    return not block.startswith(b"HTTP/") or _HEAD_END.search(block) is not None


def is_all_there(block: bytes) -> bool:
    """Whether an HTTP response is complete by its own Content-Length or final chunk."""
    head = parse_http_head(block)
    if head is None:
        return False
    if "chunked" in (head.get("Transfer-Encoding") or "").lower():
        return block.endswith(_LAST_CHUNK)
    length = head.get("Content-Length") or ""
    return length.isdecimal() and len(length) < 19 and int(length) == len(block) - head.size_bytes
