"""Archives for tests: records of each kind, and ways to put them into a file."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import zstandard

from dustream.streams.readers import Item, Record, Rejection, open_input

BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
VERSION_BLOCK = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
ARC_HEADER = b"filedesc://x.arc 0.0.0.0 20020501120000 text/plain %d\n" % len(VERSION_BLOCK) + VERSION_BLOCK + b"\n"


class Page(NamedTuple):
    """A page as an archive holds it, and as it must come out."""

    url: str
    body: bytes


def page(number: int, words: int = 12) -> Page:
    text = " ".join(f"word{number}x{word}" for word in range(words))
    return Page(f"http://a.de/{number}", f"<p>{text}</p>".encode())


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body


def warc_record(page: Page) -> bytes:
    block = http(page.body)
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {page.url}\r\nWARC-Date: 2024-05-01T12:00:00Z\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def arc_record(page: Page) -> bytes:
    block = http(page.body)
    return f"{page.url} 10.0.0.1 20020501120000 text/html {len(block)}\n".encode() + block + b"\n"


def bgzf(content: bytes, block_bytes: int = 100) -> bytes:
    """As bgzip writes it: blocks that say their size, cut anywhere, and an empty one at the end."""
    blocks = []
    for start in range(0, len(content), block_bytes):
        piece = content[start : start + block_bytes]
        deflate = zlib.compressobj(wbits=-15)
        packed = deflate.compress(piece) + deflate.flush()
        head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", len(packed) + 25)
        blocks.append(head + packed + struct.pack("<II", zlib.crc32(piece), len(piece)))
    return b"".join(blocks) + BGZF_END


Compress = Callable[[bytes], bytes]
BY_RECORD: dict[str, Compress] = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}


def read(path: Path, content: bytes) -> list[Item]:
    path.write_bytes(content)
    with open_input(str(path)) as opened:
        return list(opened)


def pages_in(items: list[Item]) -> list[Page]:
    return [Page(item.event.url, item.event.body or b"") for item in items if isinstance(item, Record)]


def rejections(items: list[Item]) -> list[Rejection]:
    return [item for item in items if isinstance(item, Rejection)]
